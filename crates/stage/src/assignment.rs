//! Lifecycle of an assigned partition: assigned → restoring → open → draining → released, or lost.
//!
//! Pure: consumer events go in, actions come out, and the runner applies them. Partition N starts to open when N of
//! every topic is held, and closes when one of them is gone, in whatever order they come and go
//! (docs/protocol.md#co-assignment).

use std::collections::BTreeMap;

use orbweaver_log::Partition;

/// A set of topics, by their index in `Stage::topics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TopicSet(u32);

impl TopicSet {
    /// Maximum number of topics in a stage's group.
    pub(crate) const MOST: usize = 32;

    fn all(topics: usize) -> Self {
        Self(u32::try_from((1u64 << topics) - 1).unwrap_or(u32::MAX))
    }

    pub(crate) fn of(topic: usize) -> Self {
        Self(1 << topic)
    }

    pub(crate) fn contains(self, topic: usize) -> bool {
        self.0 & (1 << topic) != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the topic indices in the set.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        (0..Self::MOST).filter(move |&topic| self.contains(topic))
    }
}

/// Action on a partition. Actions are applied in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartitionAction {
    /// All topics are held: append claims and restore, under this assignment epoch.
    Begin { partition: Partition, epoch: u32 },
    /// Cancel the restore, which is no longer needed, and drop what the stage received from it.
    Cancel { partition: Partition },
    /// The partition was revoked: finish its work in flight, then call [`Assignment::drained`].
    Drain { partition: Partition },
    /// Commit these topics of it, then close it; later completions have no effect.
    Close { partition: Partition, commit: TopicSet },
    /// Release these topic-partitions.
    Release { partition: Partition, topics: TopicSet },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not open: some topics are not held, or the process is shutting down.
    Closed,
    Restoring,
    Open,
    Draining,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    held: TopicSet,
    /// Subset of `held` that was revoked.
    wanted: TopicSet,
    phase: Phase,
    epoch: u32,
}

/// The partitions of one consumer.
#[derive(Debug)]
pub(crate) struct Assignment {
    all: TopicSet,
    entries: BTreeMap<Partition, Entry>,
    epochs: u32,
    closing: bool,
}

impl Assignment {
    pub(crate) fn new(topics: usize) -> Self {
        debug_assert!((1..=TopicSet::MOST).contains(&topics));
        Self { all: TopicSet::all(topics), entries: BTreeMap::new(), epochs: 0, closing: false }
    }

    /// Handles the assignment of `partition` of `topic`. If it was already held, it had been lost without an event.
    pub(crate) fn assigned(&mut self, partition: Partition, topic: usize) -> Vec<PartitionAction> {
        let held = self.entries.get(&partition).is_some_and(|entry| entry.held.contains(topic));
        let mut verdicts = if held { self.lost(partition, topic) } else { vec![] };
        let entry = self.entries.entry(partition).or_insert(Entry {
            held: TopicSet::default(),
            wanted: TopicSet::default(),
            phase: Phase::Closed,
            epoch: 0,
        });
        entry.held = entry.held.with(TopicSet::of(topic));
        verdicts.extend(self.begin(partition));
        verdicts
    }

    /// Handles the revocation of `partition` of `topic`.
    pub(crate) fn revoked(&mut self, partition: Partition, topic: usize) -> Vec<PartitionAction> {
        let Some(entry) = self.entries.get_mut(&partition).filter(|entry| entry.held.contains(topic)) else {
            return vec![];
        };
        entry.wanted = entry.wanted.with(TopicSet::of(topic));
        match entry.phase {
            Phase::Open => {
                entry.phase = Phase::Draining;
                vec![PartitionAction::Drain { partition }]
            }
            Phase::Draining => vec![],
            Phase::Restoring => {
                entry.phase = Phase::Closed;
                let mut verdicts = vec![PartitionAction::Cancel { partition }];
                verdicts.extend(self.release(partition));
                verdicts
            }
            Phase::Closed => self.release(partition),
        }
    }

