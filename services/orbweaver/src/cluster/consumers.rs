//! `orbweaver consumers`: the consumer groups that keep records from being deleted.

use std::time::Duration;

use orbweaver_log::{Bounds, Commit, Log, Offset, TopicPartition, kafka::KafkaLog, topic_partitions};
use orbweaver_messages::{CONSUMERS_KEY, ConsumerGroup, ConsumerGroups, Topic, topic};
use orbweaver_scope::Consumers;
use orbweaver_stage::{Clock as _, SystemClock};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::{
    args::{ConsumersVerb, From, UserTopic},
    connection::block_on,
    dead_letters::REPLAY_GROUP,
};
use crate::{
    crawl::{definition, progress::number},
    exit::{Failure, failed},
    export::{self, rfc3339},
    output::{json_line, to_stdout},
};

/// Maximum number of attempts at a change while others change the declaration at the same time.
const TRIES: u32 = 20;
/// Time after which all sweeps consider a new declaration (a quarter of a second and some margin).
const SETTLE: Duration = Duration::from_secs(1);
/// Time after which deletions have ended that began without considering a new declaration: 20 s per partition and
/// [`SETTLE`], and 15 s for a request that is still with a broker then.
const SWEPT: Duration = Duration::from_secs(36);
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
    }
}

/// Declares a group: from now on its commits keep the records of these topics. Returns `false` if it was declared.
pub async fn declare(log: &dyn Log, group: &str, topics: &[Topic]) -> Result<bool, Failure> {
    let now = SystemClock.now();
    change(log, |consumers| consumers.with(group, topics, now)).await
}

pub async fn is_declared(log: &dyn Log, group: &str) -> Result<bool, Failure> {
    Ok(declared(log).await?.groups().iter().any(|declared| declared.group == group))
}

/// Removes a declared group; returns `false` if it was not declared.
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
        definition::append(log, CONSUMERS_KEY, &groups, SystemClock.now()).await?;
    }
    let message = "other commands keep changing the declared groups; repeat the command";
    Err(Failure::Stopped(message.to_owned()))
}

async fn declared(log: &dyn Log) -> Result<Consumers, Failure> {
    definition::read(log, Consumers::read).await
}

async fn add(log: &KafkaLog, group: &str, topics: &[Topic], from: From) -> Result<(), Failure> {
    let known_for = if declare(log, group, topics).await? { Duration::ZERO } else { known_for(log, group).await? };
    let begin = async |starts: Vec<(TopicPartition, Offset)>| {
        log.begin_group(group, starts).await.map_err(|error| {
            Failure::Failed(format!(
                "the group `{group}` is declared, but its start position cannot be committed: {error}; while it has \
                 members, only they can commit: stop them, and repeat the command"
            ))
        })
    };
    settle(log, &Start { group, topics, from, known_for }, begin).await?;
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

/// Returns the time since which a group has been declared.
async fn known_for(log: &dyn Log, group: &str) -> Result<Duration, Failure> {
    let declared = declared(log).await?;
    let at = declared.groups().iter().find(|known| known.group == group).map(|known| known.declared_at_ms);
    let elapsed = at.map_or(0, |at| SystemClock.now().saturating_sub(at));
    Ok(Duration::from_millis(u64::try_from(elapsed).unwrap_or_default()))
}

/// Start of a declared group.
struct Start<'a> {
    group: &'a str,
    topics: &'a [Topic],
    from: From,
    /// Time since which it has been declared.
    known_for: Duration,
}

