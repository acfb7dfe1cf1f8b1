//! Lag of the archiver: while it exceeds `fetcher.max_archive_lag`, nothing is fetched for archived crawls.
//!
//! The log knows how many page records the archiver has not committed, and not their bytes: these are estimated by the
//! mean size of the records that this fetcher has written.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use orbweaver_messages::{Millis, topic};
use orbweaver_stage::Step;
use orbweaver_store::Write;

/// Time until a deferred dispatch may come again, and interval of the measurements, in milliseconds.
pub(crate) const RETRY_MS: Millis = 10_000;
/// Size of a page record before one was written, in bytes.
const FIRST_RECORD_BYTES: u64 = 32 << 10;

/// Lag of the archiver, shared by the stage and the measurement.
#[derive(Debug)]
pub(crate) struct ArchiveLag {
    /// In bytes; 0: none.
    limit: u64,
    written_bytes: AtomicU64,
    written_records: AtomicU64,
    is_over: AtomicBool,
}

impl ArchiveLag {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            written_bytes: AtomicU64::new(0),
            written_records: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// Returns `true` if archived crawls must pause.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Counts the page records of a plan.
    pub(crate) fn count(&self, steps: &[Step<Write>]) {
        let records = steps.iter().flat_map(|step| match step {
            Step::Produce(records) => &records[..],
            Step::Perform(_) => &[],
        });
        for record in records.filter(|record| record.tp.topic == topic::PAGES) {
            self.written_bytes.fetch_add(u64::try_from(record.bytes()).unwrap_or_default(), Ordering::Relaxed);
            self.written_records.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Applies the number of page records that are not archived; returns their estimated size in bytes. A lag that was
    /// above the limit ends below nine tenths of it.
    #[cfg_attr(
        not(any(test, feature = "cluster")),
        expect(dead_code, reason = "an archiver in this process has no lag")
    )]
    pub(crate) fn measured(&self, records: u64) -> u64 {
        let (bytes, count) = (&self.written_bytes, &self.written_records);
        let mean = bytes.load(Ordering::Relaxed).checked_div(count.load(Ordering::Relaxed));
        let lag = records.saturating_mul(mean.unwrap_or(FIRST_RECORD_BYTES));
        let limit = if self.is_over() { self.limit - self.limit / 10 } else { self.limit };
        self.is_over.store(self.limit > 0 && lag > limit, Ordering::Relaxed);
        lag
    }
}

#[cfg(feature = "cluster")]
mod watch {
    use std::sync::Arc;

    use orbweaver_log::{Log, LogError, topic_partitions};
    use orbweaver_process::EverySecond;
    use prometheus::IntGauge;

    use super::{ArchiveLag, Millis, RETRY_MS, topic};

    /// Consumer group of the archiver.
    const GROUP: &str = "archiver";

    /// Measurement of the lag.
    #[derive(Debug)]
    pub(crate) struct LagWatch {
        lag: Arc<ArchiveLag>,
        gauge: IntGauge,
        next_ms: Millis,
    }

    impl LagWatch {
        pub(crate) fn new(lag: Arc<ArchiveLag>, gauge: IntGauge) -> Self {
            Self { lag, gauge, next_ms: Millis::MIN }
        }
    }

    impl EverySecond for LagWatch {
        const PURPOSE: &'static str = "measuring the lag of the archiver";

        async fn act(&mut self, log: &dyn Log, now: Millis) -> Result<(), LogError> {
            if self.lag.limit == 0 || now < self.next_ms {
                return Ok(());
            }
            let tps = topic_partitions(log, &[topic::PAGES])?;
            let (commits, bounds) = (log.committed(GROUP, &tps).await?, log.all_bounds(&tps).await?);
            self.next_ms = now.saturating_add(RETRY_MS);
            let behind = commits.iter().zip(&bounds).map(|(commit, bounds)| {
                // Without an archiver nothing is archived, and nothing may pause for it.
                commit.as_ref().map_or(0, |commit| bounds.end.saturating_sub(commit.offset.max(bounds.start)))
            });
            let was_over = self.lag.is_over();
            let bytes = self.lag.measured(behind.sum());
            self.gauge.set(i64::try_from(bytes).unwrap_or(i64::MAX));
            match (was_over, self.lag.is_over()) {
                (false, true) => tracing::warn!(bytes, "the archiver is too far behind; archived crawls pause"),
                (true, false) => tracing::info!(bytes, "the archiver has caught up; archived crawls resume"),
                _ => {}
            }
            Ok(())
        }
    }
}

