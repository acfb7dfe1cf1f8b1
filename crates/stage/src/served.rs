//! The open partitions: their ledgers, their charges, and the assignment epochs that invalidate late completions. Pure;
//! every record passes through here twice, so nothing is hashed or allocated per record.

use std::time::Duration;

use orbweaver_log::{Delivered, Offset, Partition, TopicPartition};
use orbweaver_messages::Topic;
use tokio::time::Instant;

use crate::{
    Origin,
    assignment::TopicSet,
    budget::{Budget, Charges, Limits},
    ledger::Ledger,
};

/// State of one topic-partition.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) place: TopicPartition,
    pub(crate) ledger: Ledger,
    /// Last committed offset.
    pub(crate) committed: Offset,
    charges: Charges,
    /// Commit point at the last check, if it was an in-flight record, and the time since which it has been there.
    stood: Option<(Offset, Instant)>,
}

impl Place {
    pub(crate) fn new(place: TopicPartition, ledger: Ledger, committed: Offset) -> Self {
        Self { place, ledger, committed, charges: Charges::default(), stood: None }
    }

    /// Returns how long an in-flight record has blocked the commit point.
    fn standstill(&mut self, now: Instant) -> Duration {
        let low = self.ledger.commit_point();
        if self.charges.lowest() != Some(low) {
            // Parked, or nothing is incomplete.
            self.stood = None;
            return Duration::ZERO;
        }
        let stood = self.stood.filter(|(at, _)| *at == low).unwrap_or((low, now));
        self.stood = Some(stood);
        now.duration_since(stood.1)
    }
}

/// One partition of all topics.
#[derive(Debug)]
struct Slot {
    epoch: u32,
    /// In the order of `Stage::topics`.
    places: Vec<Place>,
    /// Whether it is listed in [`Served::dirty`].
    dirty: bool,
    /// Whether new records are accepted.
    taking: bool,
}

/// Result of offering a record to an open partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Accepted; outstanding from now on.
    Taken(Origin),
    /// Delivered before.
    Again,
    /// The partition is not open.
    NotServed,
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

/// All open partitions.
#[derive(Debug)]
pub(crate) struct Served {
    topics: &'static [Topic],
    slots: Vec<Option<Slot>>,
    budget: Budget,
    /// Partitions with completions since the last check of their commit points.
    dirty: Vec<Partition>,
    outstanding: usize,
}

impl Served {
    pub(crate) fn new(topics: &'static [Topic], limits: Limits) -> Self {
        Self { topics, slots: vec![], budget: Budget::new(limits), dirty: vec![], outstanding: 0 }
    }

    /// Returns the index of `topic` in the stage's topics.
    pub(crate) fn topic(&self, topic: Topic) -> Option<usize> {
        self.topics.iter().position(|&known| known == topic)
    }

    /// Opens `partition`; `places` are in the order of the topics.
    pub(crate) fn open(&mut self, partition: Partition, epoch: u32, places: Vec<Place>) {
        self.close(partition);
        let index = partition as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        self.outstanding += places.iter().map(|place| place.ledger.outstanding()).sum::<usize>();
        // A restore may have moved the commit point beyond the committed offset.
        self.slots[index] = Some(Slot { epoch, places, dirty: true, taking: true });
        self.dirty.push(partition);
    }

    /// Stops accepting records of a partition.
    pub(crate) fn stop_taking(&mut self, partition: Partition) {
        if let Some(slot) = self.slots.get_mut(partition as usize).and_then(Option::as_mut) {
            slot.taking = false;
        }
    }

    /// Records a delivery and charges it.
    pub(crate) fn deliver(&mut self, record: &Delivered) -> Delivery {
        let topic = self.topic(record.place.topic);
        let slot = self.slots.get_mut(record.place.partition as usize).and_then(Option::as_mut);
        let (Some(topic), Some(slot)) = (topic, slot.filter(|slot| slot.taking)) else { return Delivery::NotServed };
        let place = &mut slot.places[topic];
        if !place.ledger.deliver(record.offset) {
            return Delivery::Again;
        }
        self.budget.charge(place.charges.charge(record.offset, record.bytes()));
        self.outstanding += 1;
        Delivery::Taken(Origin { place: place.place, offset: record.offset, epoch: slot.epoch })
    }

    /// Records the completion of an origin.
    pub(crate) fn complete(&mut self, origin: Origin) -> Completion {
        let topic = self.topic(origin.place.topic);
        let slot = self.slots.get_mut(origin.place.partition as usize).and_then(Option::as_mut);
        let (Some(topic), Some(slot)) = (topic, slot.filter(|slot| slot.epoch == origin.epoch)) else {
            return Completion::Late;
        };
        let place = &mut slot.places[topic];
        if !place.ledger.complete(origin.offset) {
            return Completion::Twice;
        }
        if let Some(bytes) = place.charges.release(origin.offset) {
            self.budget.release(1, bytes);
        }
        self.outstanding -= 1;
        if !slot.dirty {
            slot.dirty = true;
            self.dirty.push(origin.place.partition);
        }
        Completion::Completed
    }

