//! The topics of a member, by pipeline name and by name on the brokers.

use std::sync::Arc;

use orbweaver_messages::Topic;
use rdkafka::TopicPartitionList;

use super::{broker_queries::raw_partition, rebalance::BrokerPartitions};
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

    pub(super) fn tps(&self, raw: &BrokerPartitions) -> Vec<TopicPartition> {
        raw.iter().filter_map(|(name, partition)| self.tp(name, *partition)).collect()
    }

    /// Returns topic-partitions with the brokers' topic names only.
    pub(super) fn raw(&self, tps: &[TopicPartition]) -> BrokerPartitions {
        let raw = |at: &TopicPartition| Some((self.name(at.topic)?.to_string(), raw_partition(at.partition)));
        tps.iter().filter_map(raw).collect()
    }

    /// Returns topic-partitions together with the brokers' topic names.
    pub(super) fn named(&self, tps: &[TopicPartition]) -> Vec<(TopicPartition, Arc<str>)> {
        tps.iter().filter_map(|tp| Some((*tp, self.name(tp.topic)?.clone()))).collect()
    }

    pub(super) fn list(&self, tps: &[TopicPartition]) -> TopicPartitionList {
        let mut list = TopicPartitionList::with_capacity(tps.len());
        for (name, partition) in self.raw(tps) {
            list.add_partition(&name, partition);
        }
        list
    }
}
