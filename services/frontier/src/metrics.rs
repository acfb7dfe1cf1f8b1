//! Metric names, and alert conditions.

use std::time::Duration;

use orbweaver_messages::{ChangeKind, Millis, Outcome, OutcomeKind};
use orbweaver_scope::{CrawlLabels, LABELLED_CRAWLS, RuleRejection};
use orbweaver_url::CrawlName;
use prometheus::{
    Gauge, Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry,
    register_gauge_with_registry as float, register_histogram_with_registry as histogram,
    register_int_counter_vec_with_registry as counters, register_int_counter_with_registry as counter,
    register_int_gauge_vec_with_registry as gauges, register_int_gauge_with_registry as gauge,
};

use crate::{UpdateCounts, pages::CapStatus, partition::TRAP, site_pages::SITE_CAP};

/// Queued URLs, including leased ones. Alert: none by itself; it is the remaining size of the crawl.
pub const WAITING: &str = "orbweaver_frontier_waiting_urls";
/// Dispatches without an outcome. Alert: at the limit for minutes while no outcomes arrive.
pub const LEASED: &str = "orbweaver_frontier_leased_urls";
/// Sites with queued URLs. Alert: none.
pub const SITES: &str = "orbweaver_frontier_active_sites";
/// Dispatches. Alert: no increase while URLs are queued and sites are not paused.
pub const DISPATCHED: &str = "orbweaver_frontier_dispatches_total";
/// Time for which a site could have been requested before its dispatch, because the dispatches in flight were at their limit.
/// Near zero, politeness limits the crawl. Alert: the median above ten seconds for an hour: the pipeline does; add fetchers, or
/// raise `frontier.max_outstanding`.
pub const READY_SECONDS: &str = "orbweaver_frontier_ready_seconds";
/// Longest such time of a site that is not dispatched yet, updated every few seconds. Alert: above an hour.
pub const OLDEST_READY: &str = "orbweaver_frontier_oldest_ready_seconds";
/// Outcomes by kind. Alert: a growing share of `retry`, `blocked` and `gone`.
pub const OUTCOMES: &str = "orbweaver_frontier_outcomes_total";
/// Outcomes by crawl and kind (label `crawl`: the first hundred crawls, then `other`), each from its first one on. Alert: none.
pub const CRAWL_OUTCOMES: &str = "orbweaver_frontier_crawl_outcomes_total";
/// Queued URLs of each crawl that is defined, including leased ones (label `crawl`, as before). Alert: none.
pub const CRAWL_URLS: &str = "orbweaver_frontier_crawl_waiting_urls";
/// URLs of each crawl that sleep until their next visit (label `crawl`, as before). Alert: none.
pub const ASLEEP: &str = "orbweaver_frontier_sleeping_urls";
/// Changes of pages that visits found in crawls with revisits, by kind: `new`, `changed` or `gone`. Alert: none by itself; few
/// of `changed` for many outcomes `unchanged` indicate visits that could be rarer.
pub const CHANGES: &str = "orbweaver_frontier_page_changes_total";
/// Modifications of known URLs that sitemaps and feeds list, by result: `visited` at once, or `distrusted` because of earlier ones
/// of the site; of those visited, `confirmed` by another text, or `refuted`. Alert: none by itself; many of `distrusted` indicate
/// sites that list the time at which a sitemap was generated.
pub const LISTED_UPDATES: &str = "orbweaver_frontier_listed_updates_total";
/// Leases that expired without an outcome. Alert: a steady increase, since dispatches are being lost.
pub const EXPIRED: &str = "orbweaver_frontier_expired_leases_total";
/// Stuck URLs: their dispatches were lost ten times while later ones were answered. Alert: any increase, since each is
/// a page that was not requested; the dead letters name it, and replaying them queues it again.
pub const STUCK: &str = "orbweaver_frontier_stuck_urls_total";
/// Records re-appended so that the commit point can advance. Alert: more than twice the rate of outcomes.
pub const REAPPENDED: &str = "orbweaver_frontier_reappended_records_total";
/// Patterns of similar URLs that are over their budget: they lead on without new content. Alert: none; an increase with
/// few new pages indicates a crawl that goes in circles.
pub const OVER_BUDGET: &str = "orbweaver_frontier_over_budget_patterns";
/// URLs demoted because of their pattern, counted again when their record is re-appended. Alert: none.
pub const DEMOTED: &str = "orbweaver_frontier_put_back_urls_total";
/// URLs that the frontier refused, by reason: `trap`, `stopped`, or `excluded`, `not_included` and `too_deep` if their crawl was
/// narrowed while they were queued. Alert: a crawl lacks pages that it should have.
pub const REFUSED: &str = "orbweaver_frontier_refused_urls_total";
/// Version of the definition with which queued URLs are compared (label `crawl`; the first 100 by name). Alert: differs
/// between instances, or from that of normalizer-dedup, for minutes: one of them does not tail `crawl.control`.
pub const DEFINITION_VERSION: &str = "orbweaver_frontier_definition_version";
/// Unusable definitions in `crawl.control`; the previous one still applies. Alert: any increase; the log has the
/// reason.
pub const REFUSED_DEFINITIONS: &str = "orbweaver_frontier_refused_definitions_total";
/// Capped URLs, which are queued until the cap of their crawl is raised. Alert: none; such a crawl has progressed as
/// far as allowed.
pub const HELD: &str = "orbweaver_frontier_capped_urls";
/// Pages of a crawl that has a cap, in all partitions, as counted by this instance (label `crawl`; the first 100 by
/// name). Alert: differs between instances for minutes, by more than a sixteenth of the pages that remain up to the
/// cap: one of them does not tail `crawl.control`.
pub const PAGES: &str = "orbweaver_frontier_capped_pages";

