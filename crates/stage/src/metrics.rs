//! Metrics of the runtime, by service. Names are constants, each with its alert condition.

use std::sync::LazyLock;

use prometheus::{
    CounterVec, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, core::Collector,
};

use crate::CpuMeter;

/// Records passed to the stage. Alert when it stalls while [`LAG_RECORDS`] rises.
pub const RECORDS_IN: &str = "orbweaver_stage_records_in_total";
/// Records appended by the stage and acknowledged. No alert of its own.
pub const RECORDS_OUT: &str = "orbweaver_stage_records_out_total";
/// Records completed. Alert when it stalls while [`BUDGET_RECORDS`] is above zero.
pub const COMPLETED: &str = "orbweaver_stage_completed_total";
/// Records sent to the dead letters. Alert on any increase: a producer writes records that the stage cannot read.
pub const REJECTED: &str = "orbweaver_stage_rejected_total";
/// Completions of an assignment that has ended. Alert on a steady rate: drain deadlines are too short; a few per
/// rebalance are normal.
pub const LATE_COMPLETIONS: &str = "orbweaver_stage_late_completions_total";
/// Completions of an origin that was already complete. Alert on any: the service has a defect.
pub const REPEATED_COMPLETIONS: &str = "orbweaver_stage_repeated_completions_total";
/// Incomplete records, including parked ones. Alert on nothing but the memory that they take.
pub const OUTSTANDING: &str = "orbweaver_stage_outstanding_records";
/// Records between commit point and log end, by group and topic: of the partitions that this instance has open, read
/// about every fifteen seconds, or of all partitions, where [`crate::completion`] reads them. Alert only for services
/// that should keep up (normalizer-dedup, extractor), otherwise on due work (docs/protocol.md#due-work).
pub const LAG_RECORDS: &str = "orbweaver_stage_lag_records";
/// Records charged to the budget. Alert when it stays at its limit for minutes: the stage is the bottleneck.
pub const BUDGET_RECORDS: &str = "orbweaver_stage_budget_records";
/// Bytes charged to the budget: of records in flight, and of records in plans that are not durable. Alert when it stays
/// at its limit for minutes while log and store are available: the stage is the bottleneck.
pub const BUDGET_BYTES: &str = "orbweaver_stage_budget_bytes";
/// 1 while the budget pauses reading. Alert when it is 1 nearly all the time.
pub const PAUSED: &str = "orbweaver_stage_paused";
/// Open partitions. Alert when the sum over all instances is not the number of partitions.
pub const PARTITIONS_OPEN: &str = "orbweaver_stage_partitions_open";
/// Partitions being restored. Alert when it is above zero for longer than a restore may take.
pub const PARTITIONS_RESTORING: &str = "orbweaver_stage_partitions_restoring";
/// Seconds since the oldest completion that is not committed yet. Alert above a minute: commits are not accepted.
pub const COMMIT_AGE_SECONDS: &str = "orbweaver_stage_commit_age_seconds";
/// Longest time in seconds for which an in-flight record, neither complete nor parked, has blocked a commit point: one
/// stuck record blocks all later ones. Alert above two minutes: no record is in flight that long.
pub const COMMIT_STALLED_SECONDS: &str = "orbweaver_stage_commit_stalled_seconds";
/// Work that could progress now, as the stage counts it for its watchdog. No alert of its own; see [`STALLED_SECONDS`].
pub const DUE_RECORDS: &str = "orbweaver_stage_due_records";
/// Seconds without progress although work is due; 0 while work progresses. Alert at half of the watchdog's limit: at
/// the limit the process ends.
pub const STALLED_SECONDS: &str = "orbweaver_stage_stalled_seconds";
/// Used share of the budget, records or bytes, whichever is larger; 0 to about 1. Alert when it stays above 0.95 for
/// many minutes: the stage is the bottleneck.
pub const BUDGET_USED_RATIO: &str = "orbweaver_stage_budget_used_ratio";
/// Age of the oldest running restore in seconds, including its wait for a free slot; 0 without one. Alert above five
/// minutes.
pub const RESTORING_SECONDS: &str = "orbweaver_stage_restoring_seconds";
/// Seconds from assignment to opening, per partition. Alert on nothing: for capacity planning; see
/// [`RESTORING_SECONDS`].
pub const RESTORE_SECONDS: &str = "orbweaver_stage_restore_seconds";
/// Topic-partitions `assigned`, `revoked` or `lost`. Alert on `lost`: a session ended before its partitions were
/// released; and on a steady rate of any event: the group does not settle.
pub const PARTITION_EVENTS: &str = "orbweaver_stage_partition_events_total";
/// Suspensions of the process, each detected by a gap of `RunnerConfig::frozen_after`. Alert on any: its machine or
/// container is starved.
pub const SUSPENSIONS: &str = "orbweaver_stage_freezes_total";
/// Accepted commits, counted per topic-partition. Alert when it stalls while [`COMPLETED`] rises.
pub const COMMITS: &str = "orbweaver_stage_commits_total";
/// Refused commits. Alert on a steady rate; a few per rebalance are normal.
pub const COMMIT_FAILURES: &str = "orbweaver_stage_commit_failures_total";
/// Seconds from append to acknowledgement. Alert when the 99th percentile is above a second.
pub const APPEND_SECONDS: &str = "orbweaver_stage_append_seconds";
/// Seconds until effects are durable. Alert when the 99th percentile is above a second.
pub const PERFORM_SECONDS: &str = "orbweaver_stage_perform_seconds";
/// Records replayed while opening partitions. Alert when it rises without deployments: partitions flap.
pub const RESTORED: &str = "orbweaver_stage_restored_records_total";
/// CPU seconds of the service's loop and of all other work that it measures. For capacity planning.
pub const CPU_SECONDS: &str = "orbweaver_stage_cpu_seconds_total";

