//! Metrics of all processes of a thread, registered once: registration costs more than a schedule.

use orbweaver_extractor::ExtractorMetrics;
use orbweaver_fetcher::FetcherMetrics;
use orbweaver_frontier::metrics::FrontierMetrics;
use orbweaver_rate_limiter::RateLimiterMetrics;
use orbweaver_stage::metrics::{Metrics, REPEATED_COMPLETIONS};
use prometheus::Registry;

/// Metrics of a thread. Clones share their state.
#[derive(Clone)]
pub struct Counts {
    registry: Registry,
    pub(crate) stage: Metrics,
    pub(crate) frontier: FrontierMetrics,
    pub(crate) limiter: RateLimiterMetrics,
    pub(crate) fetcher: FetcherMetrics,
    pub(crate) extractor: ExtractorMetrics,
}

impl Counts {
    /// Registers all metrics.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        Ok(Self {
            stage: Metrics::register(&registry)?,
            frontier: FrontierMetrics::register(&registry)?,
            limiter: RateLimiterMetrics::register(&registry)?,
            fetcher: FetcherMetrics::register(&registry)?,
            extractor: ExtractorMetrics::register(&registry)?,
            registry,
        })
    }

    /// Returns the number of records completed twice under one assignment, or without having been delivered: a
    /// service's fault.
    #[must_use]
    pub fn repeated(&self) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == REPEATED_COMPLETIONS);
        family.map_or(0.0, |family| family.get_metric().iter().map(|metric| metric.get_counter().get_value()).sum())
    }
}
