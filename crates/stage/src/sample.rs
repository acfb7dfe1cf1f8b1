//! Periodic samples, so that they cost nothing per record: gauges at each tick, commit points every second, lags every
//! fifteen seconds outside the loop.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, TryStreamExt, stream};
use orbweaver_log::{Log, LogError, Offset, TopicPartition};
use orbweaver_messages::Topic;
use prometheus::IntGauge;
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};

use crate::{loop_context::LoopContext, open_partitions::OpenPartitions};

/// Interval between checks of the commit points of all partitions.
const COMMIT_POINTS_EVERY: Duration = Duration::from_secs(1);
/// Interval between lag readings: on Kafka each takes one or two requests per partition.
const LAG_EVERY: Duration = Duration::from_secs(15);
/// Timeout of a lag reading; afterwards it is abandoned, and the gauges keep their values.
const LAG_PATIENCE: Duration = Duration::from_secs(60);
/// Maximum number of concurrent requests for log ends.
const ENDS_AT_ONCE: usize = 4;

/// Times of the last samples.
#[derive(Debug)]
pub(crate) struct Samples {
    lags: Vec<(Topic, IntGauge)>,
    commit_points_at: Option<Instant>,
    lag_at: Option<Instant>,
    reading: Option<JoinHandle<()>>,
}

impl Samples {
    /// Creates the samples; `lags` are the gauges of the group's topics.
    pub(crate) fn new(lags: Vec<(Topic, IntGauge)>) -> Self {
        Self { lags, commit_points_at: None, lag_at: None, reading: None }
    }
}

impl Drop for Samples {
    fn drop(&mut self) {
        if let Some(reading) = &self.reading {
            reading.abort();
        }
    }
}

/// State of the loop at a tick.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Amount of work that could progress now.
    pub(crate) due: usize,
    pub(crate) restoring: usize,
    pub(crate) restoring_since: Option<Instant>,
    pub(crate) uncommitted_since: Option<Instant>,
    /// Time without progress.
    pub(crate) stalled_for: Duration,
}

impl Samples {
    /// Sets the gauges and the status of the runner.
    pub(crate) fn take(&mut self, context: &LoopContext, open: &mut OpenPartitions, sample: Sample, now: Instant) {
        context.pulse.beat(now, open.partitions(), sample.restoring);
        let metrics = &context.metrics;
        let gauge = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let seconds = |since: Option<Instant>| since.map_or(0.0, |since| now.duration_since(since).as_secs_f64());
        metrics.outstanding.set(gauge(open.outstanding()));
        metrics.open.set(gauge(open.open_partitions()));
        metrics.restoring.set(gauge(sample.restoring));
        metrics.due.set(gauge(sample.due));
        metrics.still.set(sample.stalled_for.as_secs_f64());
        metrics.commit_age.set(seconds(sample.uncommitted_since));
        metrics.restoring_seconds.set(seconds(sample.restoring_since));
        let budget = open.budget();
        metrics.budget_records.set(gauge(budget.records()));
        metrics.budget_bytes.set(gauge(budget.bytes()));
        metrics.budget_used.set(budget.used_ratio());
        if is_due(&mut self.commit_points_at, COMMIT_POINTS_EVERY, now) {
            metrics.commit_stalled.set(open.stalled(now).as_secs_f64());
        }
        let reading = self.reading.as_ref().is_some_and(|reading| !reading.is_finished());
        if open.open_partitions() == 0 {
            // Read immediately when a partition opens.
            self.lag_at = None;
            self.lags.iter().for_each(|(_, gauge)| gauge.set(0));
        } else if !reading && is_due(&mut self.lag_at, LAG_EVERY, now) {
            self.reading = Some(tokio::spawn(self.lag_reading(context, open)));
        }
    }

    /// Reads the lag of the open partitions and sets its gauges.
    fn lag_reading(&self, context: &LoopContext, open: &OpenPartitions) -> impl Future<Output = ()> + Send + use<> {
        let (log, service) = (context.log.clone(), context.service);
        let commits: Vec<(TopicPartition, Offset)> = open.committed_points().collect();
        let gauges = self.lags.clone();
        async move {
            match timeout(LAG_PATIENCE, lags(log, commits)).await {
                Ok(Ok(lags)) => {
                    for (topic, gauge) in gauges {
                        let of_topic = lags.iter().filter(|(tp, _)| tp.topic == topic);
                        let lag = of_topic.fold(0, |sum: u64, (_, lag)| sum.saturating_add(*lag));
                        gauge.set(i64::try_from(lag).unwrap_or(i64::MAX));
                    }
                }
                Ok(Err(error)) => tracing::debug!(service, %error, "the lag could not be read"),
                Err(_) => tracing::debug!(service, "the lag could not be read in time"),
            }
        }
    }
}

/// Returns `true` the first time, and then once per `every`.
fn is_due(last: &mut Option<Instant>, every: Duration, now: Instant) -> bool {
    let due = last.is_none_or(|last| now.duration_since(last) >= every);
    if due {
        *last = Some(now);
    }
    due
}

/// Returns the number of offsets between commit and log end, per topic-partition.
async fn lags(
    log: Arc<dyn Log>,
    commits: Vec<(TopicPartition, Offset)>,
) -> Result<Vec<(TopicPartition, u64)>, LogError> {
    let log = &log;
    let read = |(tp, committed): (TopicPartition, Offset)| async move {
        let bounds = log.bounds(tp).await?;
        Ok((tp, bounds.end.saturating_sub(committed.max(bounds.start))))
    };
    stream::iter(commits).map(read).buffer_unordered(ENDS_AT_ONCE).try_collect().await
}
