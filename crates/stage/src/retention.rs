//! Retention (docs/protocol.md#offsets): deletes records below the lowest commit point of all declared groups of their
//! topic, except those young enough to be read back. The pipeline's groups are declared in `schemas/topics`, those of
//! users and of active collectors in `crawl.control`; no other group counts. A topic for users is limited by time or
//! bytes while no group is declared for it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, future::BoxFuture, stream};
use orbweaver_log::{Bounds, Log, LogError, Offset, Partition, TopicPartition};
use orbweaver_messages::{LEASE_MS, Millis, Topic, topic};
use tokio::time::{Instant, timeout};

/// Time after which the average record size of a partition is measured again.
const MEASURE_EVERY: Duration = Duration::from_secs(600);
/// Number of log ends remembered per partition within its `keep_back` time.
const ENDS: u32 = 8;
/// Timeout for reading the records to be measured.
const MEASURE_WITHIN: Duration = Duration::from_secs(1);
/// Maximum number of topic-partitions swept concurrently: half of the queries that a log on Kafka makes at a time, so
/// that other queries are not delayed by partitions without a leader.
const AT_ONCE: usize = 4;
/// Timeout per topic-partition. Longer than a request may take by default, so that the broker's own error is reported.
const WITHIN: Duration = Duration::from_secs(20);

/// Failure to sweep some topic-partitions; all others were swept.
#[derive(Debug, thiserror::Error)]
#[error("records of {tps} topic-partitions could not be deleted; the first error: {first}")]
pub struct SweepError {
    /// Number of topic-partitions.
    pub tps: usize,
    #[source]
    pub first: LogError,
}

/// Result of [`Declarations::of`].
pub type DeclaredGroups<'a> = BoxFuture<'a, Result<Vec<String>, LogError>>;

/// Groups of users and of active collectors, which may be declared or removed at any time.
pub trait Declarations: Send + Sync + 'static {
    /// Returns the groups currently declared for a topic. Called again immediately before each deletion.
    fn of(&self, topic: Topic) -> DeclaredGroups<'_>;
}

/// Limit on a topic without declared groups. By default there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bound {
    /// Older records are deleted.
    pub age: Option<Duration>,
    /// Approximate size limit of the whole topic in bytes, before compression; the oldest records above it are deleted.
    pub bytes: Option<u64>,
}

/// A topic whose records are deleted once all declared groups have consumed them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicRetention {
    pub topic: Topic,
    /// Groups that retain its records, in addition to those of [`Declarations`]. Without any, `bound` applies.
    pub groups: Vec<String>,
    /// Younger records are kept, since a restore reads them back: one lease for `crawl.scheduled` and `crawl.outcomes`.
    /// The age of a record counts from the first sweep that found it, whatever its timestamp: clocks are set, and
    /// differ.
    pub keep_back: Duration,
    /// Limit without any group.
    pub bound: Bound,
}

impl TopicRetention {
    /// Returns the topics with retention in a single process that runs all services and these collectors: those with
    /// consumers or collectors. They include `crawl.frontier`: records below its commit point have ended, and a restore
    /// starts there.
    #[must_use]
    pub fn in_one_process<'a>(collectors: impl IntoIterator<Item = (&'a str, &'a [Topic])>) -> Vec<Self> {
        let collectors: Vec<_> = collectors.into_iter().collect();
        let read = |described: &&topic::TopicDescription| {
            let read = !described.consumers.is_empty() || !described.collectors.is_empty();
            read && (described.cleanup == topic::Cleanup::Delete || described.topic == topic::FRONTIER)
        };
        let expiring = |described: &topic::TopicDescription| {
            let mut expiring = Self::described(described);
            let collect = collectors.iter().filter(|(_, topics)| topics.contains(&described.topic));
            expiring.groups.extend(collect.map(|(group, _)| (*group).to_owned()));
            expiring
        };
        topic::topics().iter().filter(read).map(expiring).collect()
    }

    /// Returns the topics with retention in a cluster: those with consumers, and those for users, within this bound.
    /// Kafka deletes nothing from a compacted topic on request. Collectors count while they are declared.
    #[must_use]
    pub fn in_a_cluster(of_users: Bound) -> Vec<Self> {
        let read = |described: &&topic::TopicDescription| {
            (!described.consumers.is_empty() || described.users) && described.cleanup == topic::Cleanup::Delete
        };
        let expiring = |described: &topic::TopicDescription| {
            let bound = if described.users { of_users } else { Bound::default() };
            Self { bound, ..Self::described(described) }
        };
        topic::topics().iter().filter(read).map(expiring).collect()
    }

    fn described(described: &topic::TopicDescription) -> Self {
        let lease = Duration::from_millis(LEASE_MS.unsigned_abs());
        Self {
            topic: described.topic,
            groups: described.consumers.iter().map(ToString::to_string).collect(),
            keep_back: if described.is_read_back { lease } else { Duration::ZERO },
            bound: Bound::default(),
        }
    }
}

