//! Metric names and alert conditions.

use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use crate::site::Deferral;

/// Dispatches scheduled for fetching. Alert: no increase while the frontier dispatches and no site is blocked.
pub(crate) const PASSED: &str = "orbweaver_rate_limiter_passed_dispatches_total";
/// Deferred dispatches, by reason (`interval`, `blocked`, `late`, `frozen`, `paused`, `stopped`, `definition`). Alert: more
/// `interval` than twice the scheduled ones, since then the frontier and the rate-limiter disagree about intervals; any
/// steady `late`, since dispatches wait too long before they reach the rate-limiter; any steady `definition`, since
/// `crawl.control` is not read.
pub(crate) const DEFERRED: &str = "orbweaver_rate_limiter_deferred_dispatches_total";
/// Refusals (429, 503) received. Alert: a rise across many sites; the crawler may be banned as a whole.
pub(crate) const REFUSALS: &str = "orbweaver_rate_limiter_refusals_total";
/// Blocked sites. Alert: a growing share of the active sites.
pub(crate) const BLOCKED: &str = "orbweaver_rate_limiter_blocked_sites";
/// Sites in memory. Alert: growth without more dispatches.
pub(crate) const SITES: &str = "orbweaver_rate_limiter_sites";
/// Interval of scheduled dispatches, in seconds. Alert: none by itself; it shows the request rate that sites permit.
pub(crate) const INTERVAL: &str = "orbweaver_rate_limiter_interval_seconds";
/// Records written to `crawl.sites`. Alert: a rate near that of outcomes; the state of a site flaps.
pub(crate) const RECORDS: &str = "orbweaver_rate_limiter_site_records_total";
/// Records of a previous owner that were appended after the current owner's claim. Alert: any steady increase; a stale
/// owner is still running.
pub(crate) const STALE_RECORDS: &str = "orbweaver_rate_limiter_stale_site_records_total";

#[derive(Debug, Clone)]
pub struct RateLimiterMetrics {
    pub(crate) passed: IntCounter,
    /// By [`Deferral`].
    pub(crate) deferred: [IntCounter; 7],
    pub(crate) refusals: IntCounter,
    pub(crate) blocked: IntGauge,
    pub(crate) sites: IntGauge,
    pub(crate) interval: Histogram,
    pub(crate) records: IntCounter,
    pub(crate) stale_records: IntCounter,
}

impl RateLimiterMetrics {
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let deferred = IntCounterVec::new(Opts::new(DEFERRED, "Deferred dispatches, by reason"), &["reason"])?;
        let buckets = vec![0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0];
        let interval = HistogramOpts::new(INTERVAL, "Interval of scheduled dispatches, in seconds").buckets(buckets);
        let metrics = Self {
            passed: IntCounter::new(PASSED, "Dispatches scheduled for fetching")?,
            deferred: Deferral::ALL.map(|reason| deferred.with_label_values(&[reason.as_str()])),
            refusals: IntCounter::new(REFUSALS, "Refusals (429, 503) received")?,
            blocked: IntGauge::new(BLOCKED, "Sites paused after a 429 or 503")?,
            sites: IntGauge::new(SITES, "Sites in memory")?,
            interval: Histogram::with_opts(interval)?,
            records: IntCounter::new(RECORDS, "Records written to crawl.sites")?,
            stale_records: IntCounter::new(STALE_RECORDS, "Site records of stale owners")?,
        };
        registry.register(Box::new(deferred))?;
        registry.register(Box::new(metrics.passed.clone()))?;
        registry.register(Box::new(metrics.refusals.clone()))?;
        registry.register(Box::new(metrics.blocked.clone()))?;
        registry.register(Box::new(metrics.sites.clone()))?;
        registry.register(Box::new(metrics.interval.clone()))?;
        registry.register(Box::new(metrics.records.clone()))?;
        registry.register(Box::new(metrics.stale_records.clone()))?;
        Ok(metrics)
    }
}
