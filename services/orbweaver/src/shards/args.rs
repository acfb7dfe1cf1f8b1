//! Arguments of `orbweaver export`.

use std::path::PathBuf;

use clap::{
    Args, ValueEnum,
    builder::{OsStringValueParser, TypedValueParser as _},
};
use serde::{Deserialize, Serialize};

use super::{
    bucket::MAX_SHARD_BYTES,
    destination::Destination,
    filter::{Filter, Language, Site, StatusRange, Time},
    manifest::Selection,
};
use crate::{cli::size, exit::Failure};

/// Smallest size of a shard, in bytes: the manifest, which is replaced with each of them, names all.
const MIN_SHARD_BYTES: u64 = 1 << 20;

/// Default size of a shard, in bytes: that of `--shard-bytes`.
const SHARD_BYTES: u64 = 256 << 20;

/// Arguments of `orbweaver export`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Documents are the lines of documents.jsonl, pages those of urls.jsonl; links are the edges of documents, with from, to, text, \
rel, kind and the time of the page. Shards (documents-00000.jsonl.zst, …) are never changed, and manifest.json names the complete ones: \
records, bytes, SHA-256, and their part of the results.

The same command exports new results, or continues after any interruption. A running or stopped crawl is exported \
as far as its results cannot change any more.

The settings of an S3-compatible store are environment variables: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION or \
AWS_DEFAULT_REGION, AWS_ENDPOINT_URL for other stores than Amazon's, and AWS_ALLOW_HTTP=true for one without TLS.

Exit codes: 0 exported, 64 usage error, or other options than those of the export that continues, 66 results unreadable, \
73 output unusable, 75 interrupted (the same command continues).

Examples:
  orbweaver export docs.example.org.crawl --to docs
  orbweaver export docs.example.org.crawl --to english --what documents --language en --status 2xx
  orbweaver export docs.example.org.crawl --to s3://results/docs
  zstd -dc docs/links-*.jsonl.zst")]
pub struct ExportArgs {
    /// Output directory of a crawl.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Destination of the export, a directory or a prefix in an S3-compatible store: new, empty, or with an export with these
    /// options.
    #[arg(long, value_name = "DIR|s3://BUCKET/PREFIX", value_parser = OsStringValueParser::new().try_map(Destination::parse))]
    pub to: Destination,
    /// Export only these kinds of results (may be repeated, or separated by commas) [default: all; with --language
    /// or --unique documents and links].
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub what: Vec<Kind>,
    /// Size of a shard before compression, which its last record may exceed; at least 1MiB. It may change between runs.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = shard_size)]
    pub shard_bytes: u64,
    /// Export only results of this host and its subdomains, such as `example.org` (may be repeated, or separated by commas).
    /// Conditions apply to the page of a link, not to its target.
    #[arg(long, value_name = "SITE", value_delimiter = ',')]
    pub site: Vec<Site>,
    /// Export only results with these HTTP statuses, such as `200,404` or `2xx` (may be repeated).
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    pub status: Vec<StatusRange>,
    /// Export only pages in these languages: declared, or detected if the documents have facts; `en` also selects `en-GB`
    /// (may be repeated, or separated by commas).
    #[arg(long, value_name = "LANGUAGE", value_delimiter = ',')]
    pub language: Vec<Language>,
    /// Export only documents that are not marked as near duplicates, and their links.
    #[arg(long)]
    pub unique: bool,
    /// Export only results from this time on, such as `2027-01-01` or `2027-01-01T12:00:00Z`.
    #[arg(long, value_name = "TIME")]
    pub since: Option<Time>,
    /// Export only results before this time.
    #[arg(long, value_name = "TIME")]
    pub until: Option<Time>,
    /// Print the summary as one line of JSON.
    #[arg(long)]
    pub json: bool,
}

impl ExportArgs {
    /// Returns the arguments of an export of all results, with the default of each option.
    pub(crate) fn all(dir: PathBuf, to: Destination) -> Self {
        Self {
            dir,
            to,
            what: vec![],
            shard_bytes: SHARD_BYTES,
            site: vec![],
            status: vec![],
            language: vec![],
            unique: false,
            since: None,
            until: None,
            json: false,
        }
    }

    /// Returns the selected results, the same for each order of the options.
    ///
    /// # Errors
    /// Fails if a condition applies to a kind that lacks the property, or if the destination cannot have such shards.
    pub(super) fn selection(&self) -> Result<Selection, Failure> {
        if matches!(self.to, Destination::Bucket(_)) && self.shard_bytes > MAX_SHARD_BYTES {
            return Err(Failure::Usage("--shard-bytes: at most 64GiB in a bucket".to_owned()));
        }
        let of_documents = [
            (!self.language.is_empty(), "--language: pages have no language"),
            (self.unique, "--unique: pages have no marks of near duplicates"),
        ];
        let of_documents = of_documents.into_iter().find_map(|(is_given, reason)| is_given.then_some(reason));
        if let Some(reason) = of_documents.filter(|_| self.what.contains(&Kind::Pages)) {
            return Err(Failure::Usage(format!("{reason}; give --what documents,links")));
        }
        if let (Some(since), Some(until)) = (self.since, self.until)
            && since >= until
        {
            return Err(Failure::Usage(format!("--since {since} --until {until}: no result is in this time")));
        }
        let is_wanted = |kind: &Kind| match &*self.what {
            [] => of_documents.is_none() || *kind != Kind::Pages,
            what => what.contains(kind),
        };
        let filter = Filter {
            sites: sorted(&self.site),
            status: sorted(&self.status),
            languages: sorted(&self.language),
            unique: self.unique,
            since: self.since,
            until: self.until,
        };
        Ok(Selection { what: Kind::ALL.into_iter().filter(is_wanted).collect(), filter })
    }
}

fn sorted<T: Ord + Clone>(values: &[T]) -> Vec<T> {
    let mut values = values.to_vec();
    values.sort();
    values.dedup();
    values
}

fn shard_size(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if bytes < MIN_SHARD_BYTES { Err("expected at least 1MiB".to_owned()) } else { Ok(bytes) }
}

/// Kind of exported results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Lines of documents.jsonl
    Documents,
    /// Links of documents, one record per link
    Links,
    /// Lines of urls.jsonl
    Pages,
}

impl Kind {
    /// All kinds, in the order of the export.
    pub const ALL: [Self; 3] = [Self::Documents, Self::Links, Self::Pages];

    /// Returns the name, as given on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Documents => "documents",
            Self::Links => "links",
            Self::Pages => "pages",
        }
    }

    /// Returns the name of a shard.
    #[must_use]
    pub fn shard(self, number: usize) -> String {
        format!("{}-{number:05}.jsonl.zst", self.name())
    }
}
