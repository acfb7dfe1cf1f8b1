//! Metric names, with alerting advice.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use prometheus::{
    IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};

use crate::tally::{DedupStats, LinkOutcome};

/// Links by outcome (label `end`). Alert: `misplaced` above zero; a producer computes sites differently.
pub const LINKS: &str = "orbweaver_normalizer_dedup_links_total";
/// Seeds forwarded to the partition of their site. Alert: none.
pub const SEEDS: &str = "orbweaver_normalizer_dedup_seeds_total";
/// Records sent to the dead letters. Alert: any increase; the dead letters state the reason.
pub const REJECTED: &str = "orbweaver_normalizer_dedup_rejected_records_total";
/// Links by crawl (label `crawl`; crawls beyond the first 100 are combined as `other`) and by admission (label
/// `seen`: `first` or `again`): the dedup rate is the share of `again`. Alert: none.
pub const CRAWL_LINKS: &str = "orbweaver_normalizer_dedup_crawl_links_total";
/// Lookups answered by the recent cache. Alert: none.
pub const RECENT_HITS: &str = "orbweaver_normalizer_dedup_recent_hits_total";
/// Lookups not answered by the recent cache. Alert: none; if the cache is full and misses exceed a third of the
/// lookups, a larger one is worthwhile.
pub const RECENT_MISSES: &str = "orbweaver_normalizer_dedup_recent_misses_total";
/// Used entries of the recent cache. Alert: none.
pub const RECENT_FILLED: &str = "orbweaver_normalizer_dedup_recent_filled_places";
/// Capacity of the recent cache in entries. Alert: none.
pub const RECENT_CAPACITY: &str = "orbweaver_normalizer_dedup_recent_places";
/// URLs known to the index, in memory or on disk. Alert: none.
pub const INDEX_HITS: &str = "orbweaver_normalizer_dedup_index_hits_total";
/// URLs not known to the index. Alert: none.
pub const INDEX_MISSES: &str = "orbweaver_normalizer_dedup_index_misses_total";
/// Entries read from disk for a different URL: false positives of the filter, corrected by verification. Alert: above a
/// tenth of the misses for minutes; there are too many SSTables because compaction does not keep up.
pub const FALSE_POSITIVES: &str = "orbweaver_normalizer_dedup_filter_false_positives_total";
/// URLs taken for known by the Bloom index, which nothing verifies; one in a million unknown URLs is lost this way.
/// Alert: none.
pub const UNVERIFIED: &str = "orbweaver_normalizer_dedup_unverified_urls_total";
/// Memory of the filters: 1.5 bytes per URL in the exact index. Alert: near the memory limit of the process.
pub const FILTER_BYTES: &str = "orbweaver_normalizer_dedup_filter_bytes";
/// SSTables of the index on disk. Alert: above 16 per partition for minutes; compaction does not keep up.
pub const RUNS: &str = "orbweaver_normalizer_dedup_index_runs";
/// URLs in memory that wait to be read back or written. Alert: above a million per partition; the disk or the log is
/// slow.
pub const UNWRITTEN: &str = "orbweaver_normalizer_dedup_unwritten_urls";
/// Entries read from disk to verify filter hits. Alert: above a third of the links; the cache is too small.
pub const DISK_LOOKUPS: &str = "orbweaver_normalizer_dedup_disk_lookups_total";
/// Undecodable records of `crawl.seen` that were skipped. Alert: any; their URLs may be admitted again.
pub const DAMAGED_SEEN: &str = "orbweaver_normalizer_dedup_damaged_seen_records_total";
/// URLs known to the open partitions. Alert: none.
pub const KNOWN: &str = "orbweaver_normalizer_dedup_known_urls";
/// Plans that are not yet durable. Alert: constant and above zero for minutes; the log does not acknowledge.
pub const PLANS: &str = "orbweaver_normalizer_dedup_pending_plans";
/// Records that wait for the definition of their crawl. Alert: above zero for minutes.
pub const HELD: &str = "orbweaver_normalizer_dedup_undefined_crawl_records";

/// Version of the definition applied to the links of a crawl (label `crawl`; the first 100 by name). Alert: differs
/// between instances, or from the frontier's, for minutes; an instance does not tail `crawl.control`.
pub const DEFINITION_VERSION: &str = "orbweaver_normalizer_dedup_definition_version";
/// Unusable definitions in `crawl.control`; the previous one remains in force. Alert: any increase; the log states the
/// reason.
pub const REFUSED_DEFINITIONS: &str = "orbweaver_normalizer_dedup_refused_definitions_total";

/// Returns a metric's value from the tally.
type Value = fn(&DedupStats) -> u64;

/// Exports a [`DedupStats`] as metrics; keeps no counts itself.
struct TallyMetrics {
    tally: Arc<DedupStats>,
    links: IntCounterVec,
    crawls: IntCounterVec,
    versions: IntGaugeVec,
    counters: Vec<(IntCounter, Value)>,
    gauges: Vec<(IntGauge, Value)>,
}

impl TallyMetrics {
    fn all(&self) -> impl Iterator<Item = &dyn Collector> {
        let labelled: [&dyn Collector; 3] = [&self.links, &self.crawls, &self.versions];
        let counters = self.counters.iter().map(|(counter, _)| counter as &dyn Collector);
        labelled.into_iter().chain(counters).chain(self.gauges.iter().map(|(gauge, _)| gauge as &dyn Collector))
    }
}

