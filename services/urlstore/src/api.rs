//! State of the API, which all requests share.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use orbweaver_store::Store;
use orbweaver_url::Policy;
use tokio::{sync::Semaphore, time::Instant};

use crate::{
    allowance::Allowance, archive::Archive, config::UrlstoreConfig, live::LiveCrawl, metrics::UrlstoreMetrics,
    tokens::Tokens,
};

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
    /// `None`: no token is required.
    pub(crate) tokens: Option<Tokens>,
    allowances: Allowances,
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
            tokens: config.tokens().unwrap_or(Some(Tokens::NONE)),
            allowances: Allowances::new(config.token_rate),
            max_content_bytes: config.max_content_bytes,
            timeout: config.timeout,
            requests: Semaphore::new(config.concurrency),
            large: Semaphore::new(LARGE),
        })
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.sources.store
    }

    /// Admits a request of a token, or returns the number of seconds until one is admitted.
    pub(crate) fn admit(&self, token: &Arc<str>) -> Result<(), u64> {
        let Allowances { rate: Some(rate), begun, of } = &self.allowances else { return Ok(()) };
        let mut of = of.lock().unwrap_or_else(PoisonError::into_inner);
        of.entry(Arc::clone(token)).or_default().admit(*rate, begun.elapsed().as_secs_f64())
    }

    /// Counts further units of a request that was admitted.
    pub(crate) fn charge(&self, token: &Arc<str>, units: usize) {
        let mut of = self.allowances.of.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(allowance) = of.get_mut(token) {
            // At most a thousand.
            allowance.add(f64::from(u32::try_from(units).unwrap_or(u32::MAX)));
        }
    }
}

/// Allowances by the name of the token.
#[derive(Debug)]
struct Allowances {
    /// Units per second; `None`: unlimited.
    rate: Option<f64>,
    begun: Instant,
    of: Mutex<HashMap<Arc<str>, Allowance>>,
}

impl Allowances {
    fn new(rate: usize) -> Self {
        let rate = u32::try_from(rate).ok().filter(|rate| *rate > 0).map(f64::from);
        Self { rate, begun: Instant::now(), of: Mutex::default() }
    }
}
