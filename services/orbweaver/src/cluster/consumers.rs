//! `orbweaver consumers`: the consumer groups that keep records from being deleted.

use std::time::Duration;

use bytes::Bytes;
use orbweaver_log::{Log, Offset, Record, TopicPartition, kafka::KafkaLog};
use orbweaver_messages::{
    CONSUMERS_KEY, ConsumerGroup, ConsumerGroups, Topic, encode,
    topic::{self, CONTROL},
};
use orbweaver_scope::{Consumers, DEFINITIONS_PARTITION};
use orbweaver_stage::{Clock as _, SystemClock};
use serde::Serialize;

use super::{
    args::{ConsumersArgs, ConsumersVerb, From},
    connection::{block_on, connect},
    dead_letters::REPLAY_GROUP,
};
use crate::{
    crawl::{definition, progress::number},
    exit::Failure,
    export::rfc3339,
    tools::{json_line, to_stdout},
};

/// Maximum number of attempts at a change while others change the declaration at the same time.
const TRIES: u32 = 20;
/// Delay between a first commit and the check whether the log start has passed it: a deletion may have begun before the
/// group was declared.
const SETTLE: Duration = Duration::from_secs(1);
/// Maximum length of a group's name, in bytes.
const MAX_NAME: usize = 200;

/// Runs `orbweaver consumers`.
///
/// # Errors
/// Fails if the log fails, or a group cannot be declared or removed.
pub fn run(args: &ConsumersArgs) -> Result<(), Failure> {
    block_on(async {
        match &args.verb {
            ConsumersVerb::List { json, cluster } => {
                list(&connect(&cluster.brokers, &cluster.kafka).await?, *json).await
            }
            ConsumersVerb::Add { group, from, cluster } => {
                let group = group_of_users(group, &cluster.kafka.prefix)?;
                add(&connect(&cluster.brokers, &cluster.kafka).await?, group, *from).await
            }
            ConsumersVerb::Remove { group, cluster } => {
                let log = connect(&cluster.brokers, &cluster.kafka).await?;
                let group = without_prefix(group, &cluster.kafka.prefix);
                if !remove(&log, group).await? {
                    return Err(Failure::Usage(format!(
                        "the group `{group}` is not declared; `orbweaver consumers list` shows those that are"
                    )));
                }
                to_stdout(|out| writeln!(out, "removed the group `{group}`: it keeps no records any more"))
            }
        }
    })
}

fn without_prefix<'a>(group: &'a str, prefix: &str) -> &'a str {
    group.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.')).unwrap_or(group)
}

/// Returns the name of a group that users may declare, without the prefix.
fn group_of_users<'a>(group: &'a str, prefix: &str) -> Result<&'a str, Failure> {
    let name = without_prefix(group, prefix);
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(allowed) {
        return Err(Failure::Usage(format!(
            "the group `{group}`: allowed are 1 to {MAX_NAME} letters, digits, `.`, `_` and `-`"
        )));
    }
    if topic::groups().contains_key(name) || topic::collectors().contains_key(name) || name == REPLAY_GROUP {
        return Err(Failure::Usage(format!("the group `{name}` is one of the pipeline's own; choose another name")));
    }
    Ok(name)
}

/// Returns the topics whose records are for users.
fn topics_for_users() -> Vec<Topic> {
    topic::topics().iter().filter(|described| described.users).map(|described| described.topic).collect()
}

/// Declares a group: from now on its commits keep the records of these topics.
///
/// # Errors
/// Fails if the log fails.
pub async fn declare(log: &dyn Log, group: &str, topics: &[Topic]) -> Result<(), Failure> {
    let now = SystemClock.now();
    change(log, |consumers| consumers.with(group, topics, now)).await.map(drop)
}

/// Removes a declared group; returns `false` if it was not declared.
///
/// # Errors
/// Fails if the log fails.
pub async fn remove(log: &dyn Log, group: &str) -> Result<bool, Failure> {
    change(log, |consumers| consumers.without(group)).await
}

/// Appends the declarations that `edit` returns, and repairs, until neither is needed. Returns `true` if `edit`
/// returned a declaration.
async fn change(log: &dyn Log, edit: impl Fn(&Consumers) -> Option<ConsumerGroups>) -> Result<bool, Failure> {
    let mut changed = false;
    for _ in 0..TRIES {
        let consumers = declared(log).await?;
        let wanted = edit(&consumers);
        changed |= wanted.is_some();
        let Some(groups) = wanted.or_else(|| consumers.next()) else { return Ok(changed) };
        let record = Record {
            place: TopicPartition::new(CONTROL, DEFINITIONS_PARTITION),
            key: Some(Bytes::from_static(CONSUMERS_KEY.as_bytes())),
            value: Some(encode(&groups)),
            headers: vec![],
            timestamp_ms: SystemClock.now(),
        };
        log.append(vec![record]).await.map_err(failed)?;
    }
    let message = "others change the declared groups at the same time; give the command again";
    Err(Failure::Stopped(message.to_owned()))
}

async fn declared(log: &dyn Log) -> Result<Consumers, Failure> {
    let mut consumers = Consumers::default();
    definition::each(log, |record| consumers.read(record)).await?;
    Ok(consumers)
}

