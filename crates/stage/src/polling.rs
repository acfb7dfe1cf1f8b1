//! The consumer: polls, and back-pressure by pausing topic-partitions.

use std::{collections::BTreeSet, time::Duration};

use futures::future::BoxFuture;
use orbweaver_log::{Commit, Consumer, Event, LogError, Offset, TopicPartition};

/// Number of loop iterations without a poll after which the consumer is polled without waiting: an unpolled consumer
/// loses its membership, and a restore of millions of records keeps its arm ready for minutes.
const ITERATIONS_WITHOUT_POLL: u32 = 8;
/// Maximum wait per poll. A tick ends it earlier.
const POLL_WAIT: Duration = Duration::from_secs(1);

/// Reasons to deliver no records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pressure {
    /// The budget is full.
    pub(crate) is_full: bool,
    /// A quarantine or a trial holds back the records of all other topic-partitions.
    pub(crate) is_held: bool,
}

pub(crate) struct Polling {
    consumer: Box<dyn Consumer>,
    paused: BTreeSet<TopicPartition>,
    iterations_without_poll: u32,
    /// Pressure at the end of the last loop iteration.
    pressure: Pressure,
}

impl Polling {
    pub(crate) fn new(consumer: Box<dyn Consumer>) -> Self {
        Self { consumer, paused: BTreeSet::new(), iterations_without_poll: 0, pressure: Pressure::default() }
    }

    /// Counts a loop iteration. Returns `true` if the consumer must now be polled whatever else is ready.
    pub(crate) fn is_overdue(&mut self) -> bool {
        self.iterations_without_poll += 1;
        self.iterations_without_poll > ITERATIONS_WITHOUT_POLL
    }

    /// Waits for the next event, or only looks for one if a poll is overdue. Cancel-safe.
    pub(crate) async fn poll(&mut self) -> Result<Option<Event>, LogError> {
        let is_overdue = self.iterations_without_poll > ITERATIONS_WITHOUT_POLL;
        let event = self.consumer.poll(if is_overdue { Duration::ZERO } else { POLL_WAIT }).await;
        self.iterations_without_poll = 0;
        event
    }

    /// Starts a commit; the future resolves with its answer.
    pub(crate) fn commit(
        &mut self,
        commits: Vec<(TopicPartition, Commit)>,
    ) -> BoxFuture<'static, Result<(), LogError>> {
        self.consumer.commit(commits)
    }

    /// Starts the delivery of `tp` at `from`. Returns `false` if `tp` was lost; its event has not arrived yet.
    pub(crate) fn start(&mut self, tp: TopicPartition, from: Offset) -> Result<bool, LogError> {
        unless_lost(self.consumer.start(tp, from))
    }

    /// Releases revoked topic-partitions.
    pub(crate) fn release(&mut self, tps: &[TopicPartition]) -> Result<(), LogError> {
        self.paused.retain(|tp| !tps.contains(tp));
        unless_lost(self.consumer.release(tps)).map(drop)
    }

    /// Forgets that `tp` was paused: it was lost, or assigned again.
    pub(crate) fn forget(&mut self, tp: TopicPartition) {
        self.paused.remove(&tp);
    }

    /// Sets the pressure; returns `true` if it changed. [`Self::adjust`] applies it.
    pub(crate) fn press(&mut self, pressure: Pressure) -> bool {
        std::mem::replace(&mut self.pressure, pressure) != pressure
    }

    /// Pauses or resumes `tp`. `occupied` is set for a topic-partition in quarantine: whether it has a record that
    /// others wait for.
    pub(crate) fn adjust(&mut self, tp: TopicPartition, occupied: Option<bool>) -> Result<(), LogError> {
        let is_paused = self.pressure.is_full || occupied.unwrap_or(self.pressure.is_held);
        if is_paused { self.pause(tp) } else { self.resume(tp) }
    }

    pub(crate) fn pause(&mut self, tp: TopicPartition) -> Result<(), LogError> {
        if !self.paused.contains(&tp) && unless_lost(self.consumer.pause(&[tp]))? {
            self.paused.insert(tp);
        }
        Ok(())
    }

    fn resume(&mut self, tp: TopicPartition) -> Result<(), LogError> {
        if self.paused.contains(&tp) && unless_lost(self.consumer.resume(&[tp]))? {
            self.paused.remove(&tp);
        }
        Ok(())
    }

    /// Leaves the group.
    pub(crate) fn close(self) -> BoxFuture<'static, Result<(), LogError>> {
        self.consumer.close()
    }
}

/// Returns `false` for a topic-partition that was lost, whose event has not arrived yet.
fn unless_lost(result: Result<(), LogError>) -> Result<bool, LogError> {
    match result {
        Ok(()) => Ok(true),
        Err(LogError::NotAssigned(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_log::{Cleanup, Log, MemoryLog, TopicSpec};
    use orbweaver_messages::topic;

    use super::*;

    const ONE: TopicPartition = TopicPartition { topic: topic::SEEDS, partition: 0 };
    const TWO: TopicPartition = TopicPartition { topic: topic::SEEDS, partition: 1 };

    async fn polling() -> Polling {
        let log = MemoryLog::new(&[TopicSpec::new(topic::SEEDS, 2, Cleanup::Delete)]);
        let mut polling = Polling::new(log.consumer("tested", &[topic::SEEDS]).unwrap());
        assert!(matches!(polling.poll().await, Ok(Some(Event::Assigned(_)))));
        polling
    }

    #[tokio::test(start_paused = true)]
    async fn after_eight_iterations_without_a_poll_the_next_poll_does_not_wait() {
        let mut polling = polling().await;
        assert_eq!((0..9).filter(|_| polling.is_overdue()).count(), 1);
        let begun = tokio::time::Instant::now();
        polling.poll().await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert!(!polling.is_overdue());
        polling.poll().await.unwrap();
        assert_eq!(begun.elapsed(), POLL_WAIT);
    }

    #[tokio::test]
    async fn a_full_budget_pauses_all_and_a_trial_all_but_the_quarantined_ones() {
        let mut polling = polling().await;
        let mut paused = |is_full, is_held, occupied| {
            polling.press(Pressure { is_full, is_held });
            polling.adjust(ONE, None).unwrap();
            polling.adjust(TWO, occupied).unwrap();
            polling.paused.iter().copied().collect::<Vec<_>>()
        };
        assert_eq!(paused(true, false, Some(false)), [ONE, TWO]);
        assert_eq!(paused(false, true, Some(false)), [ONE]);
        assert_eq!(paused(false, true, Some(true)), [ONE, TWO]);
        assert_eq!(paused(false, false, None), []);
    }

    #[tokio::test]
    async fn a_topic_partition_that_was_lost_is_no_error() {
        let mut polling = polling().await;
        polling.release(&[ONE]).unwrap();
        polling.press(Pressure { is_full: true, is_held: false });
        polling.adjust(ONE, None).unwrap();
        assert!(polling.paused.is_empty() && !polling.start(ONE, 0).unwrap());
    }
}
