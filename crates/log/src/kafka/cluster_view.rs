//! View of brokers, replicas and groups, for diagnoses. Only reads: no request creates a topic, or joins a group.

use std::collections::BTreeMap;

use rdkafka::{
    admin::ResourceSpecifier,
    consumer::Consumer as _,
    metadata::{Metadata, MetadataPartition},
};

use super::{KafkaLog, client::to_log_error};
use crate::{LogError, Partition};

/// Topic in which brokers store commits. They create it at the first request for the commits of a group.
const COMMITS: &str = "__consumer_offsets";

/// A broker, as the brokers report it to clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    pub id: i32,
    /// `HOST:PORT`.
    pub address: String,
}

/// Replicas of a partition, by the IDs of their brokers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replicas {
    pub partition: Partition,
    /// Broker that serves the partition; `None` if none does.
    pub leader: Option<i32>,
    pub replicas: Vec<i32>,
    /// Replicas that have all acknowledged records.
    pub in_sync: Vec<i32>,
}

/// Brokers and topics, from the metadata of one broker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterView {
    pub brokers: Vec<Broker>,
    /// Topics of the prefix, by their names on the brokers, with the replicas of each partition.
    pub topics: BTreeMap<String, Vec<Replicas>>,
    /// Whether the brokers have a topic for commits. Without it, a request for commits would create it.
    pub has_commits: bool,
}

/// A consumer group, as the brokers report it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupView {
    /// Name on the brokers.
    pub name: String,
    /// Number of members. `None` for a group of the `consumer` protocol: the requests of this client report none of its
    /// members.
    pub members: Option<usize>,
}

impl KafkaLog {
    /// Returns brokers and topics. Topics that others created since the log was connected are known from then on.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] if no broker answers.
    pub async fn cluster_view(&self) -> Result<ClusterView, LogError> {
        self.refresh(self.config.patience).await?;
        let names = self.names.clone();
        self.queries
            .ask(move |client, timeout| {
                let metadata = client.fetch_metadata(None, timeout);
                let metadata = metadata.map_err(|error| to_log_error("listing brokers and topics", &error))?;
                Ok(view(&metadata, |topic| names.is_own(topic)))
            })
            .await
    }

    /// Returns once this broker has answered a request for its settings, also if it withholds them.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] if it does not answer.
    pub async fn broker_answers(&self, broker: i32) -> Result<(), LogError> {
        self.queries.settings(&[ResourceSpecifier::Broker(broker)]).await.map(drop)
    }

    /// Returns the groups of the prefix that the brokers report to this client.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] if a broker does not answer.
    pub async fn group_views(&self) -> Result<Vec<GroupView>, LogError> {
        let names = self.names.clone();
        self.queries
            .ask(move |client, timeout| {
                let listed = client.fetch_group_list(None, timeout);
                let listed = listed.map_err(|error| to_log_error("listing groups", &error))?;
                let own = listed.groups().iter().filter(|group| names.is_own(group.name()));
                let view = |group: &rdkafka::groups::GroupInfo| GroupView {
                    name: group.name().to_owned(),
                    members: members(group.state(), group.members().len()),
                };
                Ok(own.map(view).collect())
            })
            .await
    }
}

/// Returns the number of members of a listed group, if its state is known. Brokers report a group of the `consumer`
/// protocol, which they do not describe to older requests, as `Dead` (KIP-848).
fn members(state: &str, described: usize) -> Option<usize> {
    (state != "Dead" && !state.is_empty()).then_some(described)
}

fn view(metadata: &Metadata, is_own: impl Fn(&str) -> bool) -> ClusterView {
    let brokers = metadata.brokers().iter();
    let own = metadata.topics().iter().filter(|topic| topic.error().is_none() && is_own(topic.name()));
    ClusterView {
        brokers: brokers
            .map(|broker| Broker { id: broker.id(), address: format!("{}:{}", broker.host(), broker.port()) })
            .collect(),
        topics: own.map(|topic| (topic.name().to_owned(), topic.partitions().iter().map(replicas).collect())).collect(),
        has_commits: metadata.topics().iter().any(|topic| topic.name() == COMMITS),
    }
}

fn replicas(partition: &MetadataPartition) -> Replicas {
    Replicas {
        partition: Partition::try_from(partition.id()).unwrap_or_default(),
        leader: Some(partition.leader()).filter(|leader| *leader >= 0),
        replicas: partition.replicas().to_vec(),
        in_sync: partition.isr().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_members_of_a_group_that_is_not_described_are_unknown_and_not_zero() {
        assert_eq!(members("Stable", 3), Some(3));
        assert_eq!(members("Empty", 0), Some(0));
        assert_eq!((members("Dead", 0), members("", 0)), (None, None));
    }
}
