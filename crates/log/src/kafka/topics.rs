//! The pipeline's topics on the brokers: created from `schemas/topics`, checked against it, listed.

mod limit;
mod settings;

use std::collections::BTreeMap;

use limit::{MAX_MESSAGE_BYTES, broker_settings, brokers_limits, lower, lower_for_request, refuses, refuses_request};
use orbweaver_messages::{
    Topic,
    topic::{self, TopicDescription},
};
use rdkafka::{
    admin::{NewTopic, ResourceSpecifier, TopicReplication},
    types::RDKafkaErrorCode as Code,
};
use settings::{Wrong, settings, wrong_settings};

use super::{KafkaLog, client::to_log_error};
use crate::{Bounds, Log, LogError, MAX_PARTITIONS, Partition, TopicPartition, TopicSpec, topic_partitions};

/// Result of [`create`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Created {
    /// Topics that were created, by their names on the brokers.
    pub made: Vec<String>,
    /// Topics that existed already.
    pub present: Vec<String>,
    /// Groups with a new commit of offset 0 somewhere, by their names on the brokers.
    pub committed: Vec<String>,
}

/// Creates all missing topics of the pipeline, and commits offset 0 for each declared group without a commit. Existing
/// topics and commits are left unchanged, so it may be called again. `replication` defaults to the brokers' setting.
///
/// # Errors
/// [`LogError::Invalid`] if `partitions` is not a power of two up to [`MAX_PARTITIONS`], if a topic exists with a
/// different number, or if the brokers refuse.
pub async fn create(log: &KafkaLog, partitions: Partition, replication: Option<u16>) -> Result<Created, LogError> {
    if !partitions.is_power_of_two() || partitions > MAX_PARTITIONS {
        return Err(LogError::Invalid(format!(
            "{partitions} partitions; allowed: a power of two up to {MAX_PARTITIONS}: 1, 2, 4, 8, 16, …"
        )));
    }
    let specs: Vec<TopicSpec> = topic::topics()
        .iter()
        .map(|description| TopicSpec::new(description.topic, partitions, description.cleanup))
        .collect();
    let mut created = create_topics(log, &specs, replication).await?;
    for (group, topics) in topic::groups() {
        let missing = without_commit(log, group, topics).await?;
        if missing.is_empty() {
            continue;
        }
        let commits = missing.iter().map(|tp| (log.topic_name(tp.topic).into(), tp.partition, 0)).collect();
        log.queries.commit(group, commits).await?;
        created.committed.push(log.group_name(group));
    }
    Ok(created)
}

/// Creates missing topics, with any number of partitions. Existing ones must have the same number.
pub async fn create_topics(log: &KafkaLog, specs: &[TopicSpec], replication: Option<u16>) -> Result<Created, LogError> {
    TopicSpec::check(specs)?;
    log.refresh(log.config.connect_patience).await?;
    let mut created = Created::default();
    let mut wanted = vec![];
    for spec in specs {
        let name = log.topic_name(spec.topic);
        match log.partitions(spec.topic) {
            Ok(found) if found == spec.partitions => created.present.push(name),
            Ok(found) => {
                let wanted = spec.partitions;
                return Err(LogError::Invalid(format!(
                    "the topic `{name}` already has {found} partitions, not {wanted}: use {found}, or delete it first"
                )));
            }
            Err(_) => {
                let mut settings = settings(spec.topic, spec.cleanup, log.config.record_limit);
                // One of three replicas may be unavailable; acknowledged records are then still on two.
                settings.extend((replication >= Some(3)).then(|| ("min.insync.replicas", "2".to_owned())));
                wanted.push((name, spec, settings));
            }
        }
    }
    let replicas = replication.map_or(-1, i32::from);
    let new = wanted.iter().map(|(name, spec, settings)| {
        let partitions = i32::try_from(spec.partitions).unwrap_or(i32::MAX);
        let new = NewTopic::new(name, partitions, TopicReplication::Fixed(replicas));
        settings.iter().fold(new, |new, (key, value)| new.set(key, value))
    });
    let new: Vec<NewTopic<'_>> = new.collect();
    if !new.is_empty() {
        let made = log.queries.admin().create_topics(&new, &log.queries.admin_options()).await;
        for answer in made.map_err(|error| to_log_error("creating topics", &error))? {
            match answer {
                Ok(name) => created.made.push(name),
                Err((name, Code::TopicAlreadyExists)) => created.present.push(name),
                Err((name, code)) => {
                    let remedy = match code {
                        Code::InvalidConfig | Code::PolicyViolation => {
                            let limit = log.config.record_limit;
                            format!(
                                "; if the brokers do not accept records of {limit} bytes, lower `kafka.record_limit`"
                            )
                        }
                        _ => String::new(),
                    };
                    return Err(LogError::Invalid(format!(
                        "the brokers refused to create the topic `{name}`: {code}{remedy}"
                    )));
                }
            }
        }
    }
    await_known(log, specs).await?;
    Ok(created)
}

