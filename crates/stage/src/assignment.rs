//! Lifecycle of an assigned partition: assigned → restoring → open → draining → released, or lost.
//!
//! Pure: consumer events go in, actions come out, and the loop applies them. Partition N starts to open when N of
//! every topic is held, and closes when one of them is gone, in whatever order they come and go
//! (docs/protocol.md#co-assignment).

use std::collections::{BTreeMap, BTreeSet};

use orbweaver_log::{Partition, TopicPartition};
use orbweaver_messages::Topic;
use tokio::time::Instant;

/// Change of the assignment of topic-partitions to this member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Assigned,
    Revoked,
    Lost,
}

/// Action on a partition. Actions are applied in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PartitionAction {
    /// All topics are held: append claims and restore, under this assignment epoch.
    Begin { partition: Partition, epoch: u32 },
    /// Cancel the restore, which is no longer needed, and drop what the stage received from it.
    Cancel { partition: Partition },
    /// The partition was revoked: finish its work in flight.
    Drain { partition: Partition },
    /// Commit these topic-partitions of it, then close it; later completions have no effect.
    Close { partition: Partition, commit: BTreeSet<TopicPartition> },
    /// Release these topic-partitions.
    Release(BTreeSet<TopicPartition>),
}

/// End of a drain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drain {
    pub(crate) deadline: Instant,
    /// Plan batches with a lower number started before the drain, which waits for them.
    pub(crate) barrier: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    /// Not open: some topics are not held, or the process is shutting down.
    #[default]
    Closed,
    Restoring,
    Open,
    Draining,
}

#[derive(Debug, Default)]
struct Entry {
    held: BTreeSet<TopicPartition>,
    /// Subset of `held` that was revoked.
    wanted: BTreeSet<TopicPartition>,
    phase: Phase,
    epoch: u32,
}

/// The partitions of one consumer.
#[derive(Debug)]
pub(crate) struct Assignment {
    topics: &'static [Topic],
    entries: BTreeMap<Partition, Entry>,
    draining: BTreeMap<Partition, Drain>,
    epochs: u32,
    is_ending: bool,
}

impl Assignment {
    pub(crate) fn new(topics: &'static [Topic]) -> Self {
        Self { topics, entries: BTreeMap::new(), draining: BTreeMap::new(), epochs: 0, is_ending: false }
    }

    /// Handles a change of the assignment; `drain` is the end of drains that it starts.
    pub(crate) fn change(&mut self, change: Change, tps: &[TopicPartition], drain: Drain) -> Vec<PartitionAction> {
        let (topics, mut actions) = (self.topics, vec![]);
        for &tp in tps.iter().filter(|tp| topics.contains(&tp.topic)) {
            match change {
                Change::Assigned => self.assigned(tp, &mut actions),
                Change::Revoked => self.revoked(tp, drain, &mut actions),
                Change::Lost => self.lost(tp, &mut actions),
            }
        }
        actions
    }

    fn assigned(&mut self, tp: TopicPartition, actions: &mut Vec<PartitionAction>) {
        // If it was already held, it had been lost without an event.
        self.lost(tp, actions);
        self.entries.entry(tp.partition).or_default().held.insert(tp);
        self.begin(tp.partition, actions);
    }

    fn revoked(&mut self, tp: TopicPartition, drain: Drain, actions: &mut Vec<PartitionAction>) {
        let entry = self.entries.get_mut(&tp.partition).filter(|entry| entry.held.contains(&tp));
        let Some(entry) = entry else { return };
        entry.wanted.insert(tp);
        self.stop(tp.partition, drain, actions);
        self.release(tp.partition, actions);
    }

    /// Handles the loss of `tp`. Nothing of its partition is committed: other topics of it are mostly lost as well,
    /// reported or not yet, and a commit that arrives once they were assigned again would fall behind those of the
    /// owner in between.
    fn lost(&mut self, tp: TopicPartition, actions: &mut Vec<PartitionAction>) {
        let partition = tp.partition;
        let Some(entry) = self.entries.get_mut(&partition) else { return };
        if !entry.held.remove(&tp) {
            return;
        }
        entry.wanted.remove(&tp);
        match std::mem::take(&mut entry.phase) {
            Phase::Open | Phase::Draining => {
                self.draining.remove(&partition);
                actions.push(PartitionAction::Close { partition, commit: BTreeSet::new() });
            }
            Phase::Restoring => actions.push(PartitionAction::Cancel { partition }),
            Phase::Closed => {}
        }
        self.release(partition, actions);
    }

