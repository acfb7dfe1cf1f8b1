//! Retention (docs/protocol.md#offsets): deletes records below the lowest commit point of all declared groups of their
//! topic, except those young enough to be read back. The pipeline's groups are declared in `schemas/topics`, those of
//! users and of active collectors in `crawl.control`; no other group counts. A topic for users is limited by time or
//! bytes while no group is declared for it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use orbweaver_log::{Bounds, Delivered, Log, LogError, Offset, Partition, TopicPartition};
use orbweaver_messages::{LEASE_MS, Millis, Topic, topic};

/// Time after which the average record size of a partition is measured again.
const MEASURE_EVERY: Duration = Duration::from_secs(600);
/// Number of log ends remembered per partition within its `keep_back` time.
const ENDS: u32 = 8;
/// Timeout for reading the records to be measured.
const MEASURE_WITHIN: Duration = Duration::from_secs(1);

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
pub struct Expiring {
    /// Topic.
    pub topic: Topic,
    /// Groups that retain its records, in addition to those of [`Retention::declare`]. Without any, `bound` applies.
    pub groups: Vec<String>,
    /// Younger records are kept, since a restore reads them back: one lease for `crawl.scheduled` and `crawl.outcomes`.
    /// The age of a record counts from the first sweep that found it, whatever its timestamp: clocks are set, and
    /// differ.
    pub keep_back: Duration,
    /// Limit without any group.
    pub bound: Bound,
}

impl Expiring {
    /// Returns the topics with retention in a single process that runs all services: those with consumers or
    /// collectors. They include `crawl.frontier`: records below its commit point have ended, and a restore starts
    /// there.
    #[must_use]
    pub fn in_one_process() -> Vec<Self> {
        let read = |described: &&topic::TopicDescription| {
            let read = !described.consumers.is_empty() || !described.collectors.is_empty();
            read && (described.cleanup == topic::Cleanup::Delete || described.topic == topic::FRONTIER)
        };
        let expiring = |described: &topic::TopicDescription| {
            let groups = described.consumers.iter().chain(&described.collectors).cloned().collect();
            Self { groups, ..Self::described(described) }
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
            groups: described.consumers.clone(),
            keep_back: described.read_back.map_or(Duration::ZERO, |_| lease),
            bound: Bound::default(),
        }
    }
}

/// Deletes records that no declared group will read again. [`Retention::sweep`] must be called every few seconds.
pub struct Retention {
    log: Arc<dyn Log>,
    topics: Vec<Expiring>,
    declared: BTreeMap<Topic, Vec<String>>,
    /// Offsets below which deletion was requested, so that a log that deletes whole segments does not receive the same
    /// request repeatedly.
    asked: BTreeMap<TopicPartition, Offset>,
    /// Time of the last measurement of a partition's average record size, and that size in bytes.
    measured: BTreeMap<TopicPartition, (Millis, u64)>,
    /// Log ends of partitions whose young records are kept, with the times of the sweeps that read them.
    ends: BTreeMap<TopicPartition, VecDeque<(Millis, Offset)>>,
}

impl Retention {
    /// Creates the retention of `topics` on `log`.
    #[must_use]
    pub fn new(log: Arc<dyn Log>, topics: Vec<Expiring>) -> Self {
        let (declared, asked, measured) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { log, topics, declared, asked, measured, ends: BTreeMap::new() }
    }

    /// Sets the groups that also retain records of these topics, replacing previously declared ones.
    pub fn declare(&mut self, declared: BTreeMap<Topic, Vec<String>>) {
        self.declared = declared;
    }

    /// Checks all partitions once and deletes records that are no longer needed. Returns the number of partitions with
    /// deletions. `now` is from a clock that never steps.
    ///
    /// # Errors
    /// When the log fails; the next call continues.
    pub async fn sweep(&mut self, now: Millis) -> Result<usize, LogError> {
        let mut partitions = 0;
        for expiring in &self.topics {
            partitions = partitions.max(self.log.partitions(expiring.topic)?);
        }
        self.sweep_of(&(0..partitions).collect::<Vec<_>>(), now).await
    }

