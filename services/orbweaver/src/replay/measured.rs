//! The service's stage, with measurement of its latency.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use orbweaver_log::{ConsumerRecord, Offset, Partition, TopicPartition};
use orbweaver_messages::{Millis, Topic};
use orbweaver_normalizer_dedup::NormalizerDedup;
use orbweaver_stage::{Actions, Incomplete, Origin, PartitionContext, RestoreSpec, Stage, StageError, Token};

use super::feed::Progress;

/// Durations of batches in microseconds, with an error of at most a percent.
#[derive(Debug)]
pub(super) struct Times(Histogram<u64>);

impl Default for Times {
    #[allow(clippy::expect_used, reason = "two digits are allowed, as every replay shows")]
    fn default() -> Self {
        Self(Histogram::new(2).expect("two digits are allowed"))
    }
}

impl Times {
    fn add(&mut self, took: Duration) {
        self.0.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Returns the duration that this share of the batches did not exceed, in milliseconds.
    #[allow(clippy::cast_precision_loss, reason = "a human-readable figure")]
    pub(super) fn quantile_ms(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1000.0
    }

    pub(super) fn longest_ms(&self) -> f64 {
        self.quantile_ms(1.0)
    }

    pub(super) fn merge(&mut self, other: &Self) {
        // An auto-resizing histogram has room for every value of another.
        let _ = self.0.add(&other.0);
    }
}

/// The service as the runtime drives it. Measures from the delivery of a batch to the completion of its last record:
/// decided, and durable if anything was new.
pub(super) struct Measured {
    pub(super) stage: NormalizerDedup,
    pub(super) times: Arc<Mutex<Times>>,
    progress: Arc<Progress>,
    batches: HashMap<u64, (Instant, usize)>,
    batch_of: HashMap<(TopicPartition, Offset), u64>,
    batch: u64,
}

impl Measured {
    pub(super) fn new(stage: NormalizerDedup, times: Arc<Mutex<Times>>, progress: Arc<Progress>) -> Self {
        Self { stage, times, progress, batches: HashMap::new(), batch_of: HashMap::new(), batch: 0 }
    }

    fn ended(&mut self, actions: &Actions<Infallible, Infallible>, from: usize) {
        let rejected = actions.rejects.iter().map(|(origin, _)| origin);
        for origin in actions.completes[from..].iter().chain(rejected) {
            let Some(number) = self.batch_of.remove(&(origin.tp, origin.offset)) else { continue };
            self.progress.completed();
            let Some((begun, left)) = self.batches.get_mut(&number) else { continue };
            *left -= 1;
            if *left == 0 {
                let took = begun.elapsed();
                self.batches.remove(&number);
                self.times.lock().unwrap_or_else(PoisonError::into_inner).add(took);
            }
        }
    }
}

impl Stage for Measured {
    type Job = Infallible;
    type Done = Infallible;
    type Effect = Infallible;

    fn service(&self) -> &'static str {
        self.stage.service()
    }

    fn topics(&self) -> &'static [Topic] {
        self.stage.topics()
    }

    fn claimed_topics(&self) -> &'static [Topic] {
        self.stage.claimed_topics()
    }

    fn tails(&self) -> &'static [Topic] {
        self.stage.tails()
    }

    fn restore_specs(&self, partition: Partition) -> Vec<RestoreSpec> {
        self.stage.restore_specs(partition)
    }

    fn restore(&mut self, partition: Partition, record: &ConsumerRecord) -> Result<(), StageError> {
        self.stage.restore(partition, record)
    }

    fn receive_tailed(
        &mut self,
        record: &ConsumerRecord,
        now: Millis,
        actions: &mut Actions<Infallible, Infallible>,
    ) -> Result<(), StageError> {
        let from = actions.completes.len();
        self.stage.receive_tailed(record, now, actions)?;
        self.ended(actions, from);
        Ok(())
    }

    fn refreshed(
        &mut self,
        token: Token,
        now: Millis,
        actions: &mut Actions<Infallible, Infallible>,
    ) -> Result<(), StageError> {
        let from = actions.completes.len();
        self.stage.refreshed(token, now, actions)?;
        self.ended(actions, from);
        Ok(())
    }

    fn prepare(&mut self, opening: PartitionContext, now: Millis) -> Result<(), StageError> {
        self.stage.prepare(opening, now)
    }

    fn open(&mut self, opening: PartitionContext, now: Millis) {
        self.stage.open(opening, now);
    }

    fn incomplete(&self, partition: Partition) -> Incomplete<'_> {
        self.stage.incomplete(partition)
    }

    fn receive(
        &mut self,
        batch: Vec<(Origin, ConsumerRecord)>,
        now: Millis,
        actions: &mut Actions<Infallible, Infallible>,
    ) -> Result<(), StageError> {
        self.batch += 1;
        self.batches.insert(self.batch, (Instant::now(), batch.len()));
        self.batch_of.extend(batch.iter().map(|(origin, _)| ((origin.tp, origin.offset), self.batch)));
        let from = actions.completes.len();
        self.stage.receive(batch, now, actions)?;
        self.ended(actions, from);
        Ok(())
    }

    fn plan_durable(
        &mut self,
        token: Token,
        offsets: &[Offset],
        now: Millis,
        actions: &mut Actions<Infallible, Infallible>,
    ) -> Result<(), StageError> {
        let from = actions.completes.len();
        self.stage.plan_durable(token, offsets, now, actions)?;
        self.ended(actions, from);
        Ok(())
    }

    fn refused(
        &mut self,
        token: Token,
        reason: &str,
        now: Millis,
        actions: &mut Actions<Infallible, Infallible>,
    ) -> Result<(), StageError> {
        let from = actions.completes.len();
        self.stage.refused(token, reason, now, actions)?;
        self.ended(actions, from);
        Ok(())
    }

    fn tick(&mut self, now: Millis, actions: &mut Actions<Infallible, Infallible>) -> Result<(), StageError> {
        let from = actions.completes.len();
        self.stage.tick(now, actions)?;
        self.ended(actions, from);
        Ok(())
    }

    fn next_tick(&self) -> Option<Millis> {
        self.stage.next_tick()
    }

    fn drain(&mut self, partition: Partition) {
        self.stage.drain(partition);
    }

    fn close(&mut self, partition: Partition) {
        self.stage.close(partition);
    }

    fn due(&self, now: Millis) -> usize {
        self.stage.due(now)
    }

    fn commit_metadata(&self, tp: TopicPartition) -> String {
        self.stage.commit_metadata(tp)
    }
}
