//! `orbweaver serve`: the API of urlstore over the results of a crawl in one process.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use orbweaver_settings::Section as _;
use orbweaver_store::{FjallOptions, FjallStore};
use orbweaver_urlstore::{Api, Archive, Sources, UrlstoreConfig, UrlstoreMetrics, live::LiveCrawl, server};
use prometheus::Registry;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};
use tokio_util::sync::CancellationToken;

use crate::{
    block_on,
    cli::address,
    crawl::{console::finished, pipeline::ARCHIVE, prepare::lock, run::name, settings::Settings, summary::Summary},
    durable::read_whole,
    exit::{Failure, failed},
    output::to_stdout,
};

/// Arguments of `orbweaver serve`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
GET / is a console for the browser. GET /v1/url?url=URL, /v1/history, /v1/links, /v1/captures and /v1/content, GET \
/v1/pages?site=SITE, and POST /v1/urls; GET /openapi.json describes them. The crawl must not be running, and cannot be resumed meanwhile. SIGINT or SIGTERM ends the command.

Exit codes: 0 ended by a signal, 64 usage error, 66 no such crawl, 73 the crawl is running, 74 store or address unusable.

Examples:
  orbweaver serve docs.example.org.crawl
  curl -G http://127.0.0.1:9480/v1/url --data-urlencode url=https://docs.example.org/")]
pub struct ServeArgs {
    /// Output directory of a crawl.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// IP address and port of the API, without TLS; port 0 selects a free one. Addresses that are not on loopback require
    /// --token-sha256.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9480", value_parser = address)]
    pub listen: SocketAddr,
    /// File with the SHA-256 of the bearer token that each request must have, such as of `printf %s TOKEN | sha256sum`, or with
    /// a line `NAME SCOPE SHA256` for each of several; scopes: `read`, `admin`.
    #[arg(long, value_name = "FILE")]
    pub token_sha256: Option<PathBuf>,
}

/// Runs `orbweaver serve`.
///
/// # Errors
/// Fails if there is no such crawl, it is in use, or the address cannot be listened on.
pub fn run(args: &ServeArgs) -> Result<(), Failure> {
    let state = args.dir.join("state");
    let none = || Failure::Input(format!("{}: holds no crawl", args.dir.display()));
    let settings = Settings::read(&state)?.ok_or_else(none)?;
    let listener = Listener::new(args.listen, args.token_sha256.as_deref(), OPTIONS)?;
    let store = state.join("store");
    if !store.is_dir() {
        return Err(Failure::Input(format!("{}: does not exist", store.display())));
    }
    let _lock = lock(&state)?;
    until_a_signal(&listener, &settings, &args.dir)
}

/// Serves the results of a crawl, which the caller has locked, until SIGINT or SIGTERM.
///
/// # Errors
/// Fails if the store or the archive cannot be opened, or the address cannot be listened on.
pub fn until_a_signal(listener: &Listener, settings: &Settings, dir: &Path) -> Result<(), Failure> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    block_on(threads, Duration::from_secs(1), serve(&listener.config, settings, dir))
}

/// Options of the address and of the token.
const OPTIONS: [&str; 2] = ["--listen", "--token-sha256"];

/// Settings of the server: its address and its token.
#[derive(Debug)]
pub struct Listener {
    pub(crate) config: UrlstoreConfig,
}

impl Listener {
    /// Checks the values of two options.
    ///
    /// # Errors
    /// Fails if other machines can reach the address and no token is required, or the file of the token is invalid.
    pub fn new(listen: SocketAddr, token: Option<&Path>, [address, hash]: [&str; 2]) -> Result<Self, Failure> {
        let token_sha256 = token.map(read_tokens).transpose()?;
        let config = UrlstoreConfig { listen, token_sha256, ..UrlstoreConfig::default() };
        config.check().map_err(|conflict| match &*conflict.key {
            "listen" => Failure::Usage(format!(
                "{address} {listen}: {hash} FILE is required, since the address is not on loopback"
            )),
            _ => Failure::Usage(format!("{hash}: {}", conflict.problem)),
        })?;
        Ok(Self { config })
    }
}

