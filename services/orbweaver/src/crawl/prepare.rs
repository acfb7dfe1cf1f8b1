//! Creates the output directory, or finds an existing one.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use orbweaver_url::parse_seed;

use super::{archive_to, settings::Settings};
use crate::{cli::CrawlArgs, durable::create_dir, exit::Failure};

/// A crawl that is ready to start or to be resumed.
#[derive(Debug)]
pub struct Prepared {
    /// Directory of the results.
    pub out: PathBuf,
    /// Directory `out/state`.
    pub state: PathBuf,
    pub settings: Settings,
    /// Record limit of its log, in bytes.
    pub record_limit: usize,
    /// Held while this process works on the crawl; the operating system releases it however the process ends.
    _lock: File,
}

/// Finds or creates the output directory of a crawl and locks it.
pub fn prepare(args: &CrawlArgs) -> Result<Prepared, Failure> {
    let urls = seed_urls(&args.urls)?;
    let out = match &args.out {
        Some(out) => out.clone(),
        None => default_out(args, &urls)?,
    };
    let state = out.join("state");
    let existing = if out.exists() { Settings::read(&state)? } else { None };
    if existing.is_none() {
        if urls.is_empty() && args.seeds.is_none() && !args.demo {
            let message = "holds no crawl to resume; give a seed URL, --seeds FILE or --demo";
            return Err(Failure::Usage(format!("{}: {message}", out.display())));
        }
        check_unused(&out)?;
    }
    // Validated before anything is created, so that a wrong option leaves no directory behind.
    args.export.check(&out)?;
    args.console.check()?;
    let new = if existing.is_none() { Some(Settings::new(args, urls.clone())?) } else { None };
    if let (None, Some(seeds)) = (&existing, &args.seeds) {
        check_readable(seeds)?;
    }
    new.as_ref().map_or(Ok(()), archive_to::check)?;
    create_dir(&state)?;
    let lock = lock(&state)?;
    #[cfg(feature = "cluster")]
    let record_limit = args.cluster.kafka.record_limit;
    #[cfg(not(feature = "cluster"))]
    let record_limit = orbweaver_log::RECORD_LIMIT;
    // Read again under the lock, since another process may have created the crawl in between.
    let settings = match Settings::read(&state)? {
        Some(mut settings) => {
            settings.resume(args, &urls)?;
            settings
        }
        None => new.map_or_else(|| Settings::new(args, urls), Ok)?,
    };
    settings.write(&state)?;
    Ok(Prepared { out, state, settings, record_limit, _lock: lock })
}

/// Returns the seeds of the command line as they will be requested.
///
/// # Errors
/// Returns the first URL that cannot be crawled.
pub(crate) fn seed_urls(texts: &[String]) -> Result<Vec<String>, Failure> {
    let parse = |text: &String| match parse_seed(text) {
        Ok(url) => Ok(url.to_string()),
        Err(error) => Err(Failure::Usage(format!("`{text}`: {error}"))),
    };
    texts.iter().map(parse).collect()
}

fn default_out(args: &CrawlArgs, urls: &[String]) -> Result<PathBuf, Failure> {
    if args.demo {
        return Ok(PathBuf::from("./demo.crawl"));
    }
    let Some(first) = urls.first() else {
        let message = if args.seeds.is_some() {
            "give --out DIR: there is no URL to name the output directory after"
        } else {
            "give a seed URL, --seeds FILE or --demo; or --out DIR of a crawl to resume"
        };
        return Err(Failure::Usage(message.to_owned()));
    };
    let host = parse_seed(first).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
    let name: String = host.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    Ok(PathBuf::from(format!("./{}.crawl", name.trim_matches(['-', '.']))))
}

/// Checks that the directory is absent, empty, or holds only an unfinished crawl.
pub(crate) fn check_unused(out: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::Output(format!("{}: {error}", out.display()));
    let entries = match std::fs::read_dir(out) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    for entry in entries {
        // A process that is killed while it creates a crawl leaves a `state` directory without settings.
        if entry.map_err(failed)?.file_name() != "state" {
            let message = "is not empty and holds no crawl; give another --out";
            return Err(Failure::Output(format!("{}: {message}", out.display())));
        }
    }
    Ok(())
}

/// Checks that a seeds file can be read; `-` is stdin.
pub(crate) fn check_readable(seeds: &Path) -> Result<(), Failure> {
    if seeds == Path::new("-") {
        return Ok(());
    }
    let failed = |error: io::Error| Failure::Input(format!("cannot read the seeds file {}: {error}", seeds.display()));
    let metadata = std::fs::metadata(seeds).map_err(failed)?;
    if metadata.is_dir() {
        return Err(Failure::Input(format!("cannot read the seeds file {}: it is a directory", seeds.display())));
    }
    // A pipe is opened once: its writer ends when its reader closes it.
    if metadata.is_file() {
        File::open(seeds).map_err(failed)?;
    }
    Ok(())
}

/// Locks the state directory of a crawl for this process.
pub(crate) fn lock(state: &Path) -> Result<File, Failure> {
    let path = state.join("lock");
    let failed = |error: &dyn std::fmt::Display| Failure::Output(format!("{}: {error}", path.display()));
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(|error| failed(&error))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let out = state.parent().unwrap_or(state).display();
            Err(Failure::Output(format!("{out}: another process is working on this crawl")))
        }
        Err(error) => Err(failed(&error)),
    }
}
