//! Detection of a complete crawl (docs/protocol.md#completion) from offsets alone: no counter, no vote, no coordinator.
//!
//! A record that is still to be produced has an incomplete cause upstream, which shows as a record between a commit
//! point and a log end. Two offset snapshots rule out that it moved past the first one: no log end may have moved
//! between them.

use std::collections::BTreeMap;
use std::time::Duration;

use orbweaver_log::{Log, LogError, Offset, TopicPartition, topic_partitions};
use orbweaver_messages::Topic;

/// Maximum time to search for a record between commit point and log end.
const LOOK: Duration = Duration::from_millis(500);

/// A group and a topic that it consumes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupTopic {
    pub group: String,
    pub topic: Topic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionOffsets {
    pub tp: TopicPartition,
    /// Log start: the first readable offset.
    pub start: Offset,
    /// Log end: the next offset to assign.
    pub end: Offset,
    /// Committed offset; `None` counts as the log start.
    pub committed: Option<Offset>,
    /// Whether the search found a record between commit point and log end (compaction can leave a gap without any), or
    /// records there were deleted before they were processed.
    pub records_left: bool,
}

impl PartitionOffsets {
    /// Returns the number of offsets between commit point and log end, an upper bound on the number of records there.
    #[must_use]
    pub fn lag(&self) -> u64 {
        self.end.saturating_sub(self.committed.unwrap_or(self.start).max(self.start))
    }

    /// Returns `true` if the log start is above the commit point: records between them were deleted.
    #[must_use]
    pub fn is_overtaken(&self) -> bool {
        self.committed.unwrap_or(0) < self.start
    }
}

/// Offset snapshot of all declared groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetSnapshot {
    /// One entry per declared pair, with the offsets of each partition.
    pub pairs: Vec<(GroupTopic, Vec<PartitionOffsets>)>,
}

/// Error while taking an offset snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadingError {
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The committed offset of a group is above the log end.
    #[error(
        "{tp}: the group `{group}` has committed {committed}, but the log ends at {end}: this is not the log that was \
         committed for"
    )]
    BeyondTheEnd {
        tp: TopicPartition,
        group: String,
        committed: Offset,
        /// Log end.
        end: Offset,
    },
}

impl OffsetSnapshot {
    /// Takes a snapshot. Log ends are read after commits: a record that completes in between only makes the lag look
    /// larger.
    pub async fn take(log: &dyn Log, declared: &[GroupTopic]) -> Result<Self, ReadingError> {
        let mut pairs = Vec::with_capacity(declared.len());
        // Whether some record is known to be left: then nothing is complete, and no further search is needed.
        let mut found = false;
        for pair in declared {
            let tps = topic_partitions(log, &[pair.topic])?;
            let commits = log.committed(&pair.group, &tps).await?;
            let mut standings = Vec::with_capacity(tps.len());
            let bounds = log.all_bounds(&tps).await?;
            for ((tp, commit), bounds) in tps.into_iter().zip(commits).zip(bounds) {
                let committed = commit.map(|commit| commit.offset);
                if let Some(committed) = committed.filter(|&committed| committed > bounds.end) {
                    let (group, end) = (pair.group.clone(), bounds.end);
                    return Err(ReadingError::BeyondTheEnd { tp, group, committed, end });
                }
                let mut standing =
                    PartitionOffsets { tp, start: bounds.start, end: bounds.end, committed, records_left: false };
                standing.records_left =
                    standing.is_overtaken() || standing.lag() > 0 && (found || holds_a_record(log, &standing).await?);
                found |= standing.records_left;
                standings.push(standing);
            }
            pairs.push((pair.clone(), standings));
        }
        Ok(Self { pairs })
    }

    /// Returns `true` if no declared group has a record left.
    #[must_use]
    pub fn is_caught_up(&self) -> bool {
        self.standings().all(|standing| !standing.records_left)
    }

    /// Returns `true` if the crawl was complete at `self`, the second of two snapshots: nothing left in both, and no
    /// log end moved between them. Pure. Snapshots of different declarations prove nothing.
    #[must_use]
    pub fn confirms_completion(&self, first: &Self) -> bool {
        self.confirms_quiescence(first, |_| false)
    }

    /// Returns `true` if nothing moved between `first` and `self`, the second of two snapshots, and nothing is left
    /// outside the excused partitions. Pure.
    #[must_use]
    pub fn confirms_quiescence(&self, first: &Self, excused: impl Fn(&PartitionOffsets) -> bool) -> bool {
        let is_left = |standing: &PartitionOffsets| standing.records_left && !excused(standing);
        let same = |(one, other): (&PartitionOffsets, &PartitionOffsets)| (one.tp, one.end) == (other.tp, other.end);
        self.standings().count() == first.standings().count()
            && !first.standings().chain(self.standings()).any(is_left)
            && first.standings().zip(self.standings()).all(same)
    }