/// Waits until all brokers know new topics, which takes a moment.
async fn await_known(log: &KafkaLog, specs: &[TopicSpec]) -> Result<(), LogError> {
    let deadline = tokio::time::Instant::now() + log.config.request_timeout;
    loop {
        log.refresh(log.config.connect_patience).await?;
        let missing = specs.iter().find(|spec| log.partitions(spec.topic).is_err());
        let Some(missing) = missing else {
            let tps = specs.iter().map(|spec| TopicPartition::new(spec.topic, spec.partitions - 1));
            return log.all_bounds(&tps.collect::<Vec<_>>()).await.map(drop);
        };
        if tokio::time::Instant::now() >= deadline {
            let name = log.topic_name(missing.topic);
            return Err(LogError::Unavailable(format!(
                "the topic `{name}` was created, but the brokers do not list it yet"
            )));
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// Deletes all topics of the prefix and their records.
pub async fn delete(log: &KafkaLog) -> Result<(), LogError> {
    log.refresh(log.config.connect_patience).await?;
    let names: Vec<_> = log.known.read().unwrap_or_else(std::sync::PoisonError::into_inner).keys().cloned().collect();
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    if names.is_empty() {
        return Ok(());
    }
    let deleted = log.queries.admin().delete_topics(&names, &log.queries.admin_options()).await;
    for answer in deleted.map_err(|error| to_log_error("deleting topics", &error))? {
        match answer {
            Ok(_) | Err((_, Code::UnknownTopicOrPartition)) => {}
            Err((name, code)) => {
                return Err(LogError::Invalid(format!("the topic `{name}` cannot be deleted: {code}")));
            }
        }
    }
    log.refresh(log.config.connect_patience).await
}

/// Problem with the topics, and its remedy. `name` and `group` are names on the brokers, limits are in bytes; `found` is
/// the current value, `wanted` the required one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopicProblem {
    #[error("the topic `{name}` is missing: create it with `orbweaver topics create --partitions {partitions}`")]
    Missing {
        name: String,
        /// Partition count of the other topics; a suggestion if there are none.
        partitions: Partition,
    },
    /// Topics have different partition counts.
    #[error(
        "the topic `{name}` has {found} partitions, but `{other}` has {wanted}: all topics must have the same number; \
         delete `{name}` and recreate it with `orbweaver topics create --partitions {wanted}`"
    )]
    Uneven {
        name: String,
        found: Partition,
        /// Name of another topic.
        other: String,
        /// Partition count of the other topic.
        wanted: Partition,
    },
    /// The partition count is not a power of two.
    #[error(
        "the topic `{name}` has {found} partitions; allowed: a power of two up to {MAX_PARTITIONS}: delete the topics of \
         this prefix and recreate them with `orbweaver topics create --partitions N`"
    )]
    NoPowerOfTwo { name: String, found: Partition },
    /// A setting would lose or refuse records.
    #[error(
        "the topic `{name}` has {key}={found}, {reason}; fix it with `kafka-configs.sh --bootstrap-server {brokers} --alter \
         --entity-type topics --entity-name {name} --add-config {key}={wanted}`"
    )]
    Setting {
        name: String,
        key: &'static str,
        found: String,
        wanted: String,
        reason: &'static str,
        /// Brokers, for the command that fixes it.
        brokers: String,
    },
    /// The topic would refuse records that the pipeline may write.
    #[error(
        "the record limit is {limit} bytes (`kafka.record_limit`), but the topic `{name}` has max.message.bytes={found} where it \
         needs {wanted}, and the brokers have {brokers_limits}; raise it with `kafka-configs.sh --bootstrap-server {brokers} \
         --alter --entity-type topics --entity-name {name} --add-config max.message.bytes={wanted}`{lower}"
    )]
    RecordLimit {
        name: String,
        limit: usize,
        /// Current `max.message.bytes` of the topic.
        found: String,
        /// Required `max.message.bytes`.
        wanted: usize,
        /// Limits that the brokers report for themselves.
        brokers_limits: String,
        /// Brokers, for the command that fixes it.
        brokers: String,
        /// Alternative remedy: a record limit that fits.
        lower: String,
    },
    /// The brokers would refuse the request with the largest record.
    #[error(
        "the record limit is {limit} bytes (`kafka.record_limit`), and the topic `{name}` has \
         max.message.bytes={max_message_bytes}, but the brokers have socket.request.max.bytes={found} where a request with one \
         record needs {wanted}: they would close the connection at every attempt; raise it in the configuration of each broker, \
         and restart the broker{lower}"
    )]
    RequestLimit {
        /// Name on the brokers of the topic with the largest records.
        name: String,
        limit: usize,
        /// Current `max.message.bytes` of the topic.
        max_message_bytes: String,
        /// Current `socket.request.max.bytes` of a broker.
        found: usize,
        /// Required `socket.request.max.bytes`.
        wanted: usize,
        /// Alternative remedy: a record limit that fits.
        lower: String,
    },
    /// A declared group has partitions without a commit.
    #[error(
        "the group `{group}` has no commit for {partitions} partitions of the topic `{name}`: `orbweaver topics create` \
         commits offset 0 for it"
    )]
    NoCommit {
        group: String,
        name: String,
        /// Number of partitions without a commit.
        partitions: usize,
    },
}

