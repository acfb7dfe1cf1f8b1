//! State of the API, which all requests share.

use std::{fmt, sync::Arc, time::Duration};

use orbweaver_store::Store;
use orbweaver_url::Policy;
use tokio::sync::Semaphore;

use crate::{archive::Archive, config::UrlstoreConfig, live::LiveCrawl, metrics::UrlstoreMetrics, token::TokenHash};

/// Maximum number of requests with large answers (links, content, pages, batches) that are answered concurrently: each may take tens of
/// MiB of memory.
const LARGE: usize = 8;

/// Sources of the API: what it answers from.
#[derive(Clone)]
pub struct Sources {
    pub store: Arc<dyn Store>,
    /// `None`: no content is served.
    pub archive: Option<Archive>,
    /// Policy of the canonical form, unless a request names one.
    pub policy: Policy,
    /// `None`: no crawl is next to the API.
    pub live: Option<LiveCrawl>,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { archive, policy, live, .. } = self;
        f.debug_struct("Sources")
            .field("archive", archive)
            .field("policy", policy)
            .field("live", live)
            .finish_non_exhaustive()
    }
}

/// State of the API.
#[derive(Debug)]
pub struct Api {
    pub(crate) sources: Sources,
    pub(crate) metrics: UrlstoreMetrics,
    pub(crate) token: Option<TokenHash>,
    pub(crate) max_content_bytes: usize,
    pub(crate) timeout: Duration,
    /// Permits of requests.
    pub(crate) requests: Semaphore,
    /// Permits of requests with large answers.
    pub(crate) large: Semaphore,
}

impl Api {
    /// Creates the state. The settings must be free of conflicts: with an invalid hash, no token is admitted.
    #[must_use]
    pub fn new(config: &UrlstoreConfig, sources: Sources, metrics: UrlstoreMetrics) -> Arc<Self> {
        Arc::new(Self {
            sources,
            metrics,
            token: config.token().unwrap_or(Some(TokenHash::OF_NO_TOKEN)),
            max_content_bytes: config.max_content_bytes,
            timeout: config.timeout,
            requests: Semaphore::new(config.concurrency),
            large: Semaphore::new(LARGE),
        })
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.sources.store
    }
}