/// Commits the start of a declared group with `begin`, until no deletion can pass it. Until its start is committed, the
/// group keeps everything, except from a sweep that has read the declarations before: that one deletes at most the
/// records that existed when it read them.
async fn settle(
    log: &dyn Log,
    start: &Start<'_>,
    mut begin: impl AsyncFnMut(Vec<(TopicPartition, Offset)>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let tps = topic_partitions(log, start.topics).map_err(failed)?;
    let mut announced = false;
    if start.known_for < SWEPT {
        sleep(SETTLE).await;
    }
    let deletable = log.all_bounds(&tps).await.map_err(failed)?;
    loop {
        let commits = log.committed(start.group, &tps).await.map_err(failed)?;
        let bounds = log.all_bounds(&tps).await.map_err(failed)?;
        let starts: Vec<_> =
            commits.iter().zip(&bounds).map(|(commit, bounds)| standing_in(commit.as_ref(), *bounds)).collect();
        let missing = tps.iter().zip(&starts).zip(&bounds).filter(|((_, starts), _)| starts.is_none());
        let missing: Vec<_> = missing.map(|((tp, _), bounds)| (*tp, start.from.offset(*bounds))).collect();
        if !missing.is_empty() {
            begin(missing).await?;
            continue;
        }
        let is_final = |(starts, before): (&Option<Offset>, &Bounds)| starts.is_some_and(|starts| starts >= before.end);
        let left = SWEPT.saturating_sub(start.known_for + begun.elapsed());
        if left.is_zero() || starts.iter().zip(&deletable).all(is_final) {
            return Ok(());
        }
        if !std::mem::replace(&mut announced, true) {
            notice!(
                "declared the group `{}`; waiting {} s for deletions in progress, which may pass its start position \
                 (if interrupted, the group stays declared: repeat the command)",
                start.group,
                left.as_secs() + 1
            );
        }
        sleep(SETTLE).await;
    }
}

/// Returns the commit of a group in a partition; `None` if there is none, or one outside of the log.
fn standing_in(commit: Option<&Commit>, bounds: Bounds) -> Option<Offset> {
    commit.map(|commit| commit.offset).filter(|offset| (bounds.start..=bounds.end).contains(offset))
}

impl From {
    fn offset(self, bounds: Bounds) -> Offset {
        match self {
            Self::Start => bounds.start,
            Self::End => bounds.end,
        }
    }
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
    use orbweaver_log::{Cleanup, MemoryLog, Record, TopicSpec};
    use orbweaver_messages::topic::DOCUMENTS;

    use super::*;

    const TP: TopicPartition = TopicPartition { topic: DOCUMENTS, partition: 0 };

    async fn five_documents() -> MemoryLog {
        let log = MemoryLog::new(&[TopicSpec::new(DOCUMENTS, 1, Cleanup::Delete)]);
        let record = Record { tp: TP, key: None, value: Some("{}".into()), headers: vec![], timestamp_ms: 0 };
        log.append(vec![record; 5]).await.unwrap();
        log
    }

    async fn commit(log: &MemoryLog, starts: Vec<(TopicPartition, Offset)>) {
        let mut member = log.consumer("indexer", &[DOCUMENTS]).unwrap();
        let commits = starts.into_iter().map(|(tp, offset)| (tp, Commit { offset, metadata: String::new() }));
        member.commit(commits.collect()).await.unwrap();
        member.close().await.unwrap();
    }

    /// Settles the start of a group while deletions that began earlier pass it. Returns its commit and the time that
    /// it took.
    async fn settled(from: From, known_for: Duration, deletions: &[Offset]) -> (Offset, Duration) {
        let (log, begun) = (five_documents().await, Instant::now());
        let mut deletions = deletions.iter();
        let begin = async |starts: Vec<(TopicPartition, Offset)>| {
            commit(&log, starts).await;
            if let Some(before) = deletions.next() {
                log.delete_below(TP, *before).await.unwrap();
            }
            Ok::<_, Failure>(())
        };
        settle(&log, &Start { group: "indexer", topics: &[DOCUMENTS], from, known_for }, begin).await.unwrap();
        let committed = log.committed("indexer", &[TP]).await.unwrap();
        (committed[0].as_ref().unwrap().offset, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_is_final_once_no_deletion_can_pass_it_any_more() {
        let (committed, took) = settled(From::Start, Duration::ZERO, &[2, 4]).await;
        assert!(committed == 4 && took >= SWEPT, "{committed} after {took:?}");
        // Only records older than the declaration may be deleted.
        let (committed, took) = settled(From::End, Duration::ZERO, &[]).await;
        assert!(committed == 5 && took < 2 * SETTLE, "{committed} after {took:?}");
        let (committed, took) = settled(From::Start, SWEPT, &[]).await;
        assert!(committed == 0 && took < SETTLE, "{committed} after {took:?}");
        let (_, took) = settled(From::Start, SWEPT / 2, &[]).await;
        assert!((SWEPT / 2..SWEPT).contains(&took), "{took:?}");
    }

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
