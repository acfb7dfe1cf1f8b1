//! Names of the metrics, and when to alert.

use orbweaver_messages::OutcomeKind;
use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use crate::stage::kind_name;

/// URLs that wait, leased ones included. Alert: none by itself; it is the size of the crawl that is left.
pub const WAITING: &str = "orbweaver_frontier_waiting_urls";
/// Dispatches without an outcome. Alert: at its limit for minutes while outcomes do not come.
pub const LEASED: &str = "orbweaver_frontier_leased_urls";
/// Sites with URLs that wait. Alert: none.
pub const SITES: &str = "orbweaver_frontier_active_sites";
/// Dispatches. Alert: no increase while URLs wait and sites are not paused.
pub const DISPATCHED: &str = "orbweaver_frontier_dispatches_total";
/// Outcomes by kind. Alert: a growing share of `retry`, `blocked` and `gone`.
pub const OUTCOMES: &str = "orbweaver_frontier_outcomes_total";
/// Leases that ended without an outcome. Alert: a steady increase, since dispatches are lost on their way.
pub const EXPIRED: &str = "orbweaver_frontier_expired_leases_total";
/// Records appended anew so that the commit point can move. Alert: more than twice the rate of outcomes.
pub const REAPPENDED: &str = "orbweaver_frontier_reappended_records_total";

/// The kinds of [`OUTCOMES`]: whoever sums what has not happened yet wants 0, not nothing.
const KINDS: [OutcomeKind; 8] = [
    OutcomeKind::Fetched,
    OutcomeKind::Unchanged,
    OutcomeKind::Redirected,
    OutcomeKind::Refused,
    OutcomeKind::Blocked,
    OutcomeKind::Retry,
    OutcomeKind::Deferred,
    OutcomeKind::Gone,
];

/// The frontier's metrics.
#[derive(Debug, Clone)]
pub struct FrontierMetrics {
    pub(crate) waiting: IntGauge,
    pub(crate) leased: IntGauge,
    pub(crate) sites: IntGauge,
    pub(crate) dispatched: IntCounter,
    pub(crate) outcomes: IntCounterVec,
    pub(crate) expired: IntCounter,
    pub(crate) reappended: IntCounter,
}

impl FrontierMetrics {
    /// Creates the metrics and registers them.
    ///
    /// # Errors
    /// When one of the names is registered already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let metrics = Self {
            waiting: IntGauge::new(WAITING, "URLs that wait, leased ones included")?,
            leased: IntGauge::new(LEASED, "Dispatches without an outcome")?,
            sites: IntGauge::new(SITES, "Sites with URLs that wait")?,
            dispatched: IntCounter::new(DISPATCHED, "Dispatches")?,
            outcomes: IntCounterVec::new(Opts::new(OUTCOMES, "Outcomes by kind"), &["kind"])?,
            expired: IntCounter::new(EXPIRED, "Leases that ended without an outcome")?,
            reappended: IntCounter::new(REAPPENDED, "Records appended anew")?,
        };
        KINDS.iter().for_each(|kind| drop(metrics.outcomes.with_label_values(&[kind_name(*kind)])));
        registry.register(Box::new(metrics.waiting.clone()))?;
        registry.register(Box::new(metrics.leased.clone()))?;
        registry.register(Box::new(metrics.sites.clone()))?;
        registry.register(Box::new(metrics.dispatched.clone()))?;
        registry.register(Box::new(metrics.outcomes.clone()))?;
        registry.register(Box::new(metrics.expired.clone()))?;
        registry.register(Box::new(metrics.reappended.clone()))?;
        Ok(metrics)
    }
}
