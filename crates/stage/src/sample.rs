//! Periodic samples, so that they cost nothing per record: gauges at each tick, commit points every second, lags every
//! fifteen seconds outside the loop.

use std::time::Duration;

use orbweaver_log::{Offset, TopicPartition};
use orbweaver_messages::Topic;
use prometheus::IntGauge;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{loop_context::LoopContext, open_partitions::OpenPartitions};

/// Interval between checks of the commit points of all partitions.
const COMMIT_POINTS_EVERY: Duration = Duration::from_secs(1);
/// Interval between lag readings: on Kafka each takes one or two requests per partition.
const LAG_EVERY: Duration = Duration::from_secs(15);
/// Timeout of a lag reading; afterwards it is abandoned, and the gauges keep their values.
const LAG_PATIENCE: Duration = Duration::from_secs(60);

/// Times of the last samples.
#[derive(Debug)]
pub(crate) struct Samples {
    lags: Vec<(Topic, IntGauge)>,
    commit_points_at: Option<Instant>,
    lag_at: Option<Instant>,
    /// Running lag reading.
    reading: JoinSet<()>,
}

impl Samples {
    /// Creates the samples; `lags` are the gauges of the group's topics.
    pub(crate) fn new(lags: Vec<(Topic, IntGauge)>) -> Self {
        Self { lags, commit_points_at: None, lag_at: None, reading: JoinSet::new() }
    }

    /// Sets the gauges of the open partitions.
    pub(crate) fn take(&mut self, context: &LoopContext, open: &mut OpenPartitions, now: Instant) {
        let metrics = &context.metrics;
        metrics.outstanding.set(open.outstanding() as f64);
        metrics.open.set(open.open_partitions() as f64);
        let budget = open.budget();
        metrics.budget_records.set(budget.records() as f64);
        metrics.budget_bytes.set(budget.bytes() as f64);
        metrics.budget_used.set(budget.used_ratio());
        if is_due(&mut self.commit_points_at, COMMIT_POINTS_EVERY, now) {
            metrics.commit_stalled.set(open.stalled(now).as_secs_f64());
        }
        while self.reading.try_join_next().is_some() {}
        if open.open_partitions() == 0 {
            // Read immediately when a partition opens.
            self.lag_at = None;
            self.lags.iter().for_each(|(_, gauge)| gauge.set(0));
        } else if self.reading.is_empty() && is_due(&mut self.lag_at, LAG_EVERY, now) {
            self.reading.spawn(self.lag_reading(context, open));
        }
    }

    /// Reads the lag of the open partitions and sets its gauges.
    fn lag_reading(&self, context: &LoopContext, open: &OpenPartitions) -> impl Future<Output = ()> + Send + use<> {
        let (log, service) = (context.log.clone(), context.service);
        let commits: Vec<(TopicPartition, Offset)> = open.committed_points().collect();
        let gauges = self.lags.clone();
        async move {
            let tps: Vec<TopicPartition> = commits.iter().map(|(tp, _)| *tp).collect();
            match timeout(LAG_PATIENCE, log.all_bounds(&tps)).await {
                Ok(Ok(bounds)) => {
                    for (topic, gauge) in gauges {
                        let of_topic = commits.iter().zip(&bounds).filter(|((tp, _), _)| tp.topic == topic);
                        let lag = of_topic.fold(0, |sum: u64, ((_, committed), bounds)| {
                            sum.saturating_add(bounds.end.saturating_sub(*committed.max(&bounds.start)))
                        });
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