impl TopicProblem {
    /// Returns whether the pipeline's configuration is at fault, so that a restart does not help.
    #[must_use]
    pub fn is_of_configuration(&self) -> bool {
        matches!(self, Self::RecordLimit { .. } | Self::RequestLimit { .. })
    }
}

/// Compares the topics on the brokers with what the pipeline needs. Returns no faults if all is well.
pub async fn check(log: &KafkaLog) -> Result<Vec<TopicProblem>, LogError> {
    let mut faults = check_settings(log).await?;
    faults.extend(check_commits(log).await?);
    Ok(faults)
}

/// Compares the topics on the brokers with the required ones, without the commits of groups.
pub async fn check_settings(log: &KafkaLog) -> Result<Vec<TopicProblem>, LogError> {
    log.refresh(log.config.connect_patience).await?;
    let counts: Vec<(&TopicDescription, Option<Partition>)> =
        topic::topics().iter().map(|description| (description, log.partitions(description.topic).ok())).collect();
    let mut faults = uneven(log, &counts);
    let present: Vec<&TopicDescription> =
        counts.iter().filter(|(_, count)| count.is_some()).map(|(description, _)| *description).collect();
    let settings = described(log, &present).await?;
    let (limit, broker) = (log.config.record_limit, broker_settings(log).await);
    if let Some((found, wanted)) = refuses_request(limit, &broker) {
        let name = log.topic_name(topic::DEAD_LETTERS);
        let max_message_bytes = settings.get(&name).and_then(|found| found.get(MAX_MESSAGE_BYTES));
        let max_message_bytes = max_message_bytes.map_or("?", String::as_str).to_owned();
        let lower = lower_for_request(found);
        faults.push(TopicProblem::RequestLimit { name, limit, max_message_bytes, found, wanted, lower });
    }
    for description in &present {
        let name = log.topic_name(description.topic);
        let found = settings
            .get(&name)
            .ok_or_else(|| LogError::Unavailable(format!("the brokers returned no settings of the topic `{name}`")))?;
        if let Some((found, wanted)) = refuses(description.topic, limit, found) {
            let (name, brokers) = (name.clone(), log.config.brokers.clone());
            let (brokers_limits, lower) = (brokers_limits(&broker), lower(found.parse().unwrap_or(0)));
            faults.push(TopicProblem::RecordLimit { name, limit, found, wanted, brokers_limits, brokers, lower });
        }
        for wrong in wrong_settings(description.topic, description.cleanup, found) {
            let (name, brokers) = (name.clone(), log.config.brokers.clone());
            let Wrong { key, found, wanted, reason } = wrong;
            faults.push(TopicProblem::Setting { name, key, found, wanted, reason, brokers });
        }
    }
    Ok(faults)
}

/// Returns the declared groups without a commit on existing topics. Brokers that have no commits yet create their topic
/// for them at this request.
pub async fn check_commits(log: &KafkaLog) -> Result<Vec<TopicProblem>, LogError> {
    let mut faults = vec![];
    for (group, topics) in topic::groups() {
        let topics: Vec<Topic> = topics.iter().copied().filter(|topic| log.partitions(*topic).is_ok()).collect();
        let missing = without_commit(log, group, &topics).await?;
        for topic in topics {
            let partitions = missing.iter().filter(|tp| tp.topic == topic).count();
            if partitions > 0 {
                faults.push(TopicProblem::NoCommit {
                    group: log.group_name(group),
                    name: log.topic_name(topic),
                    partitions,
                });
            }
        }
    }
    Ok(faults)
}

