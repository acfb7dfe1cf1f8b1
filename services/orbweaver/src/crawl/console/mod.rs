//! The console of `orbweaver crawl`: the API of urlstore over the store of the running crawl, with its figures and controls.

mod controls;
mod figures;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use orbweaver_log::Log;
use orbweaver_url::CrawlName;
use orbweaver_urlstore::{
    Api, Sources, UrlstoreMetrics,
    live::{LiveCrawl, Overview},
    server,
};
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

pub use self::figures::finished;
use self::{
    controls::{LogControls, Wishes},
    figures::Figures,
};
use super::{
    pipeline::Pipeline,
    prepare::Prepared,
    progress::Snapshot,
    run::{dead_letters, name},
    settings::Settings,
    site_settings,
    summary::EndedBy,
};
use crate::{
    cli::address,
    exit::{Failure, failed},
    serve,
};

/// Console of `orbweaver crawl`.
#[derive(Debug, Args)]
pub struct ConsoleOptions {
    /// Serve the console of the crawl, and the API of urlstore, at http://ADDRESS/, such as 127.0.0.1:9480; port 0 selects a free one.
    /// Once the crawl has ended by itself, they are served until SIGINT. Addresses that are not on loopback require
    /// --console-token-sha256.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    #[cfg_attr(feature = "cluster", arg(conflicts_with = "brokers"))]
    pub console: Option<SocketAddr>,
    /// File with the SHA-256 of the bearer token that the console requires, such as of `printf %s TOKEN | sha256sum`, or with a
    /// line `NAME SCOPE SHA256` for each of several; with the scope `read` a token changes nothing, with `admin` it may.
    #[arg(long, value_name = "FILE", requires = "console")]
    pub console_token_sha256: Option<PathBuf>,
}

impl ConsoleOptions {
    /// Checks the options before a crawl is created.
    ///
    /// # Errors
    /// Fails if other machines can reach the address and no token is required, or the file of the token is invalid.
    pub fn check(&self) -> Result<(), Failure> {
        self.listener().map(drop)
    }

    fn listener(&self) -> Result<Option<serve::Listener>, Failure> {
        self.listener_at(self.console)
    }

    fn listener_at(&self, address: Option<SocketAddr>) -> Result<Option<serve::Listener>, Failure> {
        let Some(listen) = address else { return Ok(None) };
        let (address, token) = ("--console", "--console-token-sha256");
        serve::Listener::new(listen, self.console_token_sha256.as_deref(), [address, token]).map(Some)
    }

    /// Serves the console of a running crawl, if this is wanted.
    pub(crate) async fn open(&self, pipeline: &Pipeline, prepared: &Prepared) -> Result<Option<Console>, Failure> {
        let Some(listener) = self.listener()? else { return Ok(None) };
        let log: Arc<dyn Log> = pipeline.log.clone();
        let controls = site_settings::controls(&*log).await?;
        let frozen = controls.all().filter(|settings| settings.frozen).map(|settings| settings.site.clone()).collect();
        let wishes = Arc::new(Wishes::new(frozen));
        let mut figures = Figures::new(name(&prepared.settings, &prepared.out));
        let (sender, receiver) = watch::channel(Arc::new(figures.first(&wishes)));
        let controls = Arc::new(LogControls::new(Arc::clone(&log), Arc::clone(&wishes)));
        let sources = Sources {
            store: pipeline.store(),
            archive: serve::archive(&prepared.settings, &prepared.out)?,
            policy: prepared.settings.canonical,
            live: Some(LiveCrawl { figures: receiver, controls: Some(controls) }),
        };
        let metrics = UrlstoreMetrics::register(pipeline.registry()).map_err(failed)?;
        let named = |error: &dyn std::fmt::Display| failed(format!("--console: {error}"));
        let (listening, address) = server::listen(listener.config.listen).await.map_err(|error| named(&error))?;
        let stop = CancellationToken::new();
        let api = Api::new(&listener.config, sources, metrics);
        let serving = tokio::spawn(server::serve(listening, api, None, stop.clone()));
        notice!("console: http://{address}/");
        Ok(Some(Console { address, log, wishes, figures, sender, stop, serving }))
    }

    /// Serves the console and the API over the results of a crawl that has ended, if this is wanted, until a signal. `address`: that of
    /// the console of the running crawl, if there was one.
    pub(crate) fn remain(&self, address: Option<SocketAddr>, settings: &Settings, out: &Path) -> Result<(), Failure> {
        let Some(listener) = self.listener_at(address.or(self.console))? else { return Ok(()) };
        serve::until_a_signal(&listener, settings, out)
    }
}

/// Name of the crawl in one process.
fn crawl() -> CrawlName {
    CrawlName::default()
}

/// Console of a running crawl.
pub(crate) struct Console {
    pub(crate) address: SocketAddr,
    log: Arc<dyn Log>,
    wishes: Arc<Wishes>,
    figures: Figures,
    sender: watch::Sender<Arc<Overview>>,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Console {
    /// Waits until a user stops the crawl.
    pub(crate) async fn stopped(&self) {
        self.wishes.stop.cancelled().await;
    }

    /// Shows figures, unless the last ones are of the same second.
    pub(crate) async fn show(&mut self, snapshot: &Snapshot, settings: &Settings) -> Result<(), Failure> {
        if self.figures.are_recent(snapshot.elapsed) {
            return Ok(());
        }
        let lags = figures::lags(&*self.log, settings).await?;
        let dead_letters = dead_letters(&*self.log).await?;
        let figures = self.figures.of(snapshot, lags, dead_letters, &self.wishes);
        self.sender.send_replace(Arc::new(figures));
        Ok(())
    }

    /// Shows that the crawl is stopping.
    pub(crate) fn stopping(&self) {
        self.sender.send_modify(|last| *last = Arc::new(figures::stopping(last)));
    }

    /// Shows the end of the crawl, and ends the server.
    pub(crate) async fn end(self, by: EndedBy) {
        self.sender.send_modify(|last| *last = Arc::new(figures::ended(last, by)));
        self.stop.cancel();
        // It ends within its grace.
        let _ = self.serving.await;
    }
}
