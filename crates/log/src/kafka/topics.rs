//! The topics of the pipeline on the brokers: made from `schemas/topics`, checked against it, listed.

mod limit;
mod settings;

use std::collections::BTreeMap;

use limit::{brokers_limits, lower, refuses};
use orbweaver_messages::{
    Topic,
    topic::{self, TopicDescription},
};
use rdkafka::{
    admin::{NewTopic, ResourceSpecifier, TopicReplication},
    types::RDKafkaErrorCode as Code,
};
use settings::{Wrong, settings, wrong_settings};

use super::{KafkaLog, client::failed};
use crate::{Bounds, Cleanup, Log, LogError, MAX_PARTITIONS, Partition, TopicPartition, TopicSpec};

/// What [`create`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Created {
    /// Topics that were made, by their names on the brokers.
    pub made: Vec<String>,
    /// Topics that were there.
    pub present: Vec<String>,
    /// Groups that stand at offset 0 from now on somewhere, by their names on the brokers.
    pub committed: Vec<String>,
}

/// Makes all topics of the pipeline that are missing, and commits offset 0 for each declared group where it has no commit.
/// What is there is left as it is, so that it may be called again.
///
/// # Errors
/// [`LogError::Invalid`] when `partitions` is no power of two up to [`MAX_PARTITIONS`], when a topic is there with another
/// number, or when the brokers refuse; `replication` is the brokers' default when `None`.
pub async fn create(log: &KafkaLog, partitions: Partition, replication: Option<u16>) -> Result<Created, LogError> {
    if !partitions.is_power_of_two() || partitions > MAX_PARTITIONS {
        return Err(LogError::Invalid(format!(
            "{partitions} partitions; allowed is a power of two up to {MAX_PARTITIONS}: 1, 2, 4, 8, 16, …"
        )));
    }
    let specs: Vec<TopicSpec> = topic::topics()
        .iter()
        .map(|description| TopicSpec::new(description.topic, partitions, cleanup(description)))
        .collect();
    let mut created = create_topics(log, &specs, replication).await?;
    for (group, topics) in topic::groups() {
        let missing = without_commit(log, group, topics).await?;
        if missing.is_empty() {
            continue;
        }
        let commits = missing.iter().map(|place| (log.topic_name(place.topic).into(), place.partition, 0)).collect();
        log.inquiry.commit(group, commits).await?;
        created.committed.push(log.group_name(group));
    }
    Ok(created)
}

/// Makes topics that are missing; any number of partitions will do. What is there must have the same number.
///
/// # Errors
/// As [`create`].
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
                    "the topic `{name}` has {found} partitions already, not {wanted}: say {found}, or delete it first"
                )));
            }
            Err(_) => {
                let mut settings = settings(spec.topic, spec.cleanup, log.config.record_limit);
                // One of three may be away; what is acknowledged is then still on two.
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
        let made = log.inquiry.admin().create_topics(&new, &log.inquiry.admin_options()).await;
        for answer in made.map_err(|error| failed("the creation of topics", &error))? {
            match answer {
                Ok(name) => created.made.push(name),
                Err((name, Code::TopicAlreadyExists)) => created.present.push(name),
                Err((name, code)) => {
                    let remedy = match code {
                        Code::InvalidConfig | Code::PolicyViolation => {
                            let limit = log.config.record_limit;
                            format!("; where brokers take no records of {limit} bytes, set `kafka.record_limit` lower")
                        }
                        _ => String::new(),
                    };
                    return Err(LogError::Invalid(format!("the topic `{name}` was refused: {code}{remedy}")));
                }
            }
        }
    }
    await_known(log, specs).await?;
    Ok(created)
}

