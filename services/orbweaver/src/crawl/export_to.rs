//! Export of the results once a crawl has ended.

use std::{
    ffi::OsString,
    path::{Path, absolute},
};

use clap::{
    Args,
    builder::{OsStringValueParser, TypedValueParser as _},
};

use super::pipeline::ARCHIVE;
use crate::{
    exit::Failure,
    shards::{self, args::ExportArgs, destination::Destination},
};

/// Directory of the shards in the output, unless another destination is given.
const SHARDS: &str = "shards";

/// Export at the end of `orbweaver crawl`.
#[derive(Debug, Args)]
pub struct ExportOptions {
    /// Export all results once the crawl has ended, also at a cap, as `orbweaver export` does: as compressed shards with a
    /// manifest, in the directory `shards` of the output, or with `--export=DEST` in another directory or in an S3-compatible
    /// store. A crawl that is stopped before its end is not exported; resume it with the option. On a cluster requires --out.
    #[arg(long, value_name = "DIR|s3://BUCKET/PREFIX", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = OsStringValueParser::new().try_map(ExportTo::parse))]
    pub export: Option<ExportTo>,
}

/// Destination of the export, as given on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportTo {
    /// Directory `shards` of the output.
    Output,
    /// Another directory, or a prefix in a bucket.
    Other(Destination),
}

impl ExportTo {
    /// Parses the value of `--export`, which is empty if the option has none.
    ///
    /// # Errors
    /// Fails as [`Destination::parse`].
    pub fn parse(text: OsString) -> Result<Self, String> {
        if text.is_empty() { Ok(Self::Output) } else { Destination::parse(text).map(Self::Other) }
    }
}

impl ExportOptions {
    /// Checks before the crawl that its results can be exported, as far as this is known then; changes nothing.
    ///
    /// # Errors
    /// Fails if the destination cannot be reached, has other contents, or would have contents of the output.
    pub(crate) fn check(&self, out: &Path) -> Result<(), Failure> {
        let Some(args) = self.args(out) else { return Ok(()) };
        if let Destination::Directory(to) = &args.to
            && is_of_crawl(out, to).map_err(|error| Failure::Output(format!("{}: {error}", to.display())))?
        {
            return Err(Failure::Usage(format!(
                "--export: {} has or will have files of the crawl itself; give a directory of the export alone",
                to.display()
            )));
        }
        shards::check(&args).map_err(|failure| failure.with(|text| format!("--export: {text}")))
    }

    /// Exports the results in `out`, and prints the counts.
    ///
    /// # Errors
    /// Fails if the export fails or is interrupted.
    pub(crate) fn run(&self, out: &Path) -> Result<(), Failure> {
        let Some(args) = self.args(out) else { return Ok(()) };
        let (to, shown) = (&args.to, out.display());
        let failed = |text| {
            format!(
                "--export: {text}\nthe crawl itself has ended; `orbweaver export {shown} --to {to}` exports its results"
            )
        };
        let lines = shards::lines(&args).map_err(|failure| failure.with(failed))?;
        notice!("export: {to}");
        lines.iter().for_each(|line| notice!("  {line}"));
        Ok(())
    }

    /// Returns the arguments of the export, if one is wanted.
    fn args(&self, out: &Path) -> Option<ExportArgs> {
        let to = match self.export.as_ref()? {
            ExportTo::Output => Destination::Directory(out.join(SHARDS)),
            ExportTo::Other(to) => to.clone(),
        };
        Some(ExportArgs::all(out.to_owned(), to))
    }
}

/// Whether a directory is the output or above it, or one in which the crawl has files.
fn is_of_crawl(out: &Path, to: &Path) -> std::io::Result<bool> {
    let (out, to) = (absolute(out)?, absolute(to)?);
    Ok(out.starts_with(&to) || ["state", ARCHIVE].iter().any(|own| to.starts_with(out.join(own))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command, crawl_args};

    #[test]
    fn results_are_exported_into_the_output_or_to_the_given_destination() {
        let to = |options: &[&str]| {
            let args = crawl_args(&[&["http://a.test/"], options].concat());
            args.export.args(Path::new("a.crawl")).map(|args| args.to.to_string())
        };
        assert_eq!(to(&[]), None);
        assert_eq!(to(&["--export"]).as_deref(), Some("a.crawl/shards"));
        assert_eq!(to(&["--export", "http://b.test/"]).as_deref(), Some("a.crawl/shards"), "the URL is a seed");
        assert_eq!(to(&["--export=out"]).as_deref(), Some("out"));
        assert_eq!(to(&["--export=s3://results/a"]).as_deref(), Some("s3://results/a"));
        assert!(ExportTo::parse("gs://results/a".into()).unwrap_err().contains("expected a directory"));
    }

    #[test]
    fn an_export_at_the_end_has_the_defaults_of_the_command() {
        use clap::Parser as _;
        let Command::Export(parsed) = Cli::parse_from(["orbweaver", "export", "a", "--to", "b"]).command else {
            unreachable!("it is `export`")
        };
        let all = ExportArgs::all("a".into(), Destination::Directory("b".into()));
        assert_eq!(format!("{all:?}"), format!("{parsed:?}"));
    }

    #[test]
    fn the_files_of_a_crawl_are_no_destination() {
        for (to, is_of_crawl) in [
            ("work/a.crawl", true),
            ("work/./a.crawl/", true),
            ("work", true),
            (".", true),
            ("work/a.crawl/state", true),
            ("work/a.crawl/state/b", true),
            ("work/a.crawl/warc/b", true),
            ("work/a.crawl/shards", false),
            ("work/a.crawl.shards", false),
            ("work/a", false),
            ("b", false),
        ] {
            assert_eq!(super::is_of_crawl(Path::new("work/a.crawl"), Path::new(to)).unwrap(), is_of_crawl, "{to}");
        }
    }
}