    /// Sweeps only these partitions of each topic. Several processes may sweep concurrently, even the same partition:
    /// each deletes only what the others would delete too, and nothing is deleted twice.
    ///
    /// # Errors
    /// When the log fails; the next call continues.
    pub async fn sweep_of(&mut self, partitions: &[Partition], now: Millis) -> Result<usize, LogError> {
        let mut swept = 0;
        for expiring in self.topics.clone() {
            let count = self.log.partitions(expiring.topic)?;
            let existing = partitions.iter().filter(|&&partition| partition < count);
            let places: Vec<_> = existing.map(|&partition| TopicPartition::new(expiring.topic, partition)).collect();
            let mut commits: Vec<Vec<Option<Offset>>> = vec![vec![]; places.len()];
            let declared = self.declared.get(&expiring.topic).into_iter().flatten();
            for group in expiring.groups.iter().chain(declared) {
                let committed = self.log.committed(group, &places).await?;
                for (of_place, commit) in commits.iter_mut().zip(committed) {
                    of_place.push(commit.map(|commit| commit.offset));
                }
            }
            for (place, commits) in places.into_iter().zip(commits) {
                let bounds = self.log.bounds(place).await?;
                let asked = self.asked.get(&place).copied().unwrap_or(bounds.start);
                let old = self.old(place, bounds, expiring.keep_back, now);
                let before = match worked_off(&commits, bounds).filter(|&done| done > asked) {
                    Some(done) => Some(done.min(old)),
                    None if commits.is_empty() => self.beyond(place, bounds, share(expiring.bound, count), now).await?,
                    None => None,
                };
                if let Some(before) = before.filter(|&before| before > asked) {
                    self.log.delete_below(place, before).await?;
                    self.asked.insert(place, before);
                    swept += 1;
                }
            }
        }
        Ok(swept)
    }

    /// Returns the log end of a partition as of `keep_back` ago, or the log start if it is not known.
    fn old(&mut self, place: TopicPartition, bounds: Bounds, keep_back: Duration, now: Millis) -> Offset {
        if keep_back.is_zero() {
            return bounds.end;
        }
        let ends = self.ends.entry(place).or_default();
        if ends.back().is_none_or(|(at, _)| *at <= before(now, keep_back / ENDS)) {
            ends.push_back((now, bounds.end));
        }
        while ends.get(1).is_some_and(|(at, _)| *at <= before(now, keep_back)) {
            ends.pop_front();
        }
        let old = ends.front().filter(|(at, _)| *at <= before(now, keep_back));
        old.map_or(bounds.start, |(_, end)| *end)
    }

    /// Returns the offset below which a partition exceeds its age or size limit.
    async fn beyond(
        &mut self,
        place: TopicPartition,
        bounds: Bounds,
        bound: Bound,
        now: Millis,
    ) -> Result<Option<Offset>, LogError> {
        let too_old = match bound.age {
            Some(age) => Some(self.log.offset_at(place, before(now, age)).await?.min(bounds.end)),
            None => None,
        };
        let too_much = match bound.bytes {
            Some(bytes) if bounds.start < bounds.end => {
                let records = bytes / self.record_bytes(place, bounds, now).await?.max(1);
                Some(bounds.end.saturating_sub(records))
            }
            _ => None,
        };
        Ok(too_old.max(too_much))
    }