impl Collector for TallyMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.all().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for end in LinkOutcome::ALL {
            raise(&self.links.with_label_values(&[end.name()]), self.tally.get(end));
        }
        for (crawl, (first, again)) in self.tally.crawls() {
            raise(&self.crawls.with_label_values(&[&*crawl, "first"]), first);
            raise(&self.crawls.with_label_values(&[&*crawl, "again"]), again);
        }
        self.versions.reset();
        for (crawl, version) in self.tally.versions() {
            self.versions.with_label_values(&[crawl]).set(i64::try_from(version).unwrap_or(i64::MAX));
        }
        self.counters.iter().for_each(|(counter, value)| raise(counter, value(&self.tally)));
        for (gauge, value) in &self.gauges {
            gauge.set(i64::try_from(value(&self.tally)).unwrap_or(i64::MAX));
        }
        self.all().flat_map(Collector::collect).collect()
    }
}

/// Raises a counter. Two concurrent collections may both find the old value; a slightly late count is better than one
/// too high.
fn raise(counter: &IntCounter, to: u64) {
    counter.inc_by(to.saturating_sub(counter.get()));
}

pub fn register(registry: &Registry, tally: Arc<DedupStats>) -> Result<(), prometheus::Error> {
    let counter = |name, help, value: Value| Ok::<_, prometheus::Error>((IntCounter::new(name, help)?, value));
    let gauge = |name, help, value: Value| Ok::<_, prometheus::Error>((IntGauge::new(name, help)?, value));
    registry.register(Box::new(TallyMetrics {
        tally,
        links: IntCounterVec::new(Opts::new(LINKS, "Links, by outcome"), &["end"])?,
        crawls: IntCounterVec::new(Opts::new(CRAWL_LINKS, "Links, by crawl"), &["crawl", "seen"])?,
        versions: IntGaugeVec::new(Opts::new(DEFINITION_VERSION, "Version of the definition in force"), &["crawl"])?,
        counters: vec![
            counter(SEEDS, "Seeds forwarded to the partition of their site", |tally| tally.seeds.load(Relaxed))?,
            counter(REJECTED, "Records sent to the dead letters", DedupStats::rejected)?,
            counter(REFUSED_DEFINITIONS, "Unusable crawl definitions", |tally| {
                tally.refused_definitions.load(Relaxed)
            })?,
            counter(DAMAGED_SEEN, "Undecodable records of crawl.seen that were skipped", |tally| {
                tally.damaged_seen.load(Relaxed)
            })?,
            counter(RECENT_HITS, "Lookups answered by the recent cache", |tally| tally.tiers().0.hits)?,
            counter(RECENT_MISSES, "Lookups not answered by the recent cache", |tally| tally.tiers().0.misses)?,
            counter(INDEX_HITS, "URLs known to the index", |tally| tally.tiers().1.lookups.hits)?,
            counter(INDEX_MISSES, "URLs not known to the index", |tally| tally.tiers().1.lookups.misses)?,
            counter(DISK_LOOKUPS, "Entries read from disk to verify filter hits", |tally| {
                tally.tiers().1.lookups.disk
            })?,
            counter(FALSE_POSITIVES, "False positives of the filters", |tally| {
                tally.tiers().1.lookups.false_positives
            })?,
            counter(UNVERIFIED, "URLs taken for known by a filter alone", |tally| tally.tiers().1.lookups.unverified)?,
        ],
        gauges: vec![
            gauge(KNOWN, "URLs known to the open partitions", |tally| tally.tiers().1.entries)?,
            gauge(UNWRITTEN, "URLs in memory that are not on disk yet", |tally| tally.tiers().1.in_memory)?,
            gauge(RECENT_FILLED, "Used entries of the recent cache", |tally| tally.tiers().0.filled)?,
            gauge(RECENT_CAPACITY, "Capacity of the recent cache, in entries", |tally| tally.tiers().0.places)?,
            gauge(FILTER_BYTES, "Memory of the filters, in bytes", |tally| tally.tiers().1.filter_bytes)?,
            gauge(RUNS, "SSTables of the index on disk", |tally| tally.tiers().1.tables)?,
            gauge(PLANS, "Plans that are not durable yet", |tally| tally.plans.load(Relaxed))?,
            gauge(HELD, "Records that wait for the definition of their crawl", |tally| tally.held.load(Relaxed))?,
        ],
    }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use orbweaver_scope::{ControlRecord, Definitions};

    use super::*;
    use crate::tally::Counts;

    #[test]
    fn the_metrics_are_these_and_show_the_tally() {
        let (registry, tally) = (Registry::new(), Arc::new(DedupStats::default()));
        register(&registry, tally.clone()).unwrap();
        let mut counts = Counts::default();
        counts.add(LinkOutcome::OutOfScope, 5);
        tally.take(&mut counts);
        tally.add_links(&"docs".parse().unwrap(), 1, 2);
        let mut definitions = Definitions::default();
        let host = bytes::Bytes::from_static(include_bytes!("../../../schemas/examples/crawl-definition/1/host.json"));
        definitions.apply(ControlRecord { partition: 0, offset: 9, key: Some(b"crawl/docs"), value: Some(&host) });
        tally.show_versions(&definitions);
        // The names in this file, without this prefix itself.
        let texts = include_str!("metrics.rs").split('"');
        let declared: BTreeSet<_> = texts.filter(|text| text.starts_with(concat!("orb", "weaver_"))).collect();
        for _ in 0..2 {
            let families = registry.gather();
            let names: BTreeSet<_> = families.iter().map(MetricFamily::name).collect();
            assert_eq!(names, declared);
            let links = families.iter().find(|family| family.name() == LINKS).unwrap();
            let metric =
                links.get_metric().iter().find(|metric| metric.get_label()[0].value() == "out_of_scope").unwrap();
            assert_eq!(metric.get_counter().get_value() as u64, 5);
        }
    }
}