#[cfg(feature = "cluster")]
pub(crate) use watch::LagWatch;

#[cfg(test)]
mod tests {
    use orbweaver_log::{Record, TopicPartition};

    use super::*;

    fn produced(topic: orbweaver_messages::Topic, bytes: usize) -> Step<Write> {
        let record = Record::new(TopicPartition::new(topic, 0), None, None, 0);
        let value = vec![0; bytes - record.bytes()].into();
        Step::Produce(vec![Record { value: Some(value), ..record }])
    }

    #[test]
    fn the_lag_is_the_number_of_records_times_the_mean_size_of_those_that_were_written() {
        let lag = ArchiveLag::new(0);
        assert_eq!(lag.measured(10), 10 * FIRST_RECORD_BYTES);
        lag.count(&[produced(topic::PAGES, 1000), produced(topic::OUTCOMES, 90_000), Step::Perform(vec![])]);
        lag.count(&[produced(topic::PAGES, 3000)]);
        assert_eq!((lag.measured(10), lag.is_over()), (20_000, false), "without a limit");
        assert_eq!(lag.measured(u64::MAX), u64::MAX);
    }

    #[test]
    fn archived_crawls_pause_above_the_limit_and_resume_below_nine_tenths_of_it() {
        let lag = ArchiveLag::new(10_000);
        lag.count(&[produced(topic::PAGES, 100)]);
        for (records, is_over) in [(100, false), (101, true), (100, true), (91, true), (90, false), (100, false)] {
            lag.measured(records);
            assert_eq!(lag.is_over(), is_over, "{records} records");
        }
    }

    #[cfg(feature = "cluster")]
    #[tokio::test]
    async fn what_the_archiver_has_not_committed_is_measured_every_ten_seconds_and_nothing_without_an_archiver() {
        use std::sync::Arc;

        use orbweaver_log::{Cleanup, Commit, Log as _, MemoryLog, TopicSpec, topic_partitions};
        use orbweaver_process::EverySecond as _;
        use prometheus::IntGauge;

        let log = MemoryLog::scripted(&[TopicSpec::new(topic::PAGES, 2, Cleanup::Delete)]);
        let record = |partition| Record::new(TopicPartition::new(topic::PAGES, partition), None, None, 0);
        log.append(vec![record(0), record(0), record(1), record(1), record(1)]).await.unwrap();
        let (lag, gauge) = (Arc::new(ArchiveLag::new(3 * FIRST_RECORD_BYTES)), IntGauge::new("lag", "Lag").unwrap());
        let mut watch = LagWatch::new(Arc::clone(&lag), gauge.clone());
        watch.act(&log, 0).await.unwrap();
        assert_eq!((gauge.get(), lag.is_over()), (0, false));
        let _member = log.consumer("archiver", &[topic::PAGES]).unwrap();
        log.assign("archiver", 0, &topic_partitions(&log, &[topic::PAGES]).unwrap()).unwrap();
        for (at, partition, offset, records) in
            [(RETRY_MS, 1, 0, 3), (2 * RETRY_MS - 1, 0, 0, 3), (2 * RETRY_MS, 0, 1, 4), (3 * RETRY_MS, 1, 3, 1)]
        {
            let tp = TopicPartition::new(topic::PAGES, partition);
            log.commit_as("archiver", 0, vec![(tp, Commit { offset, metadata: String::new() })]).unwrap();
            watch.act(&log, at).await.unwrap();
            assert_eq!(gauge.get() as u64, records * FIRST_RECORD_BYTES, "at {at}");
            assert_eq!(lag.is_over(), records > 3, "at {at}");
        }
    }
}