/// Deletes records that no declared group will read again. [`Retention::sweep`] must be called every few seconds.
pub struct Retention {
    log: Arc<dyn Log>,
    declarations: Option<Arc<dyn Declarations>>,
    topics: Vec<TopicRetention>,
    known: BTreeMap<TopicPartition, Known>,
}

/// State of a topic-partition between sweeps.
#[derive(Default)]
struct Known {
    /// Offset below which deletion was requested, so that a log that deletes whole segments does not receive the same
    /// request repeatedly.
    asked: Offset,
    /// Time of the last measurement of the average record size, and that size in bytes.
    measured: Option<(Millis, u64)>,
    /// Log ends, with the times at which they were read, if young records are kept.
    ends: VecDeque<(Millis, Offset)>,
}

/// Commits of all groups of a topic in one topic-partition.
type Commits = Vec<Option<Offset>>;

impl Retention {
    #[must_use]
    pub fn new(log: Arc<dyn Log>, topics: Vec<TopicRetention>) -> Self {
        Self { log, declarations: None, topics, known: BTreeMap::new() }
    }

    /// Sets the source of groups that also retain records.
    #[must_use]
    pub fn with_declarations(self, declarations: Arc<dyn Declarations>) -> Self {
        Self { declarations: Some(declarations), ..self }
    }

    /// Checks all partitions once and deletes records that are no longer needed. Returns the number of partitions with
    /// deletions. `now` is from a clock that never steps.
    ///
    /// # Errors
    /// When the log fails for some partitions; all others are swept, and the next call continues.
    pub async fn sweep(&mut self, now: Millis) -> Result<usize, SweepError> {
        // A missing topic is reported by `sweep_of`.
        let partitions = self.topics.iter().map(|expiring| self.log.partitions(expiring.topic).unwrap_or(1)).max();
        self.sweep_of(&(0..partitions.unwrap_or(0)).collect::<Vec<_>>(), now).await
    }

    /// Sweeps only these partitions of each topic. Several processes may sweep concurrently, even the same partition:
    /// each deletes only what the others would delete too, and nothing is deleted twice.
    pub async fn sweep_of(&mut self, partitions: &[Partition], now: Millis) -> Result<usize, SweepError> {
        let (mut swept, mut failed, mut first) = (0, 0, None);
        let begun = Instant::now();
        for expiring in &self.topics {
            let (log, declarations) = (&*self.log, self.declarations.as_deref());
            let mut sweep = Sweep { log, declarations, expiring, declared: vec![], now, begun };
            let tps = match within(expiring.topic, sweep.begin(partitions)).await {
                Ok(tps) => tps,
                Err(error) => {
                    failed += partitions.len();
                    first.get_or_insert(error);
                    continue;
                }
            };
            let sweep = &sweep;
            let sweeps: Vec<_> = tps
                .into_iter()
                .map(|(tp, commits)| {
                    let mut known = self.known.remove(&tp).unwrap_or_default();
                    async move {
                        let done = within(tp, sweep.tp(tp, &commits, &mut known)).await;
                        (tp, known, done)
                    }
                })
                .collect();
            let sweeps: Vec<_> = stream::iter(sweeps).buffer_unordered(AT_ONCE).collect().await;
            for (tp, known, done) in sweeps {
                self.known.insert(tp, known);
                match done {
                    Ok(deleted) => swept += usize::from(deleted),
                    Err(error) => {
                        failed += 1;
                        first.get_or_insert(error);
                    }
                }
            }
        }
        first.map_or(Ok(swept), |first| Err(SweepError { tps: failed, first }))
    }
}

