//! Declared consumer groups: changes of their declaration in `crawl.control`, and start positions from which records are
//! retained for them.

use std::time::Duration;

use orbweaver_log::{Bounds, Commit, Log, LogError, Offset, Record, TopicPartition, kafka::KafkaLog, topic_partitions};
use orbweaver_messages::{CONSUMERS_KEY, ConsumerGroups, Topic, encode, topic::CONTROL};
use orbweaver_scope::{Consumers, ControlRecord, DEFINITIONS_PARTITION};
use orbweaver_stage::{Clock as _, SystemClock};
use tokio::time::{Instant, sleep};

/// Timeout per read of a record that is known to exist.
const READ_WAIT: Duration = Duration::from_secs(1);
/// Maximum number of attempts at a change while others change the declaration at the same time.
const TRIES: u32 = 20;
/// Time after which all sweeps consider a new declaration (a quarter of a second and some margin).
const SETTLE: Duration = Duration::from_secs(1);
/// Time after which deletions have ended that began without considering a new declaration: 20 s per partition and
/// [`SETTLE`], and 15 s for a request that is still with a broker then.
const SWEPT: Duration = Duration::from_secs(36);

/// Failure to declare a group.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeclareError {
    #[error(transparent)]
    Log(#[from] LogError),
    /// Others change the declaration at the same time.
    #[error("other commands keep changing the declared groups; repeat the command")]
    Contended,
    /// The group is declared, but has no start position.
    #[error(
        "the group `{group}` is declared, but its start position cannot be committed: {error}; while it has members, only \
         they can commit: stop them, and repeat the command"
    )]
    Start { group: String, error: LogError },
}

/// Start position of a group in partitions without a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAt {
    /// The oldest retained record.
    Start,
    /// The log end.
    End,
}

impl StartAt {
    fn offset(self, bounds: Bounds) -> Offset {
        match self {
            Self::Start => bounds.start,
            Self::End => bounds.end,
        }
    }
}

/// Returns the declared groups.
pub async fn declared(log: &dyn Log) -> Result<Consumers, LogError> {
    let tp = TopicPartition::new(CONTROL, DEFINITIONS_PARTITION);
    let bounds = log.bounds(tp).await?;
    let mut consumers = Consumers::default();
    let mut reader = log.reader(tp, bounds.start).await?;
    while reader.position() < bounds.end {
        for record in reader.read(READ_WAIT).await? {
            record.check_readable()?;
            let (key, value) = (record.key.as_deref(), record.value.as_ref());
            consumers.read(ControlRecord { partition: tp.partition, offset: record.offset, key, value });
        }
    }
    Ok(consumers)
}

/// Declares a group: from now on its commits retain the records of these topics. Returns `false` if it was declared.
pub async fn declare(log: &dyn Log, group: &str, topics: &[Topic]) -> Result<bool, DeclareError> {
    let now = SystemClock.now();
    change(log, |consumers| consumers.with(group, topics, now)).await
}

/// Removes a declared group; returns `false` if it was not declared.
pub async fn remove(log: &dyn Log, group: &str) -> Result<bool, DeclareError> {
    change(log, |consumers| consumers.without(group)).await
}

/// Appends the declarations that `edit` returns, and repairs, until neither is needed. Returns `true` if `edit`
/// returned a declaration.
async fn change(log: &dyn Log, edit: impl Fn(&Consumers) -> Option<ConsumerGroups>) -> Result<bool, DeclareError> {
    let mut changed = false;
    for _ in 0..TRIES {
        let consumers = declared(log).await?;
        let wanted = edit(&consumers);
        changed |= wanted.is_some();
        let Some(groups) = wanted.or_else(|| consumers.next()) else { return Ok(changed) };
        let tp = TopicPartition::new(CONTROL, DEFINITIONS_PARTITION);
        let record = Record::new(tp, Some(CONSUMERS_KEY.into()), Some(encode(&groups)), SystemClock.now());
        log.append(vec![record]).await?;
    }
    Err(DeclareError::Contended)
}

/// Declares a group, and commits its start position where it has none. Returns once no deletion can pass it, which may
/// take 36 s; `announce` is called with the remaining time before a wait.
///
/// # Errors
/// If a start position is missing, and the group has members.
pub async fn retain(
    log: &KafkaLog,
    group: &str,
    topics: &[Topic],
    at: StartAt,
    announce: impl Fn(Duration),
) -> Result<(), DeclareError> {
    let known_for = if declare(log, group, topics).await? { Duration::ZERO } else { known_for(log, group).await? };
    let begin = |starts: Vec<(TopicPartition, Offset)>| async move {
        log.begin_group(group, starts).await.map_err(|error| DeclareError::Start { group: group.to_owned(), error })
    };
    settle(log, &Start { group, topics, at, known_for }, begin, announce).await
}

