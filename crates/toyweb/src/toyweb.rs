//! Web served within a process.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use crate::config::{ConfigError, WebConfig};
use crate::content::Content;
use crate::demo::Demo;
use crate::directory::Directory;
use crate::greedy::{Greedy, GreedyConfig};
use crate::hosts::addresses;
use crate::log::{Logging, RequestLog};
use crate::server::{Running, bind};
use crate::truth::{Expected, truth};
use crate::web::Web;

/// Failure to start a web.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A setting is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An address could not be bound, or the log or the directory could not be opened.
    #[error("the web cannot be started: {0}")]
    Io(#[from] io::Error),
}

/// Port and request logging.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Serving {
    /// Port; 0 for any free port.
    pub port: u16,
    /// Contents of the request log.
    pub logging: Logging,
}

/// Web served on loopback addresses until it is dropped or stopped.
#[derive(Debug)]
pub struct ToyWeb {
    address: SocketAddr,
    start_url: String,
    config: Option<WebConfig>,
    log: Arc<RequestLog>,
    running: Running,
}

impl ToyWeb {
    /// Serves a generated web. Returns once it listens; needs no runtime of the caller.
    ///
    /// # Errors
    /// If a setting is out of range, an address cannot be bound or the log cannot be opened.
    pub fn start(config: WebConfig, serving: &Serving) -> Result<Self, StartError> {
        config.validate()?;
        let kept = config.clone();
        let mut web = Self::serve(&addresses(&config), serving, |port| {
            let web = Web::new(config, port).map_err(io::Error::other)?;
            let start = web.page_url(0);
            Ok((Content::Generated(web), start))
        })?;
        web.config = Some(kept);
        Ok(web)
    }

    /// Serves the demo web: three named hosts, about two hundred pages.
    pub fn start_demo(serving: &Serving) -> Result<Self, StartError> {
        Self::serve(&[Ipv4Addr::LOCALHOST], serving, |port| {
            let demo = Demo::new(port);
            let start = demo.start_url();
            Ok((Content::Demo(demo), start))
        })
    }

    /// Serves the heavy web on 127.0.0.1; see [`heavy_paths`](crate::heavy_paths).
    pub fn start_heavy(serving: &Serving) -> Result<Self, StartError> {
        Self::serve(&[Ipv4Addr::LOCALHOST], serving, |port| Ok((Content::Heavy, format!("http://127.0.0.1:{port}/"))))
    }

    /// Serves a directory of files on 127.0.0.1.
    ///
    /// # Errors
    /// If `root` is not a directory, loopback cannot be bound or the log cannot be opened.
    pub fn start_directory(root: &Path, serving: &Serving) -> Result<Self, StartError> {
        let directory = Directory::new(root)?;
        Self::serve(&[Ipv4Addr::LOCALHOST], serving, |port| {
            Ok((Content::Directory(directory), format!("http://127.0.0.1:{port}/")))
        })
    }

    /// Serves a memory-intensive web.
    ///
    /// # Errors
    /// If there is no host, an address cannot be bound or the log cannot be opened.
    pub fn start_greedy(config: GreedyConfig, serving: &Serving) -> Result<Self, StartError> {
        Self::serve(&config.addresses(), serving, |port| {
            let greedy = Greedy::new(config, port)?;
            let start = greedy.start_url();
            Ok((Content::Greedy(greedy), start))
        })
    }

    fn serve(
        addresses: &[Ipv4Addr],
        serving: &Serving,
        content: impl FnOnce(u16) -> io::Result<(Content, String)>,
    ) -> Result<Self, StartError> {
        let log = Arc::new(RequestLog::open(&serving.logging)?);
        let listeners = bind(addresses, serving.port)?;
        let first = listeners.first().ok_or_else(|| io::Error::other("no address to listen on"))?;
        let address = first.local_addr()?;
        let (content, start_url) = content(address.port())?;
        let running = Running::start(content, Arc::clone(&log), listeners)?;
        Ok(Self { address, start_url, config: None, log, running })
    }

    /// Returns the first address of the listeners.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL at which a crawl starts.
    #[must_use]
    pub fn start_url(&self) -> &str {
        &self.start_url
    }

    #[must_use]
    pub fn log(&self) -> &RequestLog {
        &self.log
    }

    /// Returns the expected result of every URL of a generated web; empty for any other web.
    #[must_use]
    pub fn truth(&self) -> Vec<Expected> {
        let web = self.config.clone().and_then(|config| Web::new(config, self.address.port()).ok());
        web.map(|web| truth(&web).collect()).unwrap_or_default()
    }

    /// Stops serving and closes open connections.
    pub fn stop(self) {
        drop(self.running);
    }
}