    /// Starts the shutdown: drains open partitions and opens no more.
    pub(crate) fn shut_down(&mut self, drain: Drain) -> Vec<PartitionAction> {
        self.is_ending = true;
        let mut actions = vec![];
        for partition in self.entries.keys().copied().collect::<Vec<_>>() {
            self.stop(partition, drain, &mut actions);
        }
        actions
    }

    /// Ends the drains of partitions that are quiet or past their deadline. `is_quiet` receives a partition and its
    /// barrier. Returns the actions to be applied, and the partitions with unfinished work.
    pub(crate) fn drained(
        &mut self,
        now: Instant,
        is_quiet: impl Fn(Partition, u64) -> bool,
    ) -> (Vec<PartitionAction>, Vec<Partition>) {
        let (mut actions, mut unfinished) = (vec![], vec![]);
        let is_over = |&partition: &Partition, drain: &mut Drain| {
            let is_quiet = is_quiet(partition, drain.barrier);
            let is_over = is_quiet || now >= drain.deadline;
            unfinished.extend((is_over && !is_quiet).then_some(partition));
            is_over
        };
        for (partition, _) in self.draining.extract_if(.., is_over).collect::<Vec<_>>() {
            if let Some(entry) = self.entries.get_mut(&partition) {
                entry.phase = Phase::Closed;
                actions.push(PartitionAction::Close { partition, commit: entry.held.clone() });
            }
            self.release(partition, &mut actions);
            self.begin(partition, &mut actions);
        }
        (actions, unfinished)
    }

    /// Handles the end of the restore started under `epoch`; returns `true` if the partition is now open.
    pub(crate) fn restored(&mut self, partition: Partition, epoch: u32) -> bool {
        match self.entries.get_mut(&partition) {
            Some(entry) if entry.phase == Phase::Restoring && entry.epoch == epoch => {
                entry.phase = Phase::Open;
                true
            }
            _ => false,
        }
    }

    /// Returns `true` if the restore started under `epoch` is still needed.
    pub(crate) fn is_restoring(&self, partition: Partition, epoch: u32) -> bool {
        self.entries.get(&partition).is_some_and(|entry| entry.phase == Phase::Restoring && entry.epoch == epoch)
    }

    /// Returns the number of partitions being restored.
    pub(crate) fn restoring(&self) -> usize {
        self.entries.values().filter(|entry| entry.phase == Phase::Restoring).count()
    }

    pub(crate) fn is_draining(&self, partition: Partition) -> bool {
        self.draining.contains_key(&partition)
    }