/// Returns faults for missing topics and inconsistent partition counts.
fn uneven(log: &KafkaLog, counts: &[(&TopicDescription, Option<Partition>)]) -> Vec<TopicProblem> {
    // The most frequent count is taken as the intended one.
    let mut votes: BTreeMap<Partition, usize> = BTreeMap::new();
    for count in counts.iter().filter_map(|(_, count)| *count) {
        *votes.entry(count).or_default() += 1;
    }
    let wanted = votes.iter().max_by_key(|(count, votes)| (**votes, **count)).map(|(count, _)| *count);
    let other = counts.iter().find(|(_, count)| *count == wanted).map(|(other, _)| log.topic_name(other.topic));
    let mut faults = vec![];
    for (description, count) in counts {
        let name = log.topic_name(description.topic);
        match *count {
            None => faults.push(TopicProblem::Missing { name, partitions: wanted.unwrap_or(16) }),
            Some(found) if Some(found) != wanted => {
                let (other, wanted) = (other.clone().unwrap_or_default(), wanted.unwrap_or(found));
                faults.push(TopicProblem::Uneven { name, found, other, wanted });
            }
            Some(found) if !found.is_power_of_two() || found > MAX_PARTITIONS => {
                faults.push(TopicProblem::NoPowerOfTwo { name, found });
            }
            Some(_) => {}
        }
    }
    faults
}

/// A topic on the brokers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub topic: Topic,
    /// Topic name on the brokers.
    pub name: String,
    /// Log start and log end of each partition; empty if the topic is missing.
    pub bounds: Vec<Bounds>,
}

impl Listed {
    /// Returns the maximum number of records: compaction and transactions leave gaps.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.bounds.iter().map(|bounds| bounds.end.saturating_sub(bounds.start)).sum()
    }
}

/// Returns all topics of the pipeline, including missing ones, in the order of the flow.
pub async fn list(log: &KafkaLog) -> Result<Vec<Listed>, LogError> {
    log.refresh(log.config.connect_patience).await?;
    let mut listed = vec![];
    for description in topic::topics() {
        let topic = description.topic;
        let tps = topic_partitions(log, &[topic]).unwrap_or_default();
        listed.push(Listed { topic, name: log.topic_name(topic), bounds: log.all_bounds(&tps).await? });
    }
    Ok(listed)
}

async fn without_commit(log: &KafkaLog, group: &str, topics: &[Topic]) -> Result<Vec<TopicPartition>, LogError> {
    let tps = topic_partitions(log, topics)?;
    let commits = log.committed(group, &tps).await?;
    Ok(tps.into_iter().zip(commits).filter(|(_, commit)| commit.is_none()).map(|(tp, _)| tp).collect())
}

/// Returns the number of replicas in sync that an append to each existing topic needs, by name on the brokers.
pub async fn min_in_sync(log: &KafkaLog) -> Result<BTreeMap<String, usize>, LogError> {
    let present = topic::topics().iter().filter(|description| log.partitions(description.topic).is_ok());
    let described = described(log, &present.collect::<Vec<_>>()).await?;
    let min = |settings: BTreeMap<String, String>| settings.get("min.insync.replicas")?.parse().ok();
    Ok(described.into_iter().filter_map(|(name, settings)| Some((name, min(settings)?))).collect())
}

/// Returns the settings of topics, by name and key.
async fn described(
    log: &KafkaLog,
    topics: &[&TopicDescription],
) -> Result<BTreeMap<String, BTreeMap<String, String>>, LogError> {
    let names: Vec<String> = topics.iter().map(|description| log.topic_name(description.topic)).collect();
    let asked: Vec<ResourceSpecifier<'_>> = names.iter().map(|name| ResourceSpecifier::Topic(name)).collect();
    let mut described = BTreeMap::new();
    if asked.is_empty() {
        return Ok(described);
    }
    for (name, answer) in names.iter().zip(log.queries.settings(&asked).await?) {
        let resource = answer.map_err(|code| LogError::Invalid(format!("the settings of `{name}`: {code}")))?;
        let rdkafka::admin::OwnedResourceSpecifier::Topic(name) = resource.specifier else { continue };
        let entries = resource.entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?)));
        described.insert(name, entries.collect());
    }
    Ok(described)
}
