//! Names of the metrics, and when to alert.

use std::sync::{Arc, atomic::AtomicU64, atomic::Ordering::Relaxed};

use prometheus::{
    IntCounter, IntCounterVec, IntGauge, Opts, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};

use crate::tally::{LinkEnd, Tally};

/// Links, by what became of them (label `end`). Alert: `misplaced` above zero, since a producer computes sites otherwise.
pub const LINKS: &str = "orbweaver_normalizer_dedup_links_total";
/// Seeds that were passed on to the partition of their site. Alert: none.
pub const SEEDS: &str = "orbweaver_normalizer_dedup_seeds_total";
/// Records that went to the dead letters. Alert: any increase; the dead letters say why.
pub const REJECTED: &str = "orbweaver_normalizer_dedup_rejected_records_total";
/// Look-ups of the exact index on disk. Alert: above a tenth of the links, since the cache is too small or the filters are
/// outgrown (a restart sizes them anew).
pub const DISK_LOOKUPS: &str = "orbweaver_normalizer_dedup_disk_lookups_total";
/// Records of `crawl.seen` that cannot be read and were passed over. Alert: any; their URLs may pass again.
pub const DAMAGED_SEEN: &str = "orbweaver_normalizer_dedup_damaged_seen_records_total";
/// URLs that the held partitions know. Alert: none; 1.2 to 1.8 bytes of memory each.
pub const KNOWN: &str = "orbweaver_normalizer_dedup_known_urls";
/// Plans that are not durable yet. Alert: constant and above zero for minutes, since the log does not acknowledge.
pub const PLANS: &str = "orbweaver_normalizer_dedup_pending_plans";
/// Records that wait for the definition of their crawl. Alert: above zero for minutes.
pub const HELD: &str = "orbweaver_normalizer_dedup_held_records";

/// Where a metric's value stands in the tally.
type Value = fn(&Tally) -> &AtomicU64;

/// Shows a [`Tally`] as metrics; it counts nothing by itself.
struct TallyMetrics {
    tally: Arc<Tally>,
    links: IntCounterVec,
    counters: [(IntCounter, Value); 4],
    gauges: [(IntGauge, Value); 3],
}

impl Collector for TallyMetrics {
    fn desc(&self) -> Vec<&Desc> {
        let counters = self.counters.iter().flat_map(|(counter, _)| counter.desc());
        let gauges = self.gauges.iter().flat_map(|(gauge, _)| gauge.desc());
        self.links.desc().into_iter().chain(counters).chain(gauges).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for end in LinkEnd::ALL {
            raise(&self.links.with_label_values(&[end.name()]), self.tally.get(end));
        }
        let mut families = self.links.collect();
        for (counter, value) in &self.counters {
            raise(counter, value(&self.tally).load(Relaxed));
            families.extend(counter.collect());
        }
        for (gauge, value) in &self.gauges {
            gauge.set(i64::try_from(value(&self.tally).load(Relaxed)).unwrap_or(i64::MAX));
            families.extend(gauge.collect());
        }
        families
    }
}

/// Two collections at once may both find the old value; a count that is a little late is better than one too high.
fn raise(counter: &IntCounter, to: u64) {
    counter.inc_by(to.saturating_sub(counter.get()));
}

/// Registers the metrics that show this tally.
///
/// # Errors
/// When they are registered already.
pub fn register(registry: &Registry, tally: Arc<Tally>) -> Result<(), prometheus::Error> {
    registry.register(Box::new(TallyMetrics {
        tally,
        links: IntCounterVec::new(Opts::new(LINKS, "Links, by what became of them"), &["end"])?,
        counters: [
            (IntCounter::new(SEEDS, "Seeds that were passed on")?, |tally| &tally.seeds),
            (IntCounter::new(REJECTED, "Records that went to the dead letters")?, |tally| &tally.rejected),
            (IntCounter::new(DISK_LOOKUPS, "Look-ups of the index on disk")?, |tally| &tally.disk_lookups),
            (IntCounter::new(DAMAGED_SEEN, "Records of crawl.seen that cannot be read")?, |tally| &tally.damaged_seen),
        ],
        gauges: [
            (IntGauge::new(KNOWN, "URLs that the held partitions know")?, |tally| &tally.known),
            (IntGauge::new(PLANS, "Plans that are not durable yet")?, |tally| &tally.plans),
            (IntGauge::new(HELD, "Records that wait for the definition of their crawl")?, |tally| &tally.held),
        ],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Counts;

    #[test]
    fn the_metrics_are_these_and_show_the_tally() {
        let (registry, tally) = (Registry::new(), Arc::new(Tally::default()));
        register(&registry, tally.clone()).unwrap();
        let mut counts = Counts::default();
        counts.add(LinkEnd::OutOfScope, 5);
        tally.take(&mut counts);
        tally.known.store(7, Relaxed);
        for _ in 0..2 {
            let families = registry.gather();
            let mut names = families.iter().map(MetricFamily::name).collect::<Vec<_>>();
            names.sort_unstable();
            let mut expected = [LINKS, SEEDS, REJECTED, DISK_LOOKUPS, DAMAGED_SEEN, KNOWN, PLANS, HELD];
            expected.sort_unstable();
            assert_eq!(names, expected);
            let links = families.iter().find(|family| family.name() == LINKS).unwrap();
            let metric =
                links.get_metric().iter().find(|metric| metric.get_label()[0].value() == "out_of_scope").unwrap();
            assert_eq!(metric.get_counter().get_value() as u64, 5);
        }
    }
}