/// Runs `work` with the timeout of a topic-partition; `what` names it.
async fn within<T>(
    what: impl std::fmt::Display,
    work: impl Future<Output = Result<T, LogError>>,
) -> Result<T, LogError> {
    match timeout(WITHIN, work).await {
        Ok(done) => done,
        Err(_) => Err(LogError::Unavailable(format!("{what} took longer than {WITHIN:?}"))),
    }
}

/// Sweep of a topic.
struct Sweep<'a> {
    log: &'a dyn Log,
    declarations: Option<&'a dyn Declarations>,
    expiring: &'a TopicRetention,
    /// Declared groups that are considered.
    declared: Vec<String>,
    /// Time at `begun`.
    now: Millis,
    begun: Instant,
}

impl Sweep<'_> {
    /// Reads the declared groups and all commits; returns those of `partitions` that exist.
    async fn begin(&mut self, partitions: &[Partition]) -> Result<Vec<(TopicPartition, Commits)>, LogError> {
        let topic = self.expiring.topic;
        let count = self.log.partitions(topic)?;
        self.declared = self.declared().await?;
        let existing = partitions.iter().filter(|&&partition| partition < count);
        let tps: Vec<_> = existing.map(|&partition| TopicPartition::new(topic, partition)).collect();
        let mut commits: Vec<Commits> = vec![vec![]; tps.len()];
        for group in self.expiring.groups.iter().chain(&self.declared) {
            let committed = self.log.committed(group, &tps).await?;
            for (of_place, commit) in commits.iter_mut().zip(committed) {
                of_place.push(commit.map(|commit| commit.offset));
            }
        }
        Ok(tps.into_iter().zip(commits).collect())
    }

    async fn declared(&self) -> Result<Vec<String>, LogError> {
        match self.declarations {
            Some(declarations) => declarations.of(self.expiring.topic).await,
            None => Ok(vec![]),
        }
    }

    /// Returns the current time: a sweep may take minutes.
    fn now(&self) -> Millis {
        self.now.saturating_add(millis(self.begun.elapsed()))
    }

    /// Sweeps a topic-partition. Returns `true` if records were deleted.
    async fn tp(&self, tp: TopicPartition, commits: &[Option<Offset>], known: &mut Known) -> Result<bool, LogError> {
        let bounds = self.log.bounds(tp).await?;
        let asked = known.asked.max(bounds.start);
        let old = known.old(bounds, self.expiring.keep_back, self.now());
        let before = match lowest_commit(commits, bounds).filter(|&done| done > asked) {
            Some(done) => Some(done.min(old)),
            None if commits.is_empty() => self.beyond(tp, bounds, known).await?,
            None => None,
        };
        let Some(before) = before.filter(|&before| before > asked) else { return Ok(false) };
        // Deletion is final: a group that was declared meanwhile may start below. The next sweep considers it.
        if self.declared().await? != self.declared {
            return Ok(false);
        }
        self.log.delete_below(tp, before).await?;
        known.asked = before;
        Ok(true)
    }

    /// Returns the offset below which a partition exceeds its age or size limit.
    async fn beyond(&self, tp: TopicPartition, bounds: Bounds, known: &mut Known) -> Result<Option<Offset>, LogError> {
        let (bound, partitions) = (self.expiring.bound, u64::from(self.log.partitions(tp.topic)?.max(1)));
        let too_old = match bound.age {
            Some(age) => Some(self.log.offset_at(tp, before(self.now(), age)).await?.min(bounds.end)),
            None => None,
        };
        let too_much = match bound.bytes {
            Some(bytes) if bounds.start < bounds.end => {
                let records = bytes / partitions / self.record_bytes(tp, bounds, known).await?.max(1);
                Some(bounds.end.saturating_sub(records))
            }
            _ => None,
        };
        Ok(too_old.max(too_much))
    }

    /// Returns the average record size of a partition in bytes, measured on some records in its middle.
    async fn record_bytes(&self, tp: TopicPartition, bounds: Bounds, known: &mut Known) -> Result<u64, LogError> {
        let now = self.now();
        if let Some((at, bytes)) = known.measured
            && (0..millis(MEASURE_EVERY)).contains(&now.saturating_sub(at))
        {
            return Ok(bytes);
        }
        let mut reader = self.log.reader(tp, bounds.start + (bounds.end - bounds.start) / 2).await?;
        let records = reader.read(MEASURE_WITHIN).await?;
        let bytes = records.iter().map(|record| record.bytes() as u64).sum::<u64>() / (records.len() as u64).max(1);
        if !records.is_empty() {
            known.measured = Some((now, bytes));
        }
        Ok(bytes)
    }
}

