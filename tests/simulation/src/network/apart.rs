//! Assignments with `Rule::Together` disabled: a partition is open from the assignment of its first topic to the loss
//! of its last.

use std::collections::BTreeSet;

use orbweaver_log::{Event, Partition, TopicPartition};
use orbweaver_messages::Topic;

/// Assignment of a consumer that does not wait until it holds all topics of a partition.
pub(super) struct Apart {
    topics: Vec<Topic>,
    held: BTreeSet<TopicPartition>,
}

/// An event of the log, as a runner without that rule receives it.
pub(super) struct Translated {
    /// The event for the runner: for all topics of a partition, when the first is assigned and when the last is gone.
    pub(super) event: Option<Event>,
    /// Assigned topic-partitions of partitions that the runner has open already: each starts at its commit.
    pub(super) joined: Vec<TopicPartition>,
    /// Revoked topic-partitions of partitions that the runner keeps open: released immediately.
    pub(super) left: Vec<TopicPartition>,
}

impl Apart {
    pub(super) fn new(topics: &[Topic]) -> Self {
        Self { topics: topics.to_vec(), held: BTreeSet::new() }
    }

    /// Translates an event of the log.
    pub(super) fn translate(&mut self, event: Event) -> Translated {
        let (mut joined, mut left) = (vec![], vec![]);
        let event = match event {
            Event::Assigned(tps) => self.take(tps, &mut joined).map(Event::Assigned),
            Event::Revoked(tps) => self.give(tps, &mut left).map(Event::Revoked),
            // A lost topic-partition needs no release.
            Event::Lost(tps) => self.give(tps, &mut vec![]).map(Event::Lost),
            event @ Event::Records(_) => Some(event),
        };
        Translated { event, joined, left }
    }

    /// Adds assigned topic-partitions. Returns all topics of the partitions that this opens.
    fn take(&mut self, tps: Vec<TopicPartition>, joined: &mut Vec<TopicPartition>) -> Option<Vec<TopicPartition>> {
        let mut begun = vec![];
        for tp in tps {
            if self.serves(tp.partition) {
                joined.push(tp);
            } else {
                begun.extend(self.all(tp.partition));
            }
            self.held.insert(tp);
        }
        (!begun.is_empty()).then_some(begun)
    }

    /// Removes revoked or lost topic-partitions. Returns all topics of the partitions that this closes.
    fn give(&mut self, tps: Vec<TopicPartition>, left: &mut Vec<TopicPartition>) -> Option<Vec<TopicPartition>> {
        let mut ended = vec![];
        for tp in tps {
            self.held.remove(&tp);
            if self.serves(tp.partition) {
                left.push(tp);
            } else {
                ended.extend(self.all(tp.partition));
            }
        }
        (!ended.is_empty()).then_some(ended)
    }

    fn serves(&self, partition: Partition) -> bool {
        self.held.iter().any(|tp| tp.partition == partition)
    }

    fn all(&self, partition: Partition) -> impl Iterator<Item = TopicPartition> {
        self.topics.iter().map(move |&topic| TopicPartition::new(topic, partition))
    }
}