/// Metrics of the frontier. Values of labels that are known are created at the start: a sum over kinds without an outcome has to
/// be 0, not absent.
#[derive(Debug, Clone)]
pub struct FrontierMetrics {
    pub(crate) waiting: IntGauge,
    pub(crate) leased: IntGauge,
    pub(crate) sites: IntGauge,
    dispatched: IntCounter,
    ready: Histogram,
    pub(crate) oldest_ready: Gauge,
    outcomes: IntCounterVec,
    crawl_outcomes: IntCounterVec,
    crawl_urls: IntGaugeVec,
    asleep: IntGaugeVec,
    changes: IntCounterVec,
    listed_updates: IntCounterVec,
    labels: CrawlLabels,
    pub(crate) expired: IntCounter,
    pub(crate) stuck: IntCounter,
    pub(crate) reappended: IntCounter,
    pub(crate) over_budget: IntGauge,
    pub(crate) demote: IntCounter,
    pub(crate) refused: IntCounterVec,
    pub(crate) refused_definitions: IntCounter,
    versions: IntGaugeVec,
    held: IntGauge,
    pages: IntGaugeVec,
}

impl FrontierMetrics {
    /// Creates the metrics and registers them.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let buckets = vec![0.01, 0.1, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0];
        let ready = "Time for which a site could have been requested before its dispatch";
        let metrics = Self {
            waiting: gauge!(WAITING, "Queued URLs, including leased ones", registry)?,
            leased: gauge!(LEASED, "Dispatches without an outcome", registry)?,
            sites: gauge!(SITES, "Sites with queued URLs", registry)?,
            dispatched: counter!(DISPATCHED, "Dispatches", registry)?,
            ready: histogram!(READY_SECONDS, ready, buckets, registry)?,
            oldest_ready: float!(OLDEST_READY, "Longest time for which a site has been ready", registry)?,
            outcomes: counters!(OUTCOMES, "Outcomes by kind", &["kind"], registry)?,
            crawl_outcomes: counters!(CRAWL_OUTCOMES, "Outcomes by crawl and kind", &["crawl", "kind"], registry)?,
            crawl_urls: gauges!(CRAWL_URLS, "Queued URLs by crawl, including leased ones", &["crawl"], registry)?,
            asleep: gauges!(ASLEEP, "URLs that sleep until their next visit, by crawl", &["crawl"], registry)?,
            changes: counters!(CHANGES, "Changes of pages that visits found, by kind", &["kind"], registry)?,
            listed_updates: counters!(LISTED_UPDATES, "Listed modifications of known URLs", &["result"], registry)?,
            labels: CrawlLabels::default(),
            expired: counter!(EXPIRED, "Leases that expired without an outcome", registry)?,
            stuck: counter!(STUCK, "URLs abandoned because their dispatches were lost", registry)?,
            reappended: counter!(REAPPENDED, "Records re-appended so that the commit point can advance", registry)?,
            over_budget: gauge!(OVER_BUDGET, "Patterns of similar URLs over their budget", registry)?,
            demote: counter!(DEMOTED, "URLs demoted because of their pattern", registry)?,
            refused: counters!(REFUSED, "URLs refused by the frontier, by reason", &["reason"], registry)?,
            refused_definitions: counter!(REFUSED_DEFINITIONS, "Unusable crawl definitions", registry)?,
            versions: gauges!(DEFINITION_VERSION, "Version of the definition in force", &["crawl"], registry)?,
            held: gauge!(HELD, "URLs blocked by the page limit of their crawl", registry)?,
            pages: gauges!(PAGES, "Pages of crawls with a page limit, by crawl", &["crawl"], registry)?,
        };
        let reasons = RuleRejection::ALL.iter().map(|outside| outside.name()).chain([TRAP, SITE_CAP]);
        reasons.for_each(|reason| drop(metrics.refused.with_label_values(&[reason])));
        ChangeKind::ALL.iter().for_each(|kind| drop(metrics.changes.with_label_values(&[kind.name()])));
        metrics.count_updates(UpdateCounts::default());
        OutcomeKind::ALL.iter().for_each(|kind| drop(metrics.outcomes.with_label_values(&[kind.name()])));
        Ok(metrics)
    }

    /// Adds these numbers of updates.
    pub(crate) fn count_updates(&self, UpdateCounts { visited, distrusted, confirmed, refuted }: UpdateCounts) {
        let by_result =
            [("visited", visited), ("distrusted", distrusted), ("confirmed", confirmed), ("refuted", refuted)];
        for (result, number) in by_result {
            self.listed_updates.with_label_values(&[result]).inc_by(number);
        }
    }

    /// Counts a dispatch to a site that was ready for this time, in milliseconds.
    pub(crate) fn dispatched(&self, ready_ms: Millis) {
        self.dispatched.inc();
        self.ready.observe(seconds(ready_ms));
    }

    /// Counts an outcome.
    pub(crate) fn outcome(&mut self, outcome: &Outcome) {
        let kind = outcome.kind.name();
        self.outcomes.with_label_values(&[kind]).inc();
        self.crawl_outcomes.with_label_values(&[self.labels.of(&outcome.context.crawl), kind]).inc();
    }

    /// Counts a change of a page.
    pub(crate) fn changed(&self, kind: ChangeKind) {
        self.changes.with_label_values(&[kind.name()]).inc();
    }

    /// Sets the numbers of queued and of sleeping URLs of each crawl.
    pub(crate) fn show_urls<'a>(&mut self, crawls: impl Iterator<Item = (&'a CrawlName, (u64, u64))>) {
        self.crawl_urls.reset();
        self.asleep.reset();
        for (crawl, (queued, asleep)) in crawls {
            let label = self.labels.of(crawl);
            for (gauges, urls) in [(&self.crawl_urls, queued), (&self.asleep, asleep)] {
                gauges.with_label_values(&[label]).add(i64::try_from(urls).unwrap_or(i64::MAX));
            }
        }
    }

    /// Sets the number of capped URLs, and the pages of the crawls that have a cap.
    pub(crate) fn show_pages<'a>(&self, held: usize, pages: impl Iterator<Item = (&'a CrawlName, CapStatus)>) {
        self.held.set(i64::try_from(held).unwrap_or(i64::MAX));
        show(&self.pages, pages.map(|(crawl, status)| (crawl, status.pages)));
    }

    /// Sets the version of the definition that applies to each crawl.
    pub(crate) fn show_versions<'a>(&self, versions: impl Iterator<Item = (&'a CrawlName, u64)>) {
        show(&self.versions, versions);
    }
}

/// Returns a duration in seconds; 0 if it is negative.
pub(crate) fn seconds(duration_ms: Millis) -> f64 {
    Duration::from_millis(u64::try_from(duration_ms).unwrap_or_default()).as_secs_f64()
}

fn show<'a>(gauges: &IntGaugeVec, values: impl Iterator<Item = (&'a CrawlName, u64)>) {
    gauges.reset();
    for (crawl, value) in values.take(LABELLED_CRAWLS) {
        gauges.with_label_values(&[&**crawl]).set(i64::try_from(value).unwrap_or(i64::MAX));
    }
}
