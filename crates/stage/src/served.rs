//! The partitions that are served: their ledgers, their charges and the epochs that let late completions complete
//! nothing. Pure; every record passes through here twice, so nothing is hashed or allocated a record.

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

/// One partition of one topic.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) place: TopicPartition,
    pub(crate) ledger: Ledger,
    /// What was last committed.
    pub(crate) committed: Offset,
    charges: Charges,
    /// The commit point at the last look, and since when it is a record in work.
    stood: Option<(Offset, Instant)>,
}

impl Place {
    pub(crate) fn new(place: TopicPartition, ledger: Ledger, committed: Offset) -> Self {
        Self { place, ledger, committed, charges: Charges::default(), stood: None }
    }

    /// For how long the commit point has stood at a record that is charged.
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
    /// Whether new records are taken.
    taking: bool,
}

/// What became of a delivered record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It is outstanding from now on.
    Taken(Origin),
    /// It was delivered before.
    Again,
    /// Its partition is not served.
    NotServed,
}

/// What a completion did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Completion {
    /// The origin is complete.
    Completed,
    /// It was complete already, or never delivered: a fault of the stage.
    Twice,
    /// It was read under an assignment that has ended.
    Late,
}

/// All partitions that are served.
#[derive(Debug)]
pub(crate) struct Served {
    topics: &'static [Topic],
    slots: Vec<Option<Slot>>,
    budget: Budget,
    /// Partitions in which something completed since their commit points were last looked at.
    dirty: Vec<Partition>,
    outstanding: usize,
}

impl Served {
    pub(crate) fn new(topics: &'static [Topic], limits: Limits) -> Self {
        Self { topics, slots: vec![], budget: Budget::new(limits), dirty: vec![], outstanding: 0 }
    }

    /// The position of `topic` in the stage's topics.
    pub(crate) fn topic(&self, topic: Topic) -> Option<usize> {
        self.topics.iter().position(|&known| known == topic)
    }

    /// Serves `partition` from now on; `places` are in the order of the topics.
    pub(crate) fn open(&mut self, partition: Partition, epoch: u32, places: Vec<Place>) {
        self.close(partition);
        let index = partition as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        self.outstanding += places.iter().map(|place| place.ledger.outstanding()).sum::<usize>();
        // A restore may have moved the commit point past what was committed.
        self.slots[index] = Some(Slot { epoch, places, dirty: true, taking: true });
        self.dirty.push(partition);
    }

    /// Takes no new records of a partition.
    pub(crate) fn stop_taking(&mut self, partition: Partition) {
        if let Some(slot) = self.slots.get_mut(partition as usize).and_then(Option::as_mut) {
            slot.taking = false;
        }
    }

    /// Notes a delivered record and charges it.
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

    /// Notes that an origin is complete.
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

    /// Rule 18: the origin is kept in an index of the stage, and not charged any more.
    pub(crate) fn park(&mut self, origin: Origin) {
        let Some(topic) = self.topic(origin.place.topic) else { return };
        let Some(slot) = self.slots.get_mut(origin.place.partition as usize).and_then(Option::as_mut) else { return };
        if slot.epoch == origin.epoch
            && let Some(bytes) = slot.places[topic].charges.release(origin.offset)
        {
            self.budget.release(1, bytes);
        }
    }

    /// The commit points that moved since they were committed.
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

    /// Whether something completed since [`Served::moved`].
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Notes that a commit was accepted; true when it moved.
    pub(crate) fn committed(&mut self, at: TopicPartition, offset: Offset) -> bool {
        self.place_mut(at).is_some_and(|place| offset > std::mem::replace(&mut place.committed, offset))
    }

    /// Notes that a commit was not accepted: it is looked at again.
    pub(crate) fn not_committed(&mut self, at: TopicPartition) {
        if let Some(slot) = self.slots.get_mut(at.partition as usize).and_then(Option::as_mut)
            && !std::mem::replace(&mut slot.dirty, true)
        {
            self.dirty.push(at.partition);
        }
    }

    /// The commit point of a place.
    pub(crate) fn commit_point(&self, at: TopicPartition) -> Option<(TopicPartition, Offset)> {
        let slot = self.slots.get(at.partition as usize)?.as_ref()?;
        slot.places.get(self.topic(at.topic)?).map(|place| (at, place.ledger.commit_point()))
    }

    /// How many records are charged.
    pub(crate) fn charged(&self) -> usize {
        self.budget.records()
    }

    /// The commit points of some topics of a partition, those that were committed already among them.
    pub(crate) fn commit_points(&self, partition: Partition, topics: TopicSet) -> Vec<(TopicPartition, Offset)> {
        let Some(slot) = self.slots.get(partition as usize).and_then(Option::as_ref) else { return vec![] };
        topics
            .iter()
            .filter_map(|topic| slot.places.get(topic))
            .map(|at| (at.place, at.ledger.commit_point()))
            .collect()
    }

    /// Whether nothing that was read from `partition` is in flight. What is parked may stay.
    pub(crate) fn is_quiet(&self, partition: Partition) -> bool {
        let slot = self.slots.get(partition as usize).and_then(Option::as_ref);
        slot.is_none_or(|slot| slot.places.iter().all(|place| place.charges.live() == 0))
    }

    /// Forgets a partition; what it charged is released.
    pub(crate) fn close(&mut self, partition: Partition) {
        let Some(slot) = self.slots.get_mut(partition as usize).and_then(Option::take) else { return };
        for place in slot.places {
            self.budget.release(place.charges.live(), place.charges.bytes());
            self.outstanding -= place.ledger.outstanding();
        }
        self.dirty.retain(|&listed| listed != partition);
    }

    /// All places that are served.
    pub(crate) fn places(&self) -> impl Iterator<Item = TopicPartition> {
        self.slots.iter().flatten().flat_map(|slot| slot.places.iter().map(|place| place.place))
    }

    /// All places that are served, with what was last committed.
    pub(crate) fn committed_points(&self) -> impl Iterator<Item = (TopicPartition, Offset)> {
        self.slots.iter().flatten().flat_map(|slot| slot.places.iter().map(|place| (place.place, place.committed)))
    }

    /// The longest time for which a commit point has stood at a record in work, as far as looks at it tell.
    pub(crate) fn standstill(&mut self, now: Instant) -> Duration {
        let places = self.slots.iter_mut().flatten().flat_map(|slot| &mut slot.places);
        places.map(|place| place.standstill(now)).max().unwrap_or_default()
    }

    /// The partitions that are served.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = Partition> {
        self.slots.iter().flatten().filter_map(|slot| slot.places.first().map(|place| place.place.partition))
    }

    /// How many partitions are served.
    pub(crate) fn open_partitions(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    pub(crate) fn budget(&mut self) -> &mut Budget {
        &mut self.budget
    }

    /// Records that are not complete, parked ones among them.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    fn place_mut(&mut self, at: TopicPartition) -> Option<&mut Place> {
        let topic = self.topic(at.topic)?;
        self.slots.get_mut(at.partition as usize)?.as_mut()?.places.get_mut(topic)
    }
}