/// The metrics of all services of a process.
#[derive(Debug, Clone)]
pub struct Metrics {
    counters: [IntCounterVec; 10],
    gauges: [GaugeVec; 12],
    lag: IntGaugeVec,
    partition_events: IntCounterVec,
    histograms: [HistogramVec; 3],
    cpu: CounterVec,
}

/// In the order of the fields of [`ServiceMetrics`].
const COUNTERS: [(&str, &str); 10] = [
    (RECORDS_IN, "Records delivered to the stage"),
    (RECORDS_OUT, "Records appended by the stage and acknowledged"),
    (COMPLETED, "Records completed"),
    (REJECTED, "Records sent to the dead letters"),
    (LATE_COMPLETIONS, "Completions received after their assignment had ended"),
    (REPEATED_COMPLETIONS, "Completions of records that were already complete"),
    (COMMITS, "Accepted commits, counted per partition"),
    (COMMIT_FAILURES, "Commits refused"),
    (RESTORED, "Records replayed while opening partitions"),
    (SUSPENSIONS, "Number of times the process was suspended"),
];
const GAUGES: [(&str, &str); 12] = [
    (OUTSTANDING, "Incomplete records, including parked ones"),
    (BUDGET_RECORDS, "Records charged to the budget"),
    (BUDGET_BYTES, "Bytes charged to the budget"),
    (PAUSED, "1 while reading is paused by the budget"),
    (PARTITIONS_OPEN, "Open partitions"),
    (PARTITIONS_RESTORING, "Partitions that are being restored"),
    (DUE_RECORDS, "Work that is due and could progress now"),
    (COMMIT_AGE_SECONDS, "Seconds since the completion of uncommitted work"),
    (COMMIT_STALLED_SECONDS, "Longest time in seconds for which a record in flight has blocked a commit point"),
    (STALLED_SECONDS, "Seconds without progress although work is due"),
    (BUDGET_USED_RATIO, "Used share of the budget"),
    (RESTORING_SECONDS, "Age of the oldest running restore in seconds"),
];
const HISTOGRAMS: [(&str, &str, &[f64]); 3] = [
    (APPEND_SECONDS, "Seconds from append to acknowledgement", &BUCKETS),
    (PERFORM_SECONDS, "Seconds until an effect is durable", &BUCKETS),
    (RESTORE_SECONDS, "Seconds from the assignment of a partition until it is open", &RESTORE_BUCKETS),
];
/// From 50 µs (the embedded log) to half a minute (an unavailable broker).
const BUCKETS: [f64; 14] =
    [0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0, 10.0, 30.0];
/// From an empty partition to a hundred million records.
const RESTORE_BUCKETS: [f64; 10] = [0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1800.0];
/// Labels of [`PARTITION_EVENTS`].
const EVENTS: [&str; 3] = ["assigned", "revoked", "lost"];

