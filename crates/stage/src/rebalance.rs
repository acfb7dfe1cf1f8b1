//! Partitions that come and go: the assignment, drains with their deadlines, and the end of all at shutdown. Pure.

use std::collections::BTreeMap;

use orbweaver_log::{Partition, TopicPartition};
use orbweaver_messages::Topic;
use tokio::time::Instant;

use crate::assignment::{Assignment, PartitionAction};

/// Change of the assignment of topic-partitions to this member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Assigned,
    Revoked,
    Lost,
}

/// A partition that is being drained.
#[derive(Debug)]
struct Drain {
    deadline: Instant,
    /// Plan batches with a lower number started before the drain; the drain waits for them.
    barrier: u64,
}

#[derive(Debug)]
pub(crate) struct Rebalance {
    topics: &'static [Topic],
    assignment: Assignment,
    draining: BTreeMap<Partition, Drain>,
    /// Deadline of the shutdown, once requested.
    ends_by: Option<Instant>,
}

impl Rebalance {
    pub(crate) fn new(topics: &'static [Topic]) -> Self {
        Self { topics, assignment: Assignment::new(topics.len()), draining: BTreeMap::new(), ends_by: None }
    }

    /// Handles a change of the assignment.
    pub(crate) fn change(&mut self, change: Change, tps: &[TopicPartition]) -> Vec<PartitionAction> {
        let mut actions = vec![];
        for tp in tps {
            let Some(topic) = self.topics.iter().position(|topic| *topic == tp.topic) else { continue };
            actions.extend(match change {
                Change::Assigned => self.assignment.assigned(tp.partition, topic),
                Change::Revoked => self.assignment.revoked(tp.partition, topic),
                Change::Lost => self.assignment.lost(tp.partition, topic),
            });
        }
        actions
    }

    /// Starts the shutdown: drains all partitions until `deadline` and opens no more.
    pub(crate) fn shut_down(&mut self, deadline: Instant) -> Vec<PartitionAction> {
        self.ends_by = Some(deadline);
        self.assignment.shut_down()
    }

    /// Starts the drain of a partition; `barrier` is the number of the first batch that it does not wait for.
    pub(crate) fn drain(&mut self, partition: Partition, until: Instant, barrier: u64) {
        let deadline = self.ends_by.unwrap_or(until);
        self.draining.insert(partition, Drain { deadline, barrier });
    }

    /// Ends the drains of partitions that are quiet or past their deadline. `is_quiet` receives a partition and its
    /// barrier. Returns the actions to be applied, and the partitions with unfinished work.
    pub(crate) fn drained(
        &mut self,
        now: Instant,
        is_quiet: impl Fn(Partition, u64) -> bool,
    ) -> (Vec<PartitionAction>, Vec<Partition>) {
        let (mut actions, mut unfinished) = (vec![], vec![]);
        let Self { draining, assignment, .. } = self;
        draining.retain(|&partition, drain| {
            let is_quiet = is_quiet(partition, drain.barrier);
            if !is_quiet && now < drain.deadline {
                return true;
            }
            unfinished.extend((!is_quiet).then_some(partition));
            actions.extend(assignment.drained(partition));
            false
        });
        (actions, unfinished)
    }

    /// Forgets the drain of a closed partition.
    pub(crate) fn closed(&mut self, partition: Partition) {
        self.draining.remove(&partition);
    }

    /// Handles the end of the restore started under `epoch`; returns `true` if the partition is now open.
    pub(crate) fn restored(&mut self, partition: Partition, epoch: u32) -> bool {
        self.assignment.restored(partition, epoch)
    }

    /// Returns `true` if the restore started under `epoch` is still needed.
    pub(crate) fn is_restoring(&self, partition: Partition, epoch: u32) -> bool {
        self.assignment.is_restoring(partition, epoch)
    }

    /// Returns the number of partitions being restored.
    pub(crate) fn restoring(&self) -> usize {
        self.assignment.restoring()
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
        self.ends_by.is_some()
    }

    /// Returns `true` once shutdown was requested and all partitions are drained.
    pub(crate) fn is_over(&self) -> bool {
        self.is_ending() && self.draining.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use orbweaver_messages::topic;

    use super::*;
    use crate::assignment::TopicSet;

    fn opened(partitions: &[Partition]) -> (Rebalance, Vec<TopicPartition>) {
        let tps: Vec<_> = partitions.iter().map(|number| TopicPartition::new(topic::SEEDS, *number)).collect();
        let mut rebalance = Rebalance::new(&[topic::SEEDS]);
        for action in rebalance.change(Change::Assigned, &tps) {
            let PartitionAction::Begin { partition, epoch } = action else { panic!("{action:?}") };
            assert!(rebalance.restored(partition, epoch));
        }
        (rebalance, tps)
    }

    fn close(partition: Partition) -> PartitionAction {
        PartitionAction::Close { partition, commit: TopicSet::of(0) }
    }

    #[test]
    fn a_drain_ends_when_it_is_quiet_or_at_its_deadline_with_unfinished_work() {
        let (mut rebalance, tps) = opened(&[1, 2]);
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(rebalance.change(Change::Revoked, &tps).len(), 2);
        rebalance.drain(1, at(5), 3);
        rebalance.drain(2, at(5), 9);
        assert_eq!(rebalance.drained(at(1), |_, _| false), (vec![], vec![]));
        let (actions, unfinished) = rebalance.drained(at(1), |partition, barrier| (partition, barrier) == (2, 9));
        assert_eq!((actions[0], unfinished), (close(2), vec![]));
        assert_eq!((rebalance.next_deadline(), rebalance.is_draining(2)), (Some(at(5)), false));
        let (actions, unfinished) = rebalance.drained(at(5), |_, _| false);
        assert_eq!((actions[0], unfinished), (close(1), vec![1]));
    }

    #[test]
    fn a_shutdown_is_over_when_all_partitions_are_drained_by_its_deadline() {
        let (mut rebalance, _) = opened(&[1]);
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert!(!rebalance.is_over());
        assert_eq!(rebalance.shut_down(at(20)), [PartitionAction::Drain { partition: 1 }]);
        rebalance.drain(1, at(90), 3);
        assert!(rebalance.is_ending() && !rebalance.is_over());
        assert_eq!(rebalance.drained(at(20), |_, _| false).0, [close(1)]);
        assert!(rebalance.is_over());
    }

    #[test]
    fn a_topic_that_is_not_of_the_group_changes_nothing() {
        let mut rebalance = Rebalance::new(&[topic::SEEDS]);
        assert_eq!(rebalance.change(Change::Assigned, &[TopicPartition::new(topic::OUTCOMES, 1)]), []);
    }
}
