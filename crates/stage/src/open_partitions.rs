//! The open partitions: their ledgers, their charges, and the assignment epochs that invalidate late completions. Pure;
//! every record passes through here twice, so nothing is hashed or allocated per record.

use std::time::Duration;

use orbweaver_log::{ConsumerRecord, Offset, Partition, TopicPartition};
use orbweaver_messages::Topic;
use tokio::time::Instant;

use crate::{
    Origin,
    budget::{Budget, Charges, Limits},
    ledger::Ledger,
};

#[derive(Debug)]
pub(crate) struct TopicPartitionState {
    pub(crate) tp: TopicPartition,
    pub(crate) ledger: Ledger,
    /// Last committed offset.
    pub(crate) committed: Offset,
    charges: Charges,
    /// Commit point at the last check, if it was an in-flight record, and the time since which it has been there.
    blocked_at: Option<(Offset, Instant)>,
}

impl TopicPartitionState {
    pub(crate) fn new(tp: TopicPartition, ledger: Ledger, committed: Offset) -> Self {
        Self { tp, ledger, committed, charges: Charges::default(), blocked_at: None }
    }

    /// Returns how long an in-flight record has blocked the commit point.
    fn stalled(&mut self, now: Instant) -> Duration {
        let low = self.ledger.commit_point();
        if self.charges.lowest() != Some(low) {
            // Parked, or nothing is incomplete.
            self.blocked_at = None;
            return Duration::ZERO;
        }
        let blocked_at = self.blocked_at.filter(|(at, _)| *at == low).unwrap_or((low, now));
        self.blocked_at = Some(blocked_at);
        now.duration_since(blocked_at.1)
    }
}

#[derive(Debug)]
struct OpenPartition {
    epoch: u32,
    /// In the order of `Stage::topics`.
    tps: Vec<TopicPartitionState>,
    /// Whether it is listed in [`OpenPartitions::dirty`].
    dirty: bool,
    /// Whether new records are accepted.
    taking: bool,
}

/// Result of offering a record to an open partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Accepted; outstanding from now on.
    Accepted(Origin),
    /// Delivered before.
    Duplicate,
    /// The partition is not open.
    NotOpen,
}

/// Result of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Completion {
    /// The origin is complete.
    Completed,
    /// Already complete, or never delivered: a defect of the stage.
    Twice,
    /// Read under an assignment that has ended.
    Late,
}

#[derive(Debug)]
pub(crate) struct OpenPartitions {
    topics: &'static [Topic],
    slots: Vec<Option<OpenPartition>>,
    budget: Budget,
    /// Partitions with completions since the last check of their commit points.
    dirty: Vec<Partition>,
    outstanding: usize,
    /// Number of completions since [`OpenPartitions::take_completed`].
    completed: u64,
}

impl OpenPartitions {
    pub(crate) fn new(topics: &'static [Topic], limits: Limits) -> Self {
        Self { topics, slots: vec![], budget: Budget::new(limits), dirty: vec![], outstanding: 0, completed: 0 }
    }

    /// Returns the index of `topic` in the stage's topics.
    pub(crate) fn topic(&self, topic: Topic) -> Option<usize> {
        self.topics.iter().position(|&known| known == topic)
    }

    /// Opens `partition`; `tps` are in the order of the topics.
    pub(crate) fn open(&mut self, partition: Partition, epoch: u32, tps: Vec<TopicPartitionState>) {
        self.close(partition);
        let index = partition as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        self.outstanding += tps.iter().map(|tp| tp.ledger.outstanding()).sum::<usize>();
        // A restore may have moved the commit point beyond the committed offset.
        self.slots[index] = Some(OpenPartition { epoch, tps, dirty: true, taking: true });
        self.dirty.push(partition);
    }

    /// Stops accepting records of a partition.
    pub(crate) fn stop_taking(&mut self, partition: Partition) {
        if let Some(slot) = slot_mut(&mut self.slots, partition) {
            slot.taking = false;
        }
    }

    /// Records a delivery and charges it.
    pub(crate) fn deliver(&mut self, record: &ConsumerRecord) -> Delivery {
        let topic = self.topic(record.tp.topic);
        let slot = slot_mut(&mut self.slots, record.tp.partition);
        let (Some(topic), Some(slot)) = (topic, slot.filter(|slot| slot.taking)) else { return Delivery::NotOpen };
        let tp = &mut slot.tps[topic];
        if !tp.ledger.deliver(record.offset) {
            return Delivery::Duplicate;
        }
        self.budget.charge(tp.charges.charge(record.offset, record.bytes()));
        self.outstanding += 1;
        Delivery::Accepted(Origin { tp: tp.tp, offset: record.offset, assignment_epoch: slot.epoch })
    }

    /// Records the completion of an origin.
    pub(crate) fn complete(&mut self, origin: Origin) -> Completion {
        let topic = self.topic(origin.tp.topic);
        let slot = slot_mut(&mut self.slots, origin.tp.partition);
        let (Some(topic), Some(slot)) = (topic, slot.filter(|slot| slot.epoch == origin.assignment_epoch)) else {
            return Completion::Late;
        };
        let tp = &mut slot.tps[topic];
        if !tp.ledger.complete(origin.offset) {
            return Completion::Twice;
        }
        if let Some(bytes) = tp.charges.release(origin.offset) {
            self.budget.release(1, bytes);
        }
        self.outstanding -= 1;
        self.completed += 1;
        if !slot.dirty {
            slot.dirty = true;
            self.dirty.push(origin.tp.partition);
        }
        Completion::Completed
    }