/// Returns the text of a file with the hashes of tokens.
fn read_tokens(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}

/// Returns the archive of a crawl, if it has one.
pub(crate) fn archive(settings: &Settings, dir: &Path) -> Result<Option<Archive>, Failure> {
    match &settings.warc_upload {
        Some(address) => Archive::open(address).map(Some).map_err(|error| Failure::Usage(error.to_string())),
        None => Ok(settings.warc.then(|| Archive::Directory(dir.join(ARCHIVE)))),
    }
}

async fn serve(config: &UrlstoreConfig, settings: &Settings, dir: &Path) -> Result<(), Failure> {
    let uncaught = |error| failed(format!("signal handlers cannot be installed: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(uncaught)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(uncaught)?;
    let archive = archive(settings, dir)?;
    let store = FjallStore::open(dir.join("state/store"), FjallOptions::default()).map_err(failed)?;
    let metrics = UrlstoreMetrics::register(&Registry::new()).map_err(failed)?;
    let (listener, address) = server::listen(config.listen).await.map_err(failed)?;
    let summary: Option<Summary> = read_whole(&dir.join("summary.json")).unwrap_or_default();
    let live = summary.map(|summary| LiveCrawl {
        figures: watch::channel(Arc::new(finished(name(settings, dir), &summary))).1,
        controls: None,
    });
    let sources = Sources { store: Arc::new(store), archive, policy: settings.canonical, live };
    let (api, stop) = (Api::new(config, sources, metrics), CancellationToken::new());
    to_stdout(|out| writeln!(out, "serving {} at http://{address}", dir.display()))?;
    let serving = tokio::spawn(server::serve(listener, api, None, stop.clone()));
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    stop.cancel();
    serving.await.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf %s secret | sha256sum`
    const OF_SECRET: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b  -\n";

    fn args(dir: &Path, listen: &str, token_sha256: Option<&Path>) -> ServeArgs {
        let token_sha256 = token_sha256.map(Path::to_owned);
        ServeArgs { dir: dir.to_owned(), listen: listen.parse().unwrap(), token_sha256 }
    }

    #[test]
    fn an_address_that_others_can_reach_requires_a_token() {
        let dir = tempfile::tempdir().unwrap();
        let config = |args: &ServeArgs| Listener::new(args.listen, args.token_sha256.as_deref(), OPTIONS);
        let refused = config(&args(dir.path(), "0.0.0.0:9480", None)).unwrap_err();
        assert_eq!(refused.code(), 64);
        assert!(refused.to_string().starts_with("--listen 0.0.0.0:9480: --token-sha256 FILE is required"), "{refused}");
        let file = dir.path().join("hash");
        std::fs::write(&file, OF_SECRET).unwrap();
        config(&args(dir.path(), "0.0.0.0:9480", Some(&file))).unwrap();
        std::fs::write(&file, format!("# readers\nsearch read {OF_SECRET}")).unwrap();
        config(&args(dir.path(), "0.0.0.0:9480", Some(&file))).unwrap();
        std::fs::write(&file, "secret").unwrap();
        let refused = config(&args(dir.path(), "127.0.0.1:9480", Some(&file))).unwrap_err();
        assert!(refused.to_string().starts_with("--token-sha256: entry 1: expected the SHA-256"), "{refused}");
        let missing = config(&args(dir.path(), "127.0.0.1:9480", Some(&dir.path().join("none")))).unwrap_err();
        assert_eq!(missing.code(), 66);
    }

    #[test]
    fn a_directory_without_a_crawl_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let refused = run(&args(dir.path(), "127.0.0.1:0", None)).unwrap_err();
        assert_eq!((refused.code(), std::fs::read_dir(dir.path()).unwrap().count()), (66, 0));
        assert!(refused.to_string().ends_with(": holds no crawl"), "{refused}");
    }
}