impl Known {
    /// Returns the log end as of `keep_back` ago, or the log start if it is not known. `bounds` were read before `now`.
    fn old(&mut self, bounds: Bounds, keep_back: Duration, now: Millis) -> Offset {
        if keep_back.is_zero() {
            return bounds.end;
        }
        let ends = &mut self.ends;
        if ends.back().is_none_or(|(at, _)| *at <= before(now, keep_back / ENDS)) {
            ends.push_back((now, bounds.end));
        }
        while ends.get(1).is_some_and(|(at, _)| *at <= before(now, keep_back)) {
            ends.pop_front();
        }
        let old = ends.front().filter(|(at, _)| *at <= before(now, keep_back));
        old.map_or(bounds.start, |(_, end)| *end)
    }
}

fn millis(time: Duration) -> Millis {
    Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX)
}

fn before(now: Millis, back: Duration) -> Millis {
    now.saturating_sub(millis(back))
}

/// Returns the offset below which all groups are done. `None` without groups, or while one has not committed or its
/// commit is outside the log: its owner has to halt on that, and deletion must not interfere. Pure.
fn lowest_commit(commits: &[Option<Offset>], bounds: Bounds) -> Option<Offset> {
    let lowest = commits.iter().copied().collect::<Option<Vec<Offset>>>()?.into_iter().min()?;
    (bounds.start..=bounds.end).contains(&lowest).then_some(lowest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_deleted_above_the_lowest_commit_point_of_all_groups() {
        let bounds = Bounds { start: 10, end: 100 };
        assert_eq!(lowest_commit(&[Some(50), Some(40), Some(90)], bounds), Some(40));
        assert_eq!(lowest_commit(&[Some(50), None], bounds), None, "one group has not begun");
        assert_eq!(lowest_commit(&[], bounds), None, "no reader is known");
        assert_eq!(lowest_commit(&[Some(101)], bounds), None, "a commit of another log");
        assert_eq!(lowest_commit(&[Some(9)], bounds), None);
    }

    #[test]
    fn a_cluster_keeps_documents_within_their_bound_and_one_process_as_long_as_its_exporter_needs_them() {
        let bound = Bound { age: Some(Duration::from_secs(60)), bytes: None };
        let exporter =
            topic::collectors().iter().map(|(group, topics)| (*group, &**topics)).filter(|of| of.0 == "exporter");
        let (one, many) = (TopicRetention::in_one_process(exporter), TopicRetention::in_a_cluster(bound));
        let of = |expiring: &[TopicRetention], topic| expiring.iter().find(|expiring| expiring.topic == topic).cloned();
        let documents = of(&one, topic::DOCUMENTS).map(|documents| documents.groups);
        assert_eq!(documents, Some(vec!["exporter".to_owned()]));
        let pages = of(&one, topic::PAGES).map(|pages| pages.groups);
        assert_eq!(pages, Some(vec!["extractor".to_owned()]), "no archiver runs");
        let documents = of(&many, topic::DOCUMENTS).map(|documents| (documents.groups, documents.bound));
        assert_eq!(documents, Some((vec![], bound)));
        let outcomes = |expiring| of(expiring, topic::OUTCOMES).map(|outcomes| outcomes.groups.len());
        assert_eq!(
            (outcomes(&one), outcomes(&many)),
            (Some(3), Some(2)),
            "a cluster's collector counts when it is declared"
        );
        let is_of_users = |topic| [topic::DOCUMENTS, topic::CHANGES].contains(&topic);
        assert!(many.iter().all(|expiring| is_of_users(expiring.topic) || expiring.bound == Bound::default()));
        let topics =
            |expiring: Vec<TopicRetention>| expiring.into_iter().map(|expiring| expiring.topic).collect::<Vec<_>>();
        let (one, many) = (topics(one), topics(many));
        assert!(one.contains(&topic::FRONTIER) && !many.contains(&topic::FRONTIER));
        for kept in [topic::SEEN, topic::SITES, topic::CONTROL, topic::DEAD_LETTERS] {
            assert!(!one.contains(&kept) && !many.contains(&kept), "{kept}");
        }
    }
}