    /// Handles the loss of `partition` of `topic`, for which nothing may be committed any more.
    pub(crate) fn lost(&mut self, partition: Partition, topic: usize) -> Vec<PartitionAction> {
        let Some(entry) = self.entries.get_mut(&partition).filter(|entry| entry.held.contains(topic)) else {
            return vec![];
        };
        entry.held = entry.held.without(TopicSet::of(topic));
        entry.wanted = entry.wanted.without(TopicSet::of(topic));
        let mut verdicts = match std::mem::replace(&mut entry.phase, Phase::Closed) {
            Phase::Open | Phase::Draining => vec![PartitionAction::Close { partition, commit: entry.held }],
            Phase::Restoring => vec![PartitionAction::Cancel { partition }],
            Phase::Closed => vec![],
        };
        verdicts.extend(self.release(partition));
        verdicts
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

    #[cfg(test)]
    pub(crate) fn is_open(&self, partition: Partition) -> bool {
        self.entries.get(&partition).is_some_and(|entry| entry.phase == Phase::Open)
    }

    /// Handles the end of a drain: nothing is in flight, or the deadline has passed.
    pub(crate) fn drained(&mut self, partition: Partition) -> Vec<PartitionAction> {
        let Some(entry) = self.entries.get_mut(&partition).filter(|entry| entry.phase == Phase::Draining) else {
            return vec![];
        };
        entry.phase = Phase::Closed;
        let mut verdicts = vec![PartitionAction::Close { partition, commit: entry.held }];
        verdicts.extend(self.release(partition));
        verdicts.extend(self.begin(partition));
        verdicts
    }

    /// Starts the shutdown: drains open partitions and opens no more.
    pub(crate) fn shut_down(&mut self) -> Vec<PartitionAction> {
        self.closing = true;
        let mut verdicts = vec![];
        for (&partition, entry) in &mut self.entries {
            match entry.phase {
                Phase::Open => {
                    entry.phase = Phase::Draining;
                    verdicts.push(PartitionAction::Drain { partition });
                }
                Phase::Restoring => {
                    entry.phase = Phase::Closed;
                    verdicts.push(PartitionAction::Cancel { partition });
                }
                Phase::Draining | Phase::Closed => {}
            }
        }
        verdicts
    }

    /// Returns the number of partitions being restored.
    pub(crate) fn restoring(&self) -> usize {
        self.entries.values().filter(|entry| entry.phase == Phase::Restoring).count()
    }

    fn begin(&mut self, partition: Partition) -> Option<PartitionAction> {
        let entry = self.entries.get_mut(&partition)?;
        if self.closing || entry.phase != Phase::Closed || entry.held != self.all || !entry.wanted.is_empty() {
            return None;
        }
        self.epochs += 1;
        entry.epoch = self.epochs;
        entry.phase = Phase::Restoring;
        Some(PartitionAction::Begin { partition, epoch: entry.epoch })
    }

    fn release(&mut self, partition: Partition) -> Vec<PartitionAction> {
        let Some(entry) = self.entries.get_mut(&partition) else { return vec![] };
        let topics = std::mem::take(&mut entry.wanted);
        entry.held = entry.held.without(topics);
        if entry.held.is_empty() {
            self.entries.remove(&partition);
        }
        if topics.is_empty() { vec![] } else { vec![PartitionAction::Release { partition, topics }] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: TopicSet = TopicSet(0b11);

    fn opened() -> Assignment {
        let mut assignment = Assignment::new(2);
        assignment.assigned(7, 0);
        assert_eq!(assignment.assigned(7, 1), [PartitionAction::Begin { partition: 7, epoch: 1 }]);
        assert!(assignment.restored(7, 1));
        assignment
    }

    #[test]
    fn a_partition_is_begun_when_it_is_held_of_all_topics_in_whatever_pieces_it_comes() {
        let mut assignment = Assignment::new(2);
        assert_eq!(assignment.assigned(7, 1), []);
        assert_eq!(assignment.assigned(3, 0), []);
        assert_eq!(assignment.assigned(7, 0), [PartitionAction::Begin { partition: 7, epoch: 1 }]);
        assert!(!assignment.is_open(7));
        assert!(assignment.restored(7, 1));
        assert!(assignment.is_open(7) && !assignment.is_open(3));
    }

    #[test]
    fn when_one_topic_is_wanted_back_both_are_drained_and_committed_and_one_is_handed_back() {
        let mut assignment = opened();
        assert_eq!(assignment.revoked(7, 0), [PartitionAction::Drain { partition: 7 }]);
        assert!(!assignment.is_open(7));
        assert_eq!(
            assignment.drained(7),
            [
                PartitionAction::Close { partition: 7, commit: BOTH },
                PartitionAction::Release { partition: 7, topics: TopicSet::of(0) }
            ]
        );
        assert_eq!(assignment.assigned(7, 0), [PartitionAction::Begin { partition: 7, epoch: 2 }], "a new epoch");
    }

    #[test]
    fn a_second_revocation_while_draining_is_answered_along_with_the_first() {
        let mut assignment = opened();
        assignment.revoked(7, 0);
        assert_eq!(assignment.revoked(7, 1), []);
        assert_eq!(assignment.drained(7)[1], PartitionAction::Release { partition: 7, topics: BOTH });
        assert_eq!(assignment.drained(7), []);
    }

    #[test]
    fn what_is_lost_is_not_committed() {
        let mut assignment = opened();
        assert_eq!(assignment.lost(7, 0), [PartitionAction::Close { partition: 7, commit: TopicSet::of(1) }]);
        assert_eq!(assignment.lost(7, 1), []);
        let mut draining = opened();
        draining.revoked(7, 0);
        draining.revoked(7, 1);
        assert_eq!(
            draining.lost(7, 1),
            [
                PartitionAction::Close { partition: 7, commit: TopicSet::of(0) },
                PartitionAction::Release { partition: 7, topics: TopicSet::of(0) }
            ]
        );
    }

    #[test]
    fn a_restore_is_cancelled_when_its_partition_is_wanted_back() {
        let mut assignment = Assignment::new(1);
        assignment.assigned(0, 0);
        assert_eq!(
            assignment.revoked(0, 0),
            [
                PartitionAction::Cancel { partition: 0 },
                PartitionAction::Release { partition: 0, topics: TopicSet::of(0) }
            ]
        );
        assert!(!assignment.restored(0, 1), "its late end opens nothing");
    }

    #[test]
    fn an_assignment_of_what_is_held_means_that_it_had_been_lost() {
        let mut assignment = Assignment::new(1);
        assignment.assigned(0, 0);
        assignment.restored(0, 1);
        assert_eq!(
            assignment.assigned(0, 0),
            [
                PartitionAction::Close { partition: 0, commit: TopicSet::default() },
                PartitionAction::Begin { partition: 0, epoch: 2 }
            ]
        );
    }

    #[test]
    fn a_shutdown_drains_what_is_open_cancels_restores_and_begins_nothing() {
        let mut assignment = opened();
        assignment.assigned(8, 0);
        assignment.assigned(8, 1);
        assert_eq!(
            assignment.shut_down(),
            [PartitionAction::Drain { partition: 7 }, PartitionAction::Cancel { partition: 8 }]
        );
        assert_eq!(assignment.drained(7), [PartitionAction::Close { partition: 7, commit: BOTH }]);
        assert_eq!((assignment.assigned(9, 0), assignment.assigned(9, 1)), (vec![], vec![]));
    }
}