/// Waits until the brokers know new topics: all of them do a moment after they were made.
async fn await_known(log: &KafkaLog, specs: &[TopicSpec]) -> Result<(), LogError> {
    let deadline = tokio::time::Instant::now() + log.config.request_timeout;
    loop {
        log.refresh(log.config.connect_patience).await?;
        let missing = specs.iter().find(|spec| log.partitions(spec.topic).is_err());
        let Some(missing) = missing else {
            let places = specs.iter().map(|spec| TopicPartition::new(spec.topic, spec.partitions - 1));
            return log.all_bounds(&places.collect::<Vec<_>>()).await.map(drop);
        };
        if tokio::time::Instant::now() >= deadline {
            let name = log.topic_name(missing.topic);
            return Err(LogError::Unavailable(format!("the topic `{name}` was made, but the brokers do not show it")));
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// Deletes all topics of the prefix, and all that is in them.
///
/// # Errors
/// When the brokers refuse.
pub async fn delete(log: &KafkaLog) -> Result<(), LogError> {
    log.refresh(log.config.connect_patience).await?;
    let names: Vec<String> =
        log.known.read().unwrap_or_else(std::sync::PoisonError::into_inner).keys().cloned().collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if names.is_empty() {
        return Ok(());
    }
    let deleted = log.inquiry.admin().delete_topics(&names, &log.inquiry.admin_options()).await;
    for answer in deleted.map_err(|error| failed("the deletion of topics", &error))? {
        match answer {
            Ok(_) | Err((_, Code::UnknownTopicOrPartition)) => {}
            Err((name, code)) => {
                return Err(LogError::Invalid(format!("the topic `{name}` cannot be deleted: {code}")));
            }
        }
    }
    log.refresh(log.config.connect_patience).await
}

/// What is wrong with the topics, and how to mend it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It was never made.
    #[error("the topic `{name}` is missing: make it with `orbweaver topics create --partitions {partitions}`")]
    Missing {
        /// Its name on the brokers.
        name: String,
        /// The number of partitions of the others; one for a first try when there are none.
        partitions: Partition,
    },
    /// Topics have different numbers of partitions.
    #[error(
        "the topic `{name}` has {found} partitions, but `{other}` has {wanted}: a site must have one number everywhere; delete \
         `{name}` and make it anew with `orbweaver topics create --partitions {wanted}`"
    )]
    Uneven {
        /// Its name on the brokers.
        name: String,
        /// Its partitions.
        found: Partition,
        /// Another topic.
        other: String,
        /// The partitions of that.
        wanted: Partition,
    },
    /// The number of partitions is no power of two.
    #[error(
        "the topic `{name}` has {found} partitions; allowed is a power of two up to {MAX_PARTITIONS}: delete the topics of \
         this prefix and make them anew with `orbweaver topics create --partitions N`"
    )]
    NoPowerOfTwo {
        /// Its name on the brokers.
        name: String,
        /// Its partitions.
        found: Partition,
    },
    /// A setting would lose records or refuse them.
    #[error(
        "the topic `{name}` has {key}={found}, {reason}; mend it with `kafka-configs.sh --bootstrap-server {brokers} --alter \
         --entity-type topics --entity-name {name} --add-config {key}={wanted}`"
    )]
    Setting {
        /// The topic's name on the brokers.
        name: String,
        /// The setting.
        key: &'static str,
        /// What it is.
        found: String,
        /// What it should be.
        wanted: String,
        /// Why.
        reason: &'static str,
        /// For the command that mends it.
        brokers: String,
    },
    /// Records that the pipeline may write would be refused.
    #[error(
        "the record limit is {limit} bytes (`kafka.record_limit`), but the topic `{name}` has max.message.bytes={found} where it \
         needs {wanted}, and the brokers have {brokers_limits}; raise it with `kafka-configs.sh --bootstrap-server {brokers} \
         --alter --entity-type topics --entity-name {name} --add-config max.message.bytes={wanted}`{lower}"
    )]
    RecordLimit {
        /// The topic's name on the brokers.
        name: String,
        /// The record limit.
        limit: usize,
        /// What the topic takes.
        found: String,
        /// What it should take.
        wanted: usize,
        /// What the brokers say of their own limits.
        brokers_limits: String,
        /// For the command that mends it.
        brokers: String,
        /// The other remedy: a record limit that fits.
        lower: String,
    },
    /// A declared group has no commit somewhere.
    #[error(
        "the group `{group}` has no commit for {partitions} partitions of the topic `{name}`: `orbweaver topics create` \
         commits offset 0 for it"
    )]
    NoCommit {
        /// Its name on the brokers.
        group: String,
        /// The topic's name on the brokers.
        name: String,
        /// In how many partitions.
        partitions: usize,
    },
}

impl Fault {
    /// Whether it is a setting of the pipeline that does not fit, so that starting again is of no use.
    #[must_use]
    pub fn is_of_configuration(&self) -> bool {
        matches!(self, Self::RecordLimit { .. })
    }
}