    /// Returns the partitions whose records were deleted before they were processed, at `self`, the second of two
    /// snapshots. One snapshot is not enough: commit and deletion may have happened after its commits were read. Pure.
    pub fn overtaken_since<'a>(
        &'a self,
        first: &'a Self,
    ) -> impl Iterator<Item = (&'a GroupTopic, &'a PartitionOffsets)> {
        let all = |reading: &'a Self| reading.pairs.iter().flat_map(|(of, at)| at.iter().map(move |at| (of, at)));
        let before: BTreeMap<_, _> = all(first).map(|(of, at)| ((of, at.tp.partition), at)).collect();
        all(self).filter(move |(of, at)| {
            let before = before.get(&(*of, at.tp.partition));
            before.is_some_and(|before| before.is_overtaken() && before.committed == at.committed)
        })
    }

    /// Returns the number of records left per pair, an upper bound (compaction leaves gaps): for progress displays.
    pub fn lags(&self) -> impl Iterator<Item = (&GroupTopic, u64)> {
        self.pairs.iter().map(|(pair, standings)| (pair, standings.iter().map(PartitionOffsets::lag).sum()))
    }

    /// Sets the lag gauges.
    pub fn publish(&self, metrics: &crate::metrics::Metrics) {
        for (pair, lag) in self.lags() {
            metrics.lag(&pair.group, pair.topic.0).set(i64::try_from(lag).unwrap_or(i64::MAX));
        }
    }

    fn standings(&self) -> impl Iterator<Item = &PartitionOffsets> {
        self.pairs.iter().flat_map(|(_, standings)| standings)
    }
}

/// Returns `true` if there is a record between commit point and log end. Also if this cannot be determined: not in
/// time, or because the records were deleted during the search (the group has advanced since, and the next snapshot
/// will show it).
pub(crate) async fn holds_a_record(log: &dyn Log, standing: &PartitionOffsets) -> Result<bool, LogError> {
    let look = async {
        let from = standing.committed.unwrap_or(standing.start).max(standing.start);
        let mut reader = log.reader(standing.tp, from).await?;
        let records = reader.read(LOOK).await?;
        Ok(records.first().map_or(reader.position(), |record| record.offset) < standing.end)
    };
    match look.await {
        Err(LogError::OutOfRange { .. }) => Ok(true),
        looked => looked,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use orbweaver_log::{Cleanup, MemoryLog, Record, TopicSpec};
    use orbweaver_messages::topic;

    use super::*;

    fn reading(standings: &[(Offset, Option<Offset>)]) -> OffsetSnapshot {
        let declared = GroupTopic { group: "extractor".to_owned(), topic: topic::PAGES };
        let standings = standings.iter().zip(0..).map(|(&(end, committed), partition)| {
            let tp = TopicPartition::new(topic::PAGES, partition);
            let left = committed.unwrap_or(0) < end;
            PartitionOffsets { tp, start: 0, end, committed, records_left: left }
        });
        OffsetSnapshot { pairs: vec![(declared, standings.collect())] }
    }

    /// Returns a log with five records in the only partition of a topic.
    async fn five_records(topic: Topic) -> (MemoryLog, TopicPartition) {
        let log = MemoryLog::new(&[TopicSpec::new(topic, 1, Cleanup::Delete)]);
        let tp = TopicPartition::new(topic, 0);
        let record = Record { tp, key: None, value: Some(Bytes::new()), headers: vec![], timestamp_ms: 1 };
        log.append(vec![record; 5]).await.unwrap();
        (log, tp)
    }

    #[test]
    fn two_readings_prove_completion_if_nothing_is_left_in_either_and_no_end_moved_between_them() {
        let done = reading(&[(5, Some(5))]);
        let cases = [
            (reading(&[(5, Some(5)), (0, None)]), reading(&[(5, Some(5)), (0, None)]), true),
            (done.clone(), reading(&[(6, Some(6))]), false),
            (done.clone(), reading(&[(5, Some(4))]), false),
            (reading(&[(5, Some(4))]), done.clone(), false),
            // No commit counts as the log's start.
            (reading(&[(5, None)]), reading(&[(5, None)]), false),
            // Readings of different partitions.
            (done, reading(&[(5, Some(5)), (5, Some(5))]), false),
        ];
        for (first, second, is_proof) in cases {
            assert_eq!(second.confirms_completion(&first), is_proof, "{first:?} {second:?}");
        }
    }

    #[test]
    fn what_is_left_in_partitions_that_are_excused_may_stay_where_it_is() {
        let left = reading(&[(5, Some(4)), (7, Some(7))]);
        let first = |standing: &PartitionOffsets| standing.tp.partition == 0;
        assert!(left.confirms_quiescence(&left.clone(), first));
        assert!(!left.confirms_quiescence(&left.clone(), |standing| !first(standing)));
        let moved = reading(&[(6, Some(4)), (7, Some(7))]);
        assert!(!moved.confirms_quiescence(&left, first), "an end moved, excused or not");
    }

    #[tokio::test]
    async fn records_that_were_deleted_before_they_were_processed_are_never_complete() {
        let (log, tp) = five_records(topic::SEEDS).await;
        log.delete_below(tp, 5).await.unwrap();
        let declared = [GroupTopic { group: "normalizer-dedup".to_owned(), topic: topic::SEEDS }];
        let first = OffsetSnapshot::take(&log, &declared).await.unwrap();
        let second = OffsetSnapshot::take(&log, &declared).await.unwrap();
        assert!(!second.confirms_completion(&first));
        assert_eq!(
            second.overtaken_since(&first).map(|(of, at)| (of, at.start)).collect::<Vec<_>>(),
            [(&declared[0], 5)]
        );
        // A later commit shows that the deletion happened after it.
        let mut later = second;
        later.pairs[0].1[0].committed = Some(5);
        assert_eq!(later.overtaken_since(&first).count(), 0);
    }

    #[tokio::test]
    async fn what_is_deleted_while_one_looks_counts_as_left() {
        let (log, tp) = five_records(topic::PAGES).await;
        let seen = PartitionOffsets { tp, start: 0, end: 5, committed: Some(2), records_left: false };
        assert!(holds_a_record(&log, &seen).await.unwrap());
        log.delete_below(tp, 5).await.unwrap();
        assert!(holds_a_record(&log, &seen).await.unwrap(), "the next snapshot finds it caught up");
    }
}
