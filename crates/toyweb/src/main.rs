//! Standalone process of a test web: prints the start URL as its first line and serves until standard input ends, a
//! signal arrives or the time limit is reached.

use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use orbweaver_toyweb::{Kind, Logging, Serving, StartError, ToyWeb, WebConfig};
use tokio::io::AsyncReadExt as _;
use tokio::signal::unix::{SignalKind, signal};

/// Exit code for an invalid command line or setting.
const USAGE: u8 = 64;
/// Exit code for a web that could not be served.
const UNAVAILABLE: u8 = 69;

#[derive(Debug, Parser)]
#[command(version, about = "Serve a generated test web with a known expected result for every URL.")]
struct Options {
    /// Port to listen on; 0 for any free port
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Number of pages
    #[arg(long, default_value_t = 1_000)]
    pages: u64,
    /// Links per page
    #[arg(long, default_value_t = 30)]
    links: u32,
    /// Size of a page in bytes
    #[arg(long, default_value_t = 16_384)]
    bytes: u32,
    /// Seed of the generator; the same seed gives the same web
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of hosts that are loopback addresses, each a separate site
    #[arg(long, default_value_t = 1)]
    hosts: u32,
    /// Number of named hosts
    #[arg(long, default_value_t = 0)]
    named_hosts: u32,
    /// Number of registrable domains over which the named hosts are distributed
    #[arg(long, default_value_t = 1)]
    named_sites: u32,
    /// Number of special places per kind, separated by commas; all=COUNT for every kind except traps and bulky kinds
    #[arg(long, value_name = "KIND=COUNT", value_delimiter = ',')]
    with: Vec<String>,
    /// Serve the files of a directory instead of a generated web
    #[arg(long, value_name = "DIR", conflicts_with_all = ["demo", "heavy", "truth"])]
    dir: Option<PathBuf>,
    /// Serve the demo web instead of a generated web
    #[arg(long, conflicts_with = "truth")]
    demo: bool,
    /// Serve the heavy web instead of a generated web: 28 pages with large bodies and many links
    #[arg(long, conflicts_with_all = ["demo", "truth"])]
    heavy: bool,
    /// Append every request to a file as a line of JSON
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Before serving, write the expected result of every URL to a file as lines of JSON
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Exit after this many seconds
    #[arg(long, value_name = "SECONDS")]
    max_seconds: Option<u64>,
}

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    match serve(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "orbweaver-toyweb: {error}");
            ExitCode::from(if matches!(error, StartError::Config(_)) { USAGE } else { UNAVAILABLE })
        }
    }
}

fn serve(options: &Options) -> Result<(), StartError> {
    let logging = options.log.clone().map_or(Logging::Count, Logging::File);
    let serving = Serving { port: options.port, logging };
    let web = match &options.dir {
        Some(root) => ToyWeb::start_directory(root, &serving)?,
        None if options.demo => ToyWeb::start_demo(&serving)?,
        None if options.heavy => ToyWeb::start_heavy(&serving)?,
        None => ToyWeb::start(options.web()?, &serving)?,
    };
    if let Some(path) = &options.truth {
        let created = std::fs::File::create(path);
        let created = created.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        let mut file = BufWriter::new(created);
        for expected in web.truth() {
            serde_json::to_writer(&mut file, &expected).map_err(io::Error::from)?;
            file.write_all(b"\n")?;
        }
        file.flush()?;
    }
    writeln!(io::stdout(), "{}", web.start_url())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(ended(options.max_seconds.map(Duration::from_secs)))?;
    // A read of standard input cannot be cancelled, and waiting for it would outlast the web.
    runtime.shutdown_background();
    let _ = writeln!(io::stderr(), "orbweaver-toyweb: {} requests", web.log().count());
    web.stop();
    Ok(())
}

impl Options {
    fn web(&self) -> Result<WebConfig, StartError> {
        let mut config = WebConfig {
            seed: self.seed,
            pages: self.pages,
            links: self.links,
            bytes: self.bytes,
            address_hosts: self.hosts,
            named_hosts: self.named_hosts,
            named_sites: self.named_sites,
            ..WebConfig::default()
        };
        for special in &self.with {
            let wrong =
                |allowed: String| orbweaver_toyweb::ConfigError { key: "with", value: special.clone(), allowed };
            let (kind, count) = special.split_once('=').ok_or_else(|| wrong("KIND=COUNT".into()))?;
            let count = count.parse().map_err(|_| wrong("KIND=COUNT, where COUNT is a number".into()))?;
            if kind == "all" {
                config = config.with_every_special(count);
            } else {
                config.specials.insert(kind.parse::<Kind>().map_err(wrong)?, count);
            }
        }
        Ok(config)
    }
}

/// Waits for the end of standard input, a signal or the time limit.
async fn ended(limit: Option<Duration>) -> io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let timer = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    let input = async {
        let (mut stdin, mut scrap) = (tokio::io::stdin(), [0; 1_024]);
        while stdin.read(&mut scrap).await.is_ok_and(|read| read > 0) {}
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = timer => {}
        () = input => {}
    }
    Ok(())
}