    /// Releases the charge of an origin that the stage keeps in an index (docs/protocol.md#parked-records).
    pub(crate) fn park(&mut self, origin: Origin) {
        let Some(topic) = self.topic(origin.place.topic) else { return };
        let Some(slot) = self.slots.get_mut(origin.place.partition as usize).and_then(Option::as_mut) else { return };
        if slot.epoch == origin.epoch
            && let Some(bytes) = slot.places[topic].charges.release(origin.offset)
        {
            self.budget.release(1, bytes);
        }
    }

    /// Returns the commit points that changed since they were committed.
    pub(crate) fn moved(&mut self) -> Vec<(TopicPartition, Offset)> {
        let mut moved = vec![];
        for partition in self.dirty.drain(..) {
            let Some(slot) = self.slots.get_mut(partition as usize).and_then(Option::as_mut) else { continue };
            slot.dirty = false;
            moved.extend(slot.places.iter().filter_map(|place| {
                let point = place.ledger.commit_point();
                (point != place.committed).then_some((place.place, point))
            }));
        }
        moved
    }

    /// Returns `true` if anything completed since [`Served::moved`].
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Records an accepted commit; returns `true` if it advanced.
    pub(crate) fn committed(&mut self, at: TopicPartition, offset: Offset) -> bool {
        self.place_mut(at).is_some_and(|place| offset > std::mem::replace(&mut place.committed, offset))
    }

    /// Records a failed commit: the commit point is checked again.
    pub(crate) fn not_committed(&mut self, at: TopicPartition) {
        if let Some(slot) = self.slots.get_mut(at.partition as usize).and_then(Option::as_mut)
            && !std::mem::replace(&mut slot.dirty, true)
        {
            self.dirty.push(at.partition);
        }
    }

    /// Returns the commit point of a topic-partition.
    pub(crate) fn commit_point(&self, at: TopicPartition) -> Option<(TopicPartition, Offset)> {
        let slot = self.slots.get(at.partition as usize)?.as_ref()?;
        slot.places.get(self.topic(at.topic)?).map(|place| (at, place.ledger.commit_point()))
    }

    /// Returns the number of charged records.
    pub(crate) fn charged(&self) -> usize {
        self.budget.records()
    }

    /// Returns the commit points of some topics of a partition, including those already committed.
    pub(crate) fn commit_points(&self, partition: Partition, topics: TopicSet) -> Vec<(TopicPartition, Offset)> {
        let Some(slot) = self.slots.get(partition as usize).and_then(Option::as_ref) else { return vec![] };
        topics
            .iter()
            .filter_map(|topic| slot.places.get(topic))
            .map(|at| (at.place, at.ledger.commit_point()))
            .collect()
    }

    /// Returns `true` if no record of `partition` is in flight. Parked records may remain.
    pub(crate) fn is_quiet(&self, partition: Partition) -> bool {
        let slot = self.slots.get(partition as usize).and_then(Option::as_ref);
        slot.is_none_or(|slot| slot.places.iter().all(|place| place.charges.live() == 0))
    }

    /// Closes a partition and releases its charges.
    pub(crate) fn close(&mut self, partition: Partition) {
        let Some(slot) = self.slots.get_mut(partition as usize).and_then(Option::take) else { return };
        for place in slot.places {
            self.budget.release(place.charges.live(), place.charges.bytes());
            self.outstanding -= place.ledger.outstanding();
        }
        self.dirty.retain(|&listed| listed != partition);
    }

    /// Returns all open topic-partitions.
    pub(crate) fn places(&self) -> impl Iterator<Item = TopicPartition> {
        self.slots.iter().flatten().flat_map(|slot| slot.places.iter().map(|place| place.place))
    }

    /// Returns all open topic-partitions with their last committed offsets.
    pub(crate) fn committed_points(&self) -> impl Iterator<Item = (TopicPartition, Offset)> {
        self.slots.iter().flatten().flat_map(|slot| slot.places.iter().map(|place| (place.place, place.committed)))
    }

    /// Returns the longest time for which an in-flight record has blocked a commit point, as of the checks made.
    pub(crate) fn standstill(&mut self, now: Instant) -> Duration {
        let places = self.slots.iter_mut().flatten().flat_map(|slot| &mut slot.places);
        places.map(|place| place.standstill(now)).max().unwrap_or_default()
    }

    /// Returns the open partitions.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = Partition> {
        self.slots.iter().flatten().filter_map(|slot| slot.places.first().map(|place| place.place.partition))
    }

    /// Returns the number of open partitions.
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

    fn place_mut(&mut self, at: TopicPartition) -> Option<&mut Place> {
        let topic = self.topic(at.topic)?;
        self.slots.get_mut(at.partition as usize)?.as_mut()?.places.get_mut(topic)
    }
}