    /// Releases the charge of an origin that the stage keeps in an index (docs/protocol.md#parked-records).
    pub(crate) fn park(&mut self, origin: Origin) {
        let Some(topic) = self.topic(origin.tp.topic) else { return };
        let Some(slot) = slot_mut(&mut self.slots, origin.tp.partition) else { return };
        if slot.epoch == origin.assignment_epoch
            && let Some(bytes) = slot.tps[topic].charges.release(origin.offset)
        {
            self.budget.release(1, bytes);
        }
    }

    /// Returns the commit points that changed since they were committed.
    pub(crate) fn moved(&mut self) -> Vec<(TopicPartition, Offset)> {
        let mut moved = vec![];
        for partition in self.dirty.drain(..) {
            let Some(slot) = slot_mut(&mut self.slots, partition) else { continue };
            slot.dirty = false;
            moved.extend(slot.tps.iter().filter_map(|tp| {
                let point = tp.ledger.commit_point();
                (point != tp.committed).then_some((tp.tp, point))
            }));
        }
        moved
    }

    /// Returns the number of completions since the last call.
    pub(crate) fn take_completed(&mut self) -> u64 {
        std::mem::take(&mut self.completed)
    }

    /// Returns `true` if anything completed since [`OpenPartitions::moved`].
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Records an accepted commit. A commit point that moved while it was answered is checked again.
    pub(crate) fn committed(&mut self, at: TopicPartition, offset: Offset) {
        let Some(topic) = self.topic(at.topic) else { return };
        let Some(slot) = slot_mut(&mut self.slots, at.partition) else { return };
        let tp = &mut slot.tps[topic];
        tp.committed = offset;
        if tp.ledger.commit_point() != offset {
            self.not_committed(at);
        }
    }

    /// Records a failed commit: the commit point is checked again.
    pub(crate) fn not_committed(&mut self, at: TopicPartition) {
        if let Some(slot) = slot_mut(&mut self.slots, at.partition)
            && !std::mem::replace(&mut slot.dirty, true)
        {
            self.dirty.push(at.partition);
        }
    }

    pub(crate) fn commit_point(&self, at: TopicPartition) -> Option<(TopicPartition, Offset)> {
        self.slot(at.partition)?.tps.get(self.topic(at.topic)?).map(|tp| (at, tp.ledger.commit_point()))
    }

    /// Returns the number of charged records.
    pub(crate) fn charged(&self) -> usize {
        self.budget.records()
    }

    /// Returns `true` if no record of `partition` is in flight. Parked records may remain.
    pub(crate) fn is_drained(&self, partition: Partition) -> bool {
        self.slot(partition).is_none_or(|slot| slot.tps.iter().all(|tp| tp.charges.live() == 0))
    }

    /// Closes a partition and releases its charges.
    pub(crate) fn close(&mut self, partition: Partition) {
        let Some(slot) = self.slots.get_mut(partition as usize).and_then(Option::take) else { return };
        for tp in slot.tps {
            self.budget.release(tp.charges.live(), tp.charges.bytes());
            self.outstanding -= tp.ledger.outstanding();
        }
        self.dirty.retain(|&listed| listed != partition);
    }

    pub(crate) fn tps(&self) -> impl Iterator<Item = TopicPartition> {
        self.slots.iter().flatten().flat_map(|slot| slot.tps.iter().map(|tp| tp.tp))
    }

    /// Returns all open topic-partitions with their last committed offsets.
    pub(crate) fn committed_points(&self) -> impl Iterator<Item = (TopicPartition, Offset)> {
        self.slots.iter().flatten().flat_map(|slot| slot.tps.iter().map(|tp| (tp.tp, tp.committed)))
    }

    /// Returns the longest time for which an in-flight record has blocked a commit point, as of the checks made.
    pub(crate) fn stalled(&mut self, now: Instant) -> Duration {
        let tps = self.slots.iter_mut().flatten().flat_map(|slot| &mut slot.tps);
        tps.map(|tp| tp.stalled(now)).max().unwrap_or_default()
    }

    pub(crate) fn partitions(&self) -> impl Iterator<Item = Partition> + Clone {
        self.slots.iter().flatten().filter_map(|slot| slot.tps.first().map(|tp| tp.tp.partition))
    }

    pub(crate) fn open_partitions(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    pub(crate) fn budget(&mut self) -> &mut Budget {
        &mut self.budget
    }

    /// Returns the number of incomplete records, including parked ones.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    fn slot(&self, partition: Partition) -> Option<&OpenPartition> {
        self.slots.get(partition as usize)?.as_ref()
    }
}

fn slot_mut(slots: &mut [Option<OpenPartition>], partition: Partition) -> Option<&mut OpenPartition> {
    slots.get_mut(partition as usize)?.as_mut()
}