/// Compares the topics on the brokers with what the pipeline needs. Empty when all is well.
///
/// # Errors
/// When the brokers cannot be asked.
pub async fn check(log: &KafkaLog) -> Result<Vec<Fault>, LogError> {
    log.refresh(log.config.connect_patience).await?;
    let counts: Vec<(&TopicDescription, Option<Partition>)> =
        topic::topics().iter().map(|description| (description, log.partitions(description.topic).ok())).collect();
    let mut faults = uneven(log, &counts);
    let present: Vec<&TopicDescription> =
        counts.iter().filter(|(_, count)| count.is_some()).map(|(description, _)| *description).collect();
    let settings = described(log, &present).await?;
    let mut told: Option<String> = None;
    for description in &present {
        let name = log.topic_name(description.topic);
        let found = settings.get(&name).ok_or_else(|| LogError::Unavailable(format!("no settings of `{name}`")))?;
        let limit = log.config.record_limit;
        if let Some((found, wanted)) = refuses(description.topic, limit, found) {
            let (name, brokers) = (name.clone(), log.config.brokers.clone());
            let brokers_limits = match &told {
                Some(told) => told.clone(),
                None => told.insert(brokers_limits(log).await).clone(),
            };
            let lower = lower(&found);
            faults.push(Fault::RecordLimit { name, limit, found, wanted, brokers_limits, brokers, lower });
        }
        for wrong in wrong_settings(description.topic, cleanup(description), found) {
            let (name, brokers) = (name.clone(), log.config.brokers.clone());
            let Wrong { key, found, wanted, reason } = wrong;
            faults.push(Fault::Setting { name, key, found, wanted, reason, brokers });
        }
    }
    for (group, topics) in topic::groups() {
        let topics: Vec<Topic> = topics.iter().copied().filter(|topic| log.partitions(*topic).is_ok()).collect();
        let missing = without_commit(log, group, &topics).await?;
        for topic in topics {
            let partitions = missing.iter().filter(|place| place.topic == topic).count();
            if partitions > 0 {
                faults.push(Fault::NoCommit { group: log.group_name(group), name: log.topic_name(topic), partitions });
            }
        }
    }
    Ok(faults)
}

/// Missing topics, and numbers of partitions that do not fit together.
fn uneven(log: &KafkaLog, counts: &[(&TopicDescription, Option<Partition>)]) -> Vec<Fault> {
    // What most have is taken to be meant.
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
            None => faults.push(Fault::Missing { name, partitions: wanted.unwrap_or(16) }),
            Some(found) if Some(found) != wanted => {
                let (other, wanted) = (other.clone().unwrap_or_default(), wanted.unwrap_or(found));
                faults.push(Fault::Uneven { name, found, other, wanted });
            }
            Some(found) if !found.is_power_of_two() || found > MAX_PARTITIONS => {
                faults.push(Fault::NoPowerOfTwo { name, found });
            }
            Some(_) => {}
        }
    }
    faults
}

/// A topic as it stands on the brokers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The topic.
    pub topic: Topic,
    /// Its name on the brokers.
    pub name: String,
    /// First and next offset of each partition; empty when the topic is missing.
    pub bounds: Vec<Bounds>,
}

impl Listed {
    /// How many records it holds at most: compaction and transactions leave gaps.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.bounds.iter().map(|bounds| bounds.end.saturating_sub(bounds.start)).sum()
    }
}

/// All topics of the pipeline, missing ones too, in the order of the flow.
///
/// # Errors
/// When the brokers cannot be asked.
pub async fn list(log: &KafkaLog) -> Result<Vec<Listed>, LogError> {
    log.refresh(log.config.connect_patience).await?;
    let mut listed = vec![];
    for description in topic::topics() {
        let topic = description.topic;
        let places: Vec<_> =
            (0..log.partitions(topic).unwrap_or(0)).map(|partition| TopicPartition::new(topic, partition)).collect();
        listed.push(Listed { topic, name: log.topic_name(topic), bounds: log.all_bounds(&places).await? });
    }
    Ok(listed)
}

fn cleanup(description: &TopicDescription) -> Cleanup {
    match description.cleanup {
        topic::Cleanup::Delete => Cleanup::Delete,
        topic::Cleanup::Compact => Cleanup::Compact,
        topic::Cleanup::Keep => Cleanup::Keep,
    }
}

/// Where a group has no commit.
async fn without_commit(log: &KafkaLog, group: &str, topics: &[Topic]) -> Result<Vec<TopicPartition>, LogError> {
    let mut places = vec![];
    for topic in topics {
        places.extend((0..log.partitions(*topic)?).map(|partition| TopicPartition::new(*topic, partition)));
    }
    let commits = log.committed(group, &places).await?;
    Ok(places.into_iter().zip(commits).filter(|(_, commit)| commit.is_none()).map(|(place, _)| place).collect())
}

/// The settings of topics, by name and key.
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
    let answers = log.inquiry.admin().describe_configs(&asked, &log.inquiry.admin_options()).await;
    for (name, answer) in names.iter().zip(answers.map_err(|error| failed("the settings of topics", &error))?) {
        let resource = answer.map_err(|code| LogError::Invalid(format!("the settings of `{name}`: {code}")))?;
        let rdkafka::admin::OwnedResourceSpecifier::Topic(name) = resource.specifier else { continue };
        let entries = resource.entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?)));
        described.insert(name, entries.collect());
    }
    Ok(described)
}