    /// Returns the average record size of a partition in bytes, measured on some records in its middle.
    async fn record_bytes(&mut self, place: TopicPartition, bounds: Bounds, now: Millis) -> Result<u64, LogError> {
        let every = Millis::try_from(MEASURE_EVERY.as_millis()).unwrap_or(Millis::MAX);
        if let Some((at, bytes)) = self.measured.get(&place)
            && (0..every).contains(&now.saturating_sub(*at))
        {
            return Ok(*bytes);
        }
        let mut reader = self.log.reader(place, bounds.start + (bounds.end - bounds.start) / 2).await?;
        let records = reader.read(MEASURE_WITHIN).await?;
        let bytes = records.iter().map(bytes).sum::<u64>() / (records.len() as u64).max(1);
        if !records.is_empty() {
            self.measured.insert(place, (now, bytes));
        }
        Ok(bytes)
    }
}

fn before(now: Millis, back: Duration) -> Millis {
    now.saturating_sub(Millis::try_from(back.as_millis()).unwrap_or(Millis::MAX))
}

/// Returns the share of a bound for one of `partitions` partitions.
fn share(bound: Bound, partitions: Partition) -> Bound {
    Bound { bytes: bound.bytes.map(|bytes| bytes / u64::from(partitions.max(1))), ..bound }
}

fn bytes(record: &Delivered) -> u64 {
    let headers: usize = record.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    let length = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, bytes::Bytes::len);
    (length(&record.key) + length(&record.value) + headers) as u64
}

/// Returns the offset below which all groups are done. `None` without groups, or while one has not committed or its
/// commit is outside the log: its owner has to halt on that, and deletion must not interfere. Pure.
fn worked_off(commits: &[Option<Offset>], bounds: Bounds) -> Option<Offset> {
    let lowest = commits.iter().copied().collect::<Option<Vec<Offset>>>()?.into_iter().min()?;
    (bounds.start..=bounds.end).contains(&lowest).then_some(lowest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_deleted_above_the_lowest_commit_point_of_all_groups() {
        let bounds = Bounds { start: 10, end: 100 };
        assert_eq!(worked_off(&[Some(50), Some(40), Some(90)], bounds), Some(40));
        assert_eq!(worked_off(&[Some(50), None], bounds), None, "one group has not begun");
        assert_eq!(worked_off(&[], bounds), None, "nobody is known to read it");
        assert_eq!(worked_off(&[Some(101)], bounds), None, "a commit of another log");
        assert_eq!(worked_off(&[Some(9)], bounds), None);
    }

    #[test]
    fn a_cluster_keeps_documents_within_their_bound_and_one_process_as_long_as_its_exporter_needs_them() {
        let bound = Bound { age: Some(Duration::from_secs(60)), bytes: None };
        let (one, many) = (Expiring::in_one_process(), Expiring::in_a_cluster(bound));
        let of = |expiring: &[Expiring], topic| expiring.iter().find(|expiring| expiring.topic == topic).cloned();
        let documents = of(&one, topic::DOCUMENTS).map(|documents| documents.groups);
        assert_eq!(documents, Some(vec!["exporter".to_owned()]));
        let documents = of(&many, topic::DOCUMENTS).map(|documents| (documents.groups, documents.bound));
        assert_eq!(documents, Some((vec![], bound)));
        let outcomes = |expiring| of(expiring, topic::OUTCOMES).map(|outcomes| outcomes.groups.len());
        assert_eq!(
            (outcomes(&one), outcomes(&many)),
            (Some(3), Some(2)),
            "a cluster's collector counts when it is declared"
        );
        assert!(many.iter().all(|expiring| expiring.topic == topic::DOCUMENTS || expiring.bound == Bound::default()));
        let topics = |expiring: Vec<Expiring>| expiring.into_iter().map(|expiring| expiring.topic).collect::<Vec<_>>();
        let (one, many) = (topics(one), topics(many));
        assert!(one.contains(&topic::FRONTIER) && !many.contains(&topic::FRONTIER));
        for kept in [topic::SEEN, topic::SITES, topic::CONTROL, topic::DEAD_LETTERS] {
            assert!(!one.contains(&kept) && !many.contains(&kept), "{kept}");
        }
    }
}
