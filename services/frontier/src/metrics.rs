//! Names of the metrics, and when to alert.

use orbweaver_messages::OutcomeKind;
use orbweaver_scope::Outside;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use crate::{pages::Standing, stage::kind_name};

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
/// URLs given up as stuck: their dispatches were lost ten times while later ones were answered. Alert: any increase, since each
/// is a page that was not requested; the dead letters name it, and replaying them brings it back.
pub const STUCK: &str = "orbweaver_frontier_stuck_urls_total";
/// Records appended anew so that the commit point can move. Alert: more than twice the rate of outcomes.
pub const REAPPENDED: &str = "orbweaver_frontier_reappended_records_total";
/// Patterns of similar URLs that are over their budget: they lead on and bring nothing new. Alert: none; a growing number with
/// few pages that are new is a crawl that walks in circles.
pub const OVER_BUDGET: &str = "orbweaver_frontier_over_budget_patterns";
/// URLs put at the back of their site for their pattern, once more when their record is appended anew. Alert: none.
pub const PUT_BACK: &str = "orbweaver_frontier_put_back_urls_total";
/// URLs that the frontier refused, by reason: `trap`, or `excluded`, `not_included` and `too_deep` where they waited while
/// their crawl became narrower. Alert: a crawl that lacks pages which should be there.
pub const REFUSED: &str = "orbweaver_frontier_refused_urls_total";
/// The version of the definition that what waits is held against (label `crawl`; the first 32 by name). Alert: different
/// between instances for minutes, or from that of normalizer-dedup: one does not follow `crawl.control`.
pub const DEFINITION_VERSION: &str = "orbweaver_frontier_definition_version";
/// Definitions in `crawl.control` that cannot be used; what applied before goes on to apply. Alert: any increase; the log
/// says why.
pub const REFUSED_DEFINITIONS: &str = "orbweaver_frontier_refused_definitions_total";
/// URLs that wait for the cap of their crawl to be raised. Alert: none; a crawl that stands so has ended as far as it may.
pub const HELD: &str = "orbweaver_frontier_held_urls";
/// Pages of a crawl that has a cap, in all partitions, as this instance counts them (label `crawl`; the first 32 by name).
/// Alert: different between instances for minutes, while they are not close to the cap by more than a sixteenth of what is
/// left: one does not follow `crawl.control`.
pub const PAGES: &str = "orbweaver_frontier_capped_pages";

/// Crawls whose version is shown, since a label must be bounded.
const NAMED_CRAWLS: usize = 32;

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
    pub(crate) stuck: IntCounter,
    pub(crate) reappended: IntCounter,
    over_budget: IntGauge,
    put_back: IntCounter,
    refused: IntCounterVec,
    pub(crate) refused_definitions: IntCounter,
    versions: IntGaugeVec,
    held: IntGauge,
    pages: IntGaugeVec,
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
            stuck: IntCounter::new(STUCK, "URLs given up since their dispatches were lost")?,
            reappended: IntCounter::new(REAPPENDED, "Records appended anew")?,
            over_budget: IntGauge::new(OVER_BUDGET, "Patterns of similar URLs over their budget")?,
            put_back: IntCounter::new(PUT_BACK, "URLs put at the back of their site")?,
            refused: IntCounterVec::new(Opts::new(REFUSED, "URLs refused by the frontier"), &["reason"])?,
            refused_definitions: IntCounter::new(REFUSED_DEFINITIONS, "Definitions that cannot be used")?,
            versions: IntGaugeVec::new(Opts::new(DEFINITION_VERSION, "The definition that applies"), &["crawl"])?,
            held: IntGauge::new(HELD, "URLs that wait for a cap to be raised")?,
            pages: IntGaugeVec::new(Opts::new(PAGES, "Pages of a crawl that has a cap"), &["crawl"])?,
        };
        Outside::ALL.iter().for_each(|outside| drop(metrics.refused.with_label_values(&[outside.name()])));
        KINDS.iter().for_each(|kind| drop(metrics.outcomes.with_label_values(&[kind_name(*kind)])));
        registry.register(Box::new(metrics.waiting.clone()))?;
        registry.register(Box::new(metrics.leased.clone()))?;
        registry.register(Box::new(metrics.sites.clone()))?;
        registry.register(Box::new(metrics.dispatched.clone()))?;
        registry.register(Box::new(metrics.outcomes.clone()))?;
        registry.register(Box::new(metrics.expired.clone()))?;
        registry.register(Box::new(metrics.stuck.clone()))?;
        registry.register(Box::new(metrics.reappended.clone()))?;
        registry.register(Box::new(metrics.over_budget.clone()))?;
        registry.register(Box::new(metrics.put_back.clone()))?;
        metrics.refused.with_label_values(&["trap"]);
        registry.register(Box::new(metrics.refused.clone()))?;
        registry.register(Box::new(metrics.refused_definitions.clone()))?;
        registry.register(Box::new(metrics.versions.clone()))?;
        registry.register(Box::new(metrics.held.clone()))?;
        registry.register(Box::new(metrics.pages.clone()))?;
        Ok(metrics)
    }

    /// Patterns over their budget now, and URLs that were put at the back since the last call.
    pub(crate) fn similar(&self, (over_budget, put_back): (usize, u64)) {
        self.over_budget.set(i64::try_from(over_budget).unwrap_or(i64::MAX));
        self.put_back.inc_by(put_back);
    }

    /// URLs that are held, and the pages of the crawls that have a cap.
    pub(crate) fn show_pages<'a>(&self, held: usize, pages: impl Iterator<Item = (&'a str, Standing)>) {
        self.held.set(i64::try_from(held).unwrap_or(i64::MAX));
        self.pages.reset();
        for (crawl, standing) in pages.take(NAMED_CRAWLS) {
            self.pages.with_label_values(&[crawl]).set(i64::try_from(standing.pages).unwrap_or(i64::MAX));
        }
    }

    /// A URL was refused.
    pub(crate) fn refused(&self, reason: &str) {
        self.refused.with_label_values(&[reason]).inc();
    }

    /// Shows which definition applies of each crawl.
    pub(crate) fn show_versions<'a>(&self, versions: impl Iterator<Item = (&'a str, u64)>) {
        self.versions.reset();
        for (crawl, version) in versions.take(NAMED_CRAWLS) {
            self.versions.with_label_values(&[crawl]).set(i64::try_from(version).unwrap_or(i64::MAX));
        }
    }
}
