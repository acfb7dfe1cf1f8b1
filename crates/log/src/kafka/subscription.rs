//! The topics of a member, by pipeline name and by name on the brokers.

use std::sync::Arc;

use orbweaver_messages::Topic;
use rdkafka::TopicPartitionList;

use super::broker_queries::{Named, raw_partition};
use crate::TopicPartition;

/// The topics that a member consumes.
pub(super) struct Subscription(pub(super) Vec<(Topic, Arc<str>)>);

impl Subscription {
    /// Returns the name of a topic on the brokers.
    pub(super) fn name(&self, topic: Topic) -> Option<&Arc<str>> {
        self.0.iter().find(|(known, _)| *known == topic).map(|(_, name)| name)
    }

    /// Returns the topic-partition for a topic name on the brokers.
    pub(super) fn tp(&self, name: &str, partition: i32) -> Option<TopicPartition> {
        let (topic, _) = self.0.iter().find(|(_, known)| **known == *name)?;
        Some(TopicPartition::new(*topic, u32::try_from(partition).ok()?))
    }

    pub(super) fn tps(&self, list: &TopicPartitionList) -> Vec<TopicPartition> {
        list.elements().iter().filter_map(|element| self.tp(element.topic(), element.partition())).collect()
    }

    /// Returns topic-partitions together with the brokers' topic names.
    pub(super) fn named(&self, tps: &[TopicPartition]) -> Named {
        tps.iter().filter_map(|tp| Some((*tp, self.name(tp.topic)?.clone()))).collect()
    }

    pub(super) fn list(&self, tps: &[TopicPartition]) -> TopicPartitionList {
        let mut list = TopicPartitionList::with_capacity(tps.len());
        for (tp, name) in self.named(tps) {
            list.add_partition(&name, raw_partition(tp.partition));
        }
        list
    }
}
