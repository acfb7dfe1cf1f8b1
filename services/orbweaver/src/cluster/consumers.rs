//! `orbweaver consumers`: the consumer groups that keep records from being deleted.

use std::time::Duration;

use orbweaver_log::{Log, kafka::KafkaLog, topic_partitions};
use orbweaver_messages::{ConsumerGroup, FetchProfile, Topic, topic};
use orbweaver_process::declared_groups::{self, DeclareError, StartAt};
use orbweaver_scope::Consumers;
use serde::Serialize;

use super::{
    args::{ConsumersVerb, From, UserTopic},
    connection::block_on,
    dead_letters::REPLAY_GROUP,
};
use crate::{
    crawl::progress::number,
    exit::{Failure, failed},
    export::{self, rfc3339},
    output::{json_line, to_stdout},
};

/// Group of the archiver.
const ARCHIVER: &str = orbweaver_archiver::SERVICE;
/// Maximum length of a group's name, in bytes.
const MAX_NAME: usize = 200;

/// Runs `orbweaver consumers`.
pub fn run(verb: &ConsumersVerb) -> Result<(), Failure> {
    block_on(async {
        match verb {
            ConsumersVerb::List { json, cluster } => list(&cluster.connect().await?, *json).await,
            ConsumersVerb::Add { group, from, topic, cluster } => {
                let group = group_of_users(group, &cluster.kafka.prefix)?;
                let topics: Vec<Topic> = topic.iter().map(|topic| topic_of(*topic)).collect();
                add(&cluster.connect().await?, group, &topics, *from).await
            }
            ConsumersVerb::Remove { group, cluster } => {
                let log = cluster.connect().await?;
                let group = without_prefix(group, &cluster.kafka.prefix);
                if !remove(&log, group).await? {
                    return Err(Failure::Usage(format!(
                        "the group `{group}` is not declared; `orbweaver consumers list` shows the declared groups"
                    )));
                }
                to_stdout(|out| writeln!(out, "removed the group `{group}`: records are no longer retained for it"))
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
            "the group name `{group}` is invalid: expected 1 to {MAX_NAME} letters, digits, `.`, `_` and `-`"
        )));
    }
    let is_collector = name.strip_prefix(export::GROUP).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    if topic::groups().contains_key(name) || is_collector || name == REPLAY_GROUP {
        return Err(Failure::Usage(format!(
            "the group `{name}` is one of the pipeline's own groups; choose another name"
        )));
    }
    Ok(name)
}

fn topic_of(topic: UserTopic) -> Topic {
    match topic {
        UserTopic::Documents => topic::DOCUMENTS,
        UserTopic::Changes => topic::CHANGES,
        UserTopic::Pages => topic::PAGES,
    }
}

pub async fn is_declared(log: &dyn Log, group: &str) -> Result<bool, Failure> {
    Ok(declared(log).await?.groups().iter().any(|declared| declared.group == group))
}

/// Checks that the archiver's group is declared if a crawl is to be archived: otherwise pages would be deleted before they
/// are archived.
pub(super) async fn check_archiver(log: &dyn Log, profile: &FetchProfile) -> Result<(), Failure> {
    if profile.archive != Some(true) || is_declared(log, ARCHIVER).await? {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "--warc: no archiver has been started on this cluster, and responses would not be retained for it: start \
         orbweaver-{ARCHIVER} first, which declares its group `{ARCHIVER}`"
    )))
}

/// Declares a group; returns `false` if it was declared.
pub async fn declare(log: &dyn Log, group: &str, topics: &[Topic]) -> Result<bool, Failure> {
    declared_groups::declare(log, group, topics).await.map_err(refused)
}

/// Removes a declared group; returns `false` if it was not declared.
pub async fn remove(log: &dyn Log, group: &str) -> Result<bool, Failure> {
    declared_groups::remove(log, group).await.map_err(refused)
}

async fn declared(log: &dyn Log) -> Result<Consumers, Failure> {
    declared_groups::declared(log).await.map_err(failed)
}

fn refused(error: DeclareError) -> Failure {
    match error {
        DeclareError::Contended => Failure::Stopped(error.to_string()),
        error => failed(error),
    }
}

async fn add(log: &KafkaLog, group: &str, topics: &[Topic], from: From) -> Result<(), Failure> {
    let at = match from {
        From::Start => StartAt::Start,
        From::End => StartAt::End,
    };
    let announce = |left: Duration| {
        notice!(
            "declared the group `{group}`; waiting {} s for deletions in progress, which may pass its start position (if \
             interrupted, the group stays declared: repeat the command)",
            left.as_secs() + 1
        );
    };
    declared_groups::retain(log, group, topics, at, announce).await.map_err(refused)?;
    let names = topics.iter().map(|topic| log.topic_name(*topic)).collect::<Vec<_>>().join(", ");
    to_stdout(|out| {
        writeln!(
            out,
            "declared the group `{group}`: records of {names} are retained until it has committed them; consume with \
             group.id={}",
            log.group_name(group)
        )
    })
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
    let width =
        |column: fn(&Shown) -> &str| shown.iter().map(|shown| column(shown).len() + 2).max().unwrap_or_default();
    let (group, name) = (width(|shown| &shown.group_id).max(28), width(|shown| &shown.topic).max(22));
    let head = format!("{:<group$}{:<name$}{:>14}{:>16}  {}", "group.id", "topic", "lag", "without commit", "declared");
    to_stdout(|out| {
        writeln!(out, "{head}")?;
        shown.iter().try_for_each(|Shown { group_id, topic, lag, without_commit, declared_at, .. }| {
            writeln!(out, "{group_id:<group$}{topic:<name$}{:>14}{without_commit:>16}  {declared_at}", number(*lag))
        })
    })
}

async fn standing(log: &KafkaLog, group: &ConsumerGroup, topic: Topic) -> Result<Shown, Failure> {
    let tps = topic_partitions(log, &[topic]).map_err(failed)?;
    let commits = log.committed(&group.group, &tps).await.map_err(failed)?;
    let bounds = log.all_bounds(&tps).await.map_err(failed)?;
    let behind = commits.iter().zip(&bounds).map(|(commit, bounds)| {
        let starts = commit.as_ref().map_or(bounds.start, |commit| commit.offset.max(bounds.start));
        bounds.end.saturating_sub(starts)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_users_has_a_name_of_its_own_with_or_without_the_prefix() {
        assert_eq!(group_of_users("indexer", "crawl").unwrap(), "indexer");
        assert_eq!(group_of_users("crawl.indexer", "crawl").unwrap(), "indexer");
        assert_eq!(group_of_users("crawler", "crawl").unwrap(), "crawler");
        assert_eq!(group_of_users("exporters", "crawl").unwrap(), "exporters");
        for (wrong, says) in [
            ("", "1 to 200 letters"),
            ("a b", "1 to 200 letters"),
            ("crawl.", "1 to 200 letters"),
            ("frontier", "pipeline's own"),
            ("crawl.exporter", "pipeline's own"),
            ("exporter-docs-0123456789ab", "pipeline's own"),
            ("dead-letters-replay", "pipeline's own"),
        ] {
            let error = group_of_users(wrong, "crawl").unwrap_err();
            assert!(error.code() == 64 && error.to_string().contains(says), "{wrong}: {error}");
        }
    }
}