    /// Returns the earliest deadline of a drain.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.draining.values().map(|drain| drain.deadline).min()
    }

    /// Returns `true` once shutdown was requested.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Returns `true` once shutdown was requested and all partitions are drained.
    pub(crate) fn is_over(&self) -> bool {
        self.is_ending && self.draining.is_empty()
    }

    fn begin(&mut self, partition: Partition, actions: &mut Vec<PartitionAction>) {
        let Some(entry) = self.entries.get_mut(&partition) else { return };
        let is_held = entry.held.len() == self.topics.len() && entry.wanted.is_empty();
        if is_held && entry.phase == Phase::Closed && !self.is_ending {
            self.epochs += 1;
            (entry.epoch, entry.phase) = (self.epochs, Phase::Restoring);
            actions.push(PartitionAction::Begin { partition, epoch: entry.epoch });
        }
    }

    /// Drains an open partition, and cancels the restore of one that is not open yet.
    fn stop(&mut self, partition: Partition, drain: Drain, actions: &mut Vec<PartitionAction>) {
        let Some(entry) = self.entries.get_mut(&partition) else { return };
        match entry.phase {
            Phase::Open => {
                entry.phase = Phase::Draining;
                self.draining.insert(partition, drain);
                actions.push(PartitionAction::Drain { partition });
            }
            Phase::Restoring => {
                entry.phase = Phase::Closed;
                actions.push(PartitionAction::Cancel { partition });
            }
            Phase::Draining | Phase::Closed => {}
        }
    }

    /// Releases the revoked topic-partitions of a closed partition.
    fn release(&mut self, partition: Partition, actions: &mut Vec<PartitionAction>) {
        let entry = self.entries.get_mut(&partition).filter(|entry| entry.phase == Phase::Closed);
        let Some(entry) = entry else { return };
        let tps = std::mem::take(&mut entry.wanted);
        entry.held.retain(|tp| !tps.contains(tp));
        if entry.held.is_empty() {
            self.entries.remove(&partition);
        }
        if !tps.is_empty() {
            actions.push(PartitionAction::Release(tps));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use orbweaver_messages::topic;

    use super::*;

    const TOPICS: &[Topic] = &[topic::FRONTIER, topic::OUTCOMES];

    /// Topic-partition of the topic with this index.
    fn at(partition: Partition, topic: usize) -> TopicPartition {
        TopicPartition::new(TOPICS[topic], partition)
    }

    fn close(partition: Partition, topics: impl IntoIterator<Item = usize>) -> PartitionAction {
        let commit = topics.into_iter().map(|topic| at(partition, topic)).collect();
        PartitionAction::Close { partition, commit }
    }

    fn release(partition: Partition, topics: impl IntoIterator<Item = usize>) -> PartitionAction {
        PartitionAction::Release(topics.into_iter().map(|topic| at(partition, topic)).collect())
    }

    /// An assignment whose drains end after five seconds.
    struct Tested {
        assignment: Assignment,
        begun: Instant,
    }

    impl Tested {
        fn new() -> Self {
            Self { assignment: Assignment::new(TOPICS), begun: Instant::now() }
        }

        /// Returns an assignment with these open partitions.
        fn opened(partitions: &[Partition]) -> Self {
            let mut tested = Self::new();
            for (&partition, epoch) in partitions.iter().zip(1..) {
                assert_eq!(tested.change(Change::Assigned, partition, 0), []);
                let begin = PartitionAction::Begin { partition, epoch };
                assert_eq!(tested.change(Change::Assigned, partition, 1), [begin]);
                assert!(tested.assignment.restored(partition, epoch));
            }
            tested
        }

        fn at(&self, seconds: u64) -> Instant {
            self.begun + Duration::from_secs(seconds)
        }

        fn drain(&self) -> Drain {
            Drain { deadline: self.at(5), barrier: 3 }
        }

        fn change(&mut self, change: Change, partition: Partition, topic: usize) -> Vec<PartitionAction> {
            self.assignment.change(change, &[at(partition, topic)], self.drain())
        }

        /// Ends the drains of all partitions, which are quiet.
        fn drained(&mut self) -> Vec<PartitionAction> {
            self.assignment.drained(self.begun, |_, _| true).0
        }
    }

    #[test]
    fn a_partition_is_begun_when_it_is_held_of_all_topics_in_whatever_pieces_it_comes() {
        let mut tested = Tested::new();
        assert_eq!(tested.change(Change::Assigned, 7, 1), []);
        assert_eq!(tested.change(Change::Assigned, 3, 0), []);
        assert_eq!(tested.change(Change::Assigned, 7, 0), [PartitionAction::Begin { partition: 7, epoch: 1 }]);
        assert!(tested.assignment.is_restoring(7, 1) && !tested.assignment.is_restoring(3, 1));
        let other = TopicPartition::new(topic::SEEDS, 3);
        assert_eq!(tested.assignment.change(Change::Assigned, &[other], tested.drain()), [], "not of the group");
    }

    #[test]
    fn when_one_topic_is_wanted_back_both_are_drained_and_committed_and_one_is_handed_back() {
        let mut tested = Tested::opened(&[7]);
        assert_eq!(tested.change(Change::Revoked, 7, 0), [PartitionAction::Drain { partition: 7 }]);
        assert_eq!(tested.drained(), [close(7, 0..2), release(7, [0])]);
        let begin = PartitionAction::Begin { partition: 7, epoch: 2 };
        assert_eq!(tested.change(Change::Assigned, 7, 0), [begin], "a new epoch");
    }

    #[test]
    fn a_second_revocation_while_draining_is_answered_along_with_the_first() {
        let mut tested = Tested::opened(&[7]);
        tested.change(Change::Revoked, 7, 0);
        assert_eq!(tested.change(Change::Revoked, 7, 1), []);
        assert_eq!(tested.drained(), [close(7, 0..2), release(7, 0..2)]);
        assert_eq!(tested.drained(), []);
    }

    #[test]
    fn of_a_partition_that_was_lost_nothing_is_committed() {
        // Both topics are lost, in one event or two; after the first, the other one counts as held.
        let both = [at(7, 0), at(7, 1)];
        let mut tested = Tested::opened(&[7]);
        assert_eq!(tested.assignment.change(Change::Lost, &both, tested.drain()), [close(7, [])]);
        let mut tested = Tested::opened(&[7]);
        assert_eq!(tested.change(Change::Lost, 7, 0), [close(7, [])]);
        assert_eq!(tested.change(Change::Lost, 7, 1), []);
        let mut draining = Tested::opened(&[7]);
        draining.change(Change::Revoked, 7, 0);
        draining.change(Change::Revoked, 7, 1);
        assert_eq!(draining.change(Change::Lost, 7, 1), [close(7, []), release(7, [0])]);
        assert!(!draining.assignment.is_draining(7));
    }

    #[test]
    fn a_restore_is_cancelled_when_its_partition_is_wanted_back() {
        let mut tested = Tested::new();
        tested.change(Change::Assigned, 0, 0);
        tested.change(Change::Assigned, 0, 1);
        let cancel = PartitionAction::Cancel { partition: 0 };
        assert_eq!(tested.change(Change::Revoked, 0, 0), [cancel, release(0, [0])]);
        assert!(!tested.assignment.restored(0, 1), "its late end opens nothing");
    }

    #[test]
    fn an_assignment_of_what_is_held_means_that_it_had_been_lost() {
        let begin = PartitionAction::Begin { partition: 7, epoch: 2 };
        assert_eq!(Tested::opened(&[7]).change(Change::Assigned, 7, 0), [close(7, []), begin]);
    }

    #[test]
    fn a_drain_ends_when_it_is_quiet_or_at_its_deadline_with_unfinished_work() {
        let mut tested = Tested::opened(&[1, 2]);
        tested.change(Change::Revoked, 1, 0);
        tested.change(Change::Revoked, 2, 0);
        let (first, end) = (tested.at(1), tested.at(5));
        assert_eq!(tested.assignment.drained(first, |_, _| false), (vec![], vec![]));
        let (actions, unfinished) = tested.assignment.drained(first, |tp, barrier| (tp, barrier) == (2, 3));
        assert_eq!((actions, unfinished), (vec![close(2, 0..2), release(2, [0])], vec![]));
        assert_eq!((tested.assignment.next_deadline(), tested.assignment.is_draining(2)), (Some(end), false));
        let (actions, unfinished) = tested.assignment.drained(end, |_, _| false);
        assert_eq!((actions, unfinished), (vec![close(1, 0..2), release(1, [0])], vec![1]));
    }

    #[test]
    fn a_shutdown_drains_what_is_open_cancels_restores_begins_nothing_and_is_over_when_all_are_drained() {
        let mut tested = Tested::opened(&[7]);
        tested.change(Change::Assigned, 8, 0);
        tested.change(Change::Assigned, 8, 1);
        assert!(!tested.assignment.is_over());
        let actions = [PartitionAction::Drain { partition: 7 }, PartitionAction::Cancel { partition: 8 }];
        assert_eq!(tested.assignment.shut_down(tested.drain()), actions);
        assert!(tested.assignment.is_ending() && !tested.assignment.is_over());
        assert_eq!(tested.drained(), [close(7, 0..2)]);
        assert_eq!((tested.change(Change::Assigned, 9, 0), tested.change(Change::Assigned, 9, 1)), (vec![], vec![]));
        assert!(tested.assignment.is_over());
    }
}