async fn add(log: &KafkaLog, group: &str, from: From) -> Result<(), Failure> {
    // Declared first: without a commit the group keeps everything, so no record is deleted while its start is
    // committed.
    let topics = topics_for_users();
    declare(log, group, &topics).await?;
    let mut begun = 0;
    loop {
        let missing = to_begin(log, group, &topics, from).await?;
        if missing.is_empty() && begun > 0 {
            break;
        }
        begun += 1;
        if !missing.is_empty() {
            log.begin_group(group, missing).await.map_err(|error| {
                Failure::Failed(format!(
                    "the group `{group}` is declared, but its start cannot be committed: {error}; while it has members, \
                     only they can commit: stop them, and give the command again"
                ))
            })?;
        }
        tokio::time::sleep(SETTLE).await;
    }
    let names = topics.iter().map(|topic| log.topic_name(*topic)).collect::<Vec<_>>().join(", ");
    to_stdout(|out| {
        writeln!(
            out,
            "declared the group `{group}`: records of {names} are kept until it has committed them; consume with group.id={}",
            log.group_name(group)
        )
    })
}

/// Returns start positions for the partitions in which the group has no commit, or one outside of the log.
async fn to_begin(
    log: &dyn Log,
    group: &str,
    topics: &[Topic],
    from: From,
) -> Result<Vec<(TopicPartition, Offset)>, Failure> {
    let places = places(log, topics)?;
    let commits = log.committed(group, &places).await.map_err(failed)?;
    let bounds = log.all_bounds(&places).await.map_err(failed)?;
    let all = places.into_iter().zip(commits).zip(bounds);
    let missing = all.filter_map(|((place, commit), bounds)| {
        let stands = commit.is_some_and(|commit| (bounds.start..=bounds.end).contains(&commit.offset));
        let begin = match from {
            From::Start => bounds.start,
            From::End => bounds.end,
        };
        (!stands).then_some((place, begin))
    });
    Ok(missing.collect())
}

fn places(log: &dyn Log, topics: &[Topic]) -> Result<Vec<TopicPartition>, Failure> {
    let mut places = vec![];
    for topic in topics {
        let partitions = log.partitions(*topic).map_err(failed)?;
        places.extend((0..partitions).map(|partition| TopicPartition::new(*topic, partition)));
    }
    Ok(places)
}

/// A declared group and a topic whose records it keeps.
#[derive(Debug, Serialize)]
struct Shown {
    group: String,
    group_id: String,
    topic: String,
    /// Offsets between commits and log ends, over all partitions: the records that the group keeps.
    lag: u64,
    /// Partitions without a commit of the group, from which nothing is deleted.
    without_commit: usize,
    declared_at: String,
}

async fn list(log: &KafkaLog, json: bool) -> Result<(), Failure> {
    let mut shown = vec![];
    for group in declared(log).await?.groups() {
        for topic in group.topics.iter().filter_map(|name| topic::named(name)) {
            shown.push(standing(log, group, topic).await?);
        }
    }
    if json {
        return to_stdout(|out| shown.iter().try_for_each(|group| json_line(out, group)));
    }
    if shown.is_empty() {
        return to_stdout(|out| writeln!(out, "no group is declared"));
    }
    let head = format!("{:<28}{:<22}{:>14}{:>16}  {}", "group.id", "topic", "lag", "without commit", "declared");
    to_stdout(|out| {
        writeln!(out, "{head}")?;
        shown.iter().try_for_each(|Shown { group_id, topic, lag, without_commit, declared_at, .. }| {
            writeln!(out, "{group_id:<28}{topic:<22}{:>14}{without_commit:>16}  {declared_at}", number(*lag))
        })
    })
}

async fn standing(log: &KafkaLog, group: &ConsumerGroup, topic: Topic) -> Result<Shown, Failure> {
    let places = places(log, &[topic])?;
    let commits = log.committed(&group.group, &places).await.map_err(failed)?;
    let bounds = log.all_bounds(&places).await.map_err(failed)?;
    let behind = commits.iter().zip(&bounds).map(|(commit, bounds)| {
        let stands = commit.as_ref().map_or(bounds.start, |commit| commit.offset.max(bounds.start));
        bounds.end.saturating_sub(stands)
    });
    Ok(Shown {
        group: group.group.clone(),
        group_id: log.group_name(&group.group),
        topic: log.topic_name(topic),
        lag: behind.sum(),
        without_commit: commits.iter().filter(|commit| commit.is_none()).count(),
        declared_at: rfc3339(group.declared_at_ms),
    })
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_users_has_a_name_of_its_own_with_or_without_the_prefix() {
        assert_eq!(group_of_users("indexer", "crawl").unwrap(), "indexer");
        assert_eq!(group_of_users("crawl.indexer", "crawl").unwrap(), "indexer");
        assert_eq!(group_of_users("crawler", "crawl").unwrap(), "crawler");
        for (wrong, says) in [
            ("", "1 to 200 letters"),
            ("a b", "1 to 200 letters"),
            ("crawl.", "1 to 200 letters"),
            ("frontier", "pipeline's own"),
            ("crawl.exporter", "pipeline's own"),
            ("dead-letters-replay", "pipeline's own"),
        ] {
            let error = group_of_users(wrong, "crawl").unwrap_err();
            assert!(error.code() == 64 && error.to_string().contains(says), "{wrong}: {error}");
        }
    }

    #[test]
    fn documents_are_for_users() {
        assert_eq!(topics_for_users(), [topic::DOCUMENTS]);
    }
}