impl Metrics {
    /// Registers the metrics, once per registry.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        const BY_SERVICE: &[&str] = &["service"];
        let metrics = Self {
            counters: try_array(COUNTERS, |(name, help)| IntCounterVec::new(Opts::new(name, help), BY_SERVICE))?,
            gauges: try_array(GAUGES, |(name, help)| GaugeVec::new(Opts::new(name, help), BY_SERVICE))?,
            lag: IntGaugeVec::new(
                Opts::new(LAG_RECORDS, "Records between commit point and log end"),
                &["group", "topic"],
            )?,
            partition_events: IntCounterVec::new(
                Opts::new(PARTITION_EVENTS, "Partitions assigned, revoked or lost"),
                &["service", "event"],
            )?,
            histograms: try_array(HISTOGRAMS, |(name, help, buckets)| {
                HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), BY_SERVICE)
            })?,
            cpu: CounterVec::new(Opts::new(CPU_SECONDS, "CPU time in seconds"), BY_SERVICE)?,
        };
        let mut all = vec![boxed(&metrics.lag), boxed(&metrics.partition_events), boxed(&metrics.cpu)];
        all.extend(metrics.counters.iter().map(boxed));
        all.extend(metrics.gauges.iter().map(boxed));
        all.extend(metrics.histograms.iter().map(boxed));
        all.into_iter().try_for_each(|metric| registry.register(metric))?;
        Ok(metrics)
    }

    /// Returns the metrics in the default registry of the process.
    #[must_use]
    pub fn of_process() -> &'static Self {
        #[allow(clippy::expect_used, reason = "names and labels are the constants above, which a test registers")]
        static METRICS: LazyLock<Metrics> = LazyLock::new(|| {
            Metrics::register(prometheus::default_registry()).expect("constant names, registered once by this static")
        });
        &METRICS
    }

    /// Returns the meter of a service's CPU time, for its workers; the runner measures the loop.
    #[must_use]
    pub fn cpu(&self, service: &str) -> CpuMeter {
        CpuMeter::new(self.cpu.with_label_values(&[service]))
    }

    /// Returns the number of records that a service has completed.
    #[must_use]
    pub fn completed(&self, service: &str) -> IntCounter {
        self.service(service).completed
    }

    #[must_use]
    pub fn lag(&self, group: &str, topic: &str) -> IntGauge {
        self.lag.with_label_values(&[group, topic])
    }

    pub(crate) fn service(&self, service: &str) -> ServiceMetrics {
        let by = [service];
        let [records_in, records_out, completed, rejected, late, repeated, commits, commit_failures, restored, freezes] =
            self.counters.each_ref().map(|counter| counter.with_label_values(&by));
        let gauges = self.gauges.each_ref().map(|gauge| gauge.with_label_values(&by));
        let [outstanding, budget_records, budget_bytes, paused, open, restoring, due, ..] = gauges.clone();
        let [.., commit_age, commit_stalled, still, budget_used, restoring_seconds] = gauges;
        let [append_seconds, perform_seconds, restore_seconds] =
            self.histograms.each_ref().map(|kind| kind.with_label_values(&by));
        ServiceMetrics {
            records_in,
            records_out,
            completed,
            rejected,
            late,
            repeated,
            commits,
            commit_failures,
            restored,
            freezes,
            outstanding,
            budget_records,
            budget_bytes,
            paused,
            open,
            restoring,
            due,
            append_seconds,
            perform_seconds,
            restore_seconds,
            commit_age,
            commit_stalled,
            still,
            budget_used,
            restoring_seconds,
            partition_events: EVENTS.map(|event| self.partition_events.with_label_values(&[service, event])),
            cpu: self.cpu(service),
        }
    }
}

fn boxed(metric: &(impl Collector + Clone + 'static)) -> Box<dyn Collector> {
    Box::new(metric.clone())
}

fn try_array<A, B, E, const N: usize>(from: [A; N], make: impl Fn(A) -> Result<B, E>) -> Result<[B; N], E> {
    let mut made = Vec::with_capacity(N);
    for item in from {
        made.push(make(item)?);
    }
    #[allow(clippy::expect_used, reason = "proved in the message")]
    Ok(made.try_into().ok().expect("one was made of each of the N"))
}

/// The metrics of one service, resolved once so that counting costs one atomic addition.
#[derive(Debug, Clone)]
pub(crate) struct ServiceMetrics {
    pub(crate) records_in: IntCounter,
    pub(crate) records_out: IntCounter,
    pub(crate) completed: IntCounter,
    pub(crate) rejected: IntCounter,
    pub(crate) late: IntCounter,
    pub(crate) repeated: IntCounter,
    pub(crate) commits: IntCounter,
    pub(crate) commit_failures: IntCounter,
    pub(crate) restored: IntCounter,
    pub(crate) freezes: IntCounter,
    pub(crate) outstanding: Gauge,
    pub(crate) budget_records: Gauge,
    pub(crate) budget_bytes: Gauge,
    pub(crate) paused: Gauge,
    pub(crate) open: Gauge,
    pub(crate) restoring: Gauge,
    pub(crate) due: Gauge,
    pub(crate) append_seconds: Histogram,
    pub(crate) perform_seconds: Histogram,
    pub(crate) restore_seconds: Histogram,
    pub(crate) commit_age: Gauge,
    pub(crate) commit_stalled: Gauge,
    pub(crate) still: Gauge,
    pub(crate) budget_used: Gauge,
    pub(crate) restoring_seconds: Gauge,
    /// In the order of [`EVENTS`].
    pub(crate) partition_events: [IntCounter; 3],
    pub(crate) cpu: CpuMeter,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_registered_once_under_its_name() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        assert!(Metrics::register(&registry).is_err());
        metrics.service("frontier").completed.inc();
        metrics.lag("frontier", "crawl.outcomes").set(3);
        let mut names: Vec<String> = registry.gather().iter().map(|family| family.name().to_owned()).collect();
        let mut expected = [COUNTERS.as_slice(), &GAUGES].concat();
        expected.extend(HISTOGRAMS.map(|(name, help, _)| (name, help)));
        expected.extend([(LAG_RECORDS, ""), (PARTITION_EVENTS, ""), (CPU_SECONDS, "")]);
        let mut expected: Vec<&str> = expected.into_iter().map(|(name, _)| name).collect();
        names.sort();
        expected.sort_unstable();
        assert_eq!(names, expected);
    }
}
