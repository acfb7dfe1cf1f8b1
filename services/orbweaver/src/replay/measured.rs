//! The service's stage, with measurement of its latency.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use orbweaver_log::{Delivered, Offset, Partition, TopicPartition};
use orbweaver_messages::{Millis, Topic};
use orbweaver_normalizer_dedup::NormalizerDedup;
use orbweaver_stage::{Actions, Opening, Origin, RestoreSpec, Stage, StageError, Token};

use super::feed::Progress;

/// Durations of batches, in steps of an eighth of their size: takes 0.1 % of the memory of a list of all durations.
#[derive(Debug)]
pub(super) struct Times {
    steps: Vec<u64>,
    longest: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self { steps: vec![0; 512], longest: Duration::ZERO }
    }
}

impl Times {
    fn add(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(8);
        let octave = micros.ilog2();
        let step = (octave * 8 + ((micros >> (octave - 3)) & 7) as u32) as usize;
        self.steps[step] += 1;
        self.longest = self.longest.max(took);
    }

    /// Returns the duration that this share of the batches did not exceed, rounded up to the end of its step, in
    /// milliseconds.
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    pub(super) fn quantile_ms(&self, share: f64) -> f64 {
        let wanted = share * self.steps.iter().sum::<u64>() as f64;
        let mut so_far = 0;
        for (step, count) in self.steps.iter().enumerate() {
            so_far += count;
            if *count > 0 && so_far as f64 >= wanted {
                let (octave, eighth) = (step / 8, step % 8);
                return (((9 + eighth) as u64) << (octave - 3)) as f64 / 1000.0;
            }
        }
        0.0
    }

    pub(super) fn longest_ms(&self) -> f64 {
        self.longest.as_secs_f64() * 1000.0
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.steps.iter_mut().zip(&other.steps).for_each(|(own, other)| *own += other);
        self.longest = self.longest.max(other.longest);
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
            let Some(number) = self.batch_of.remove(&(origin.place, origin.offset)) else { continue };
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

    fn claims(&self) -> &'static [Topic] {
        self.stage.claims()
    }

    fn tails(&self) -> &'static [Topic] {
        self.stage.tails()
    }

    fn restores(&self, partition: Partition) -> Vec<RestoreSpec> {
        self.stage.restores(partition)
    }

    fn restore(&mut self, partition: Partition, record: &Delivered) -> Result<(), StageError> {
        self.stage.restore(partition, record)
    }

    fn follow(&mut self, record: &Delivered, now: Millis, actions: &mut Actions<Infallible, Infallible>) {
        let from = actions.completes.len();
        self.stage.follow(record, now, actions);
        self.ended(actions, from);
    }

    fn refreshed(&mut self, token: Token, now: Millis, actions: &mut Actions<Infallible, Infallible>) {
        let from = actions.completes.len();
        self.stage.refreshed(token, now, actions);
        self.ended(actions, from);
    }

    fn prepare(&mut self, opening: Opening, now: Millis) -> Result<(), StageError> {
        self.stage.prepare(opening, now)
    }

    fn open(&mut self, opening: Opening, now: Millis) {
        self.stage.open(opening, now);
    }

    fn incomplete(&self, partition: Partition) -> Box<dyn Iterator<Item = (Topic, Offset)> + '_> {
        self.stage.incomplete(partition)
    }

    fn receive(&mut self, batch: Vec<(Origin, Delivered)>, now: Millis, actions: &mut Actions<Infallible, Infallible>) {
        self.batch += 1;
        self.batches.insert(self.batch, (Instant::now(), batch.len()));
        self.batch_of.extend(batch.iter().map(|(origin, _)| ((origin.place, origin.offset), self.batch)));
        let from = actions.completes.len();
        self.stage.receive(batch, now, actions);
        self.ended(actions, from);
    }

    fn settled(
        &mut self,
        token: Token,
        offsets: &[Offset],
        now: Millis,
        actions: &mut Actions<Infallible, Infallible>,
    ) {
        let from = actions.completes.len();
        self.stage.settled(token, offsets, now, actions);
        self.ended(actions, from);
    }

    fn refused(&mut self, token: Token, reason: &str, now: Millis, actions: &mut Actions<Infallible, Infallible>) {
        let from = actions.completes.len();
        self.stage.refused(token, reason, now, actions);
        self.ended(actions, from);
    }

    fn tick(&mut self, now: Millis, actions: &mut Actions<Infallible, Infallible>) {
        let from = actions.completes.len();
        self.stage.tick(now, actions);
        self.ended(actions, from);
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

    fn commit_metadata(&self, place: TopicPartition) -> String {
        self.stage.commit_metadata(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_within_an_eighth_above_the_time() {
        let mut times = Times::default();
        (1..=1000).for_each(|millis| times.add(Duration::from_millis(millis)));
        for (share, exact) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let quantile = times.quantile_ms(share);
            assert!((exact..exact * 1.126).contains(&quantile), "{share}: {quantile}");
        }
        assert!((times.longest_ms() - 1000.0).abs() < f64::EPSILON);
    }
}