/// Returns the time since which a group has been declared.
async fn known_for(log: &dyn Log, group: &str) -> Result<Duration, LogError> {
    let declared = declared(log).await?;
    let at = declared.groups().iter().find(|known| known.group == group).map(|known| known.declared_at_ms);
    let elapsed = at.map_or(0, |at| SystemClock.now().saturating_sub(at));
    Ok(Duration::from_millis(u64::try_from(elapsed).unwrap_or_default()))
}

/// Start of a declared group.
struct Start<'a> {
    group: &'a str,
    topics: &'a [Topic],
    at: StartAt,
    /// Time since which it has been declared.
    known_for: Duration,
}

/// Commits the start of a declared group with `begin`, until no deletion can pass it. Until its start is committed, the
/// group retains everything, except from a sweep that has read the declarations before: that one deletes at most the
/// records that existed when it read them.
async fn settle<F: Future<Output = Result<(), DeclareError>>>(
    log: &dyn Log,
    start: &Start<'_>,
    mut begin: impl FnMut(Vec<(TopicPartition, Offset)>) -> F,
    announce: impl Fn(Duration),
) -> Result<(), DeclareError> {
    let begun = Instant::now();
    let tps = topic_partitions(log, start.topics)?;
    let mut announced = false;
    if start.known_for < SWEPT {
        sleep(SETTLE).await;
    }
    let deletable = log.all_bounds(&tps).await?;
    loop {
        let commits = log.committed(start.group, &tps).await?;
        let bounds = log.all_bounds(&tps).await?;
        let starts: Vec<_> =
            commits.iter().zip(&bounds).map(|(commit, bounds)| standing_in(commit.as_ref(), *bounds)).collect();
        let missing = tps.iter().zip(&starts).zip(&bounds).filter(|((_, starts), _)| starts.is_none());
        let missing: Vec<_> = missing.map(|((tp, _), bounds)| (*tp, start.at.offset(*bounds))).collect();
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
            announce(left);
        }
        sleep(SETTLE).await;
    }
}

/// Returns the commit of a group in a partition; `None` if there is none, or one outside of the log.
fn standing_in(commit: Option<&Commit>, bounds: Bounds) -> Option<Offset> {
    commit.map(|commit| commit.offset).filter(|offset| (bounds.start..=bounds.end).contains(offset))
}

#[cfg(test)]
mod tests {
    use orbweaver_log::{Cleanup, MemoryLog, TopicSpec};
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

    /// Settles the start of a group while deletions that began earlier pass it. Returns its commit and the duration.
    async fn settled(at: StartAt, known_for: Duration, deletions: &[Offset]) -> (Offset, Duration) {
        let (log, begun) = (five_documents().await, Instant::now());
        let mut deletions = deletions.iter();
        let begin = |starts: Vec<(TopicPartition, Offset)>| {
            let (log, before) = (log.clone(), deletions.next().copied());
            async move {
                commit(&log, starts).await;
                if let Some(before) = before {
                    log.delete_below(TP, before).await.unwrap();
                }
                Ok(())
            }
        };
        settle(&log, &Start { group: "indexer", topics: &[DOCUMENTS], at, known_for }, begin, |_| {}).await.unwrap();
        let committed = log.committed("indexer", &[TP]).await.unwrap();
        (committed[0].as_ref().unwrap().offset, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_is_final_once_no_deletion_can_pass_it_any_more() {
        let (committed, took) = settled(StartAt::Start, Duration::ZERO, &[2, 4]).await;
        assert!(committed == 4 && took >= SWEPT, "{committed} after {took:?}");
        // Only records older than the declaration may be deleted.
        let (committed, took) = settled(StartAt::End, Duration::ZERO, &[]).await;
        assert!(committed == 5 && took < 2 * SETTLE, "{committed} after {took:?}");
        let (committed, took) = settled(StartAt::Start, SWEPT, &[]).await;
        assert!(committed == 0 && took < SETTLE, "{committed} after {took:?}");
        let (_, took) = settled(StartAt::Start, SWEPT / 2, &[]).await;
        assert!((SWEPT / 2..SWEPT).contains(&took), "{took:?}");
    }
}
