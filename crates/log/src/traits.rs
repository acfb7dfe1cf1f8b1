//! Traits of a log: [`Log`], [`Consumer`], [`Reader`].

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, ready};
use orbweaver_messages::{Millis, Topic};

use crate::{Commit, ConsumerRecord, LogError, Offset, Partition, Record, TopicPartition};

/// Readable range of a partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// First readable offset.
    pub start: Offset,
    /// Next offset to assign.
    pub end: Offset,
}

impl Bounds {
    /// Fails unless `offset` is readable or the log end.
    pub(crate) fn check(self, tp: TopicPartition, offset: Offset) -> Result<(), LogError> {
        let Self { start, end } = self;
        if (start..=end).contains(&offset) { Ok(()) } else { Err(LogError::OutOfRange { tp, offset, start, end }) }
    }
}

/// A log of partitioned topics. Cheap to share; all methods may be called concurrently.
pub trait Log: Send + Sync + 'static {
    /// Returns the number of partitions of a topic.
    fn partitions(&self, topic: Topic) -> Result<Partition, LogError>;

    /// Returns the maximum size of a record, as measured by [`Record::bytes`]; producers of unbounded records truncate
    /// to this. A dead letter may exceed it by [`DEAD_LETTER_ROOM`](crate::DEAD_LETTER_ROOM).
    fn record_limit(&self) -> usize;

    /// Appends records, in order within each partition. Resolves when all are acknowledged, with their offsets in the
    /// order of `records`. Records that the log cannot store are refused individually: [`LogError::Refused`] names
    /// them, and all others are appended and acknowledged. After any other error some records may have been appended;
    /// the caller must stop, and nothing that caused the records may complete.
    fn append(&self, records: Vec<Record>) -> BoxFuture<'_, Result<Vec<Offset>, LogError>>;

    /// Joins `group` as a consumer of `topics`. Assignments arrive as events of [`Consumer::poll`].
    fn consumer(&self, group: &str, topics: &[Topic]) -> Result<Box<dyn Consumer>, LogError>;

    /// Creates a reader of one partition, starting at `from`, by explicit assignment and outside of any group.
    fn reader(&self, tp: TopicPartition, from: Offset) -> BoxFuture<'_, Result<Box<dyn Reader>, LogError>>;

    /// Returns the log start and log end of a partition.
    fn bounds(&self, tp: TopicPartition) -> BoxFuture<'_, Result<Bounds, LogError>>;

    /// Returns [`Log::bounds`] of several partitions, in the order of `tps`: fewer round trips on a remote log.
    fn all_bounds<'a>(&'a self, tps: &'a [TopicPartition]) -> BoxFuture<'a, Result<Vec<Bounds>, LogError>> {
        Box::pin(async move {
            let mut bounds = Vec::with_capacity(tps.len());
            for tp in tps {
                bounds.push(self.bounds(*tp).await?);
            }
            Ok(bounds)
        })
    }

    /// Returns the offset of the first record created at or after `timestamp_ms`; the log end if there is none.
    fn offset_at(&self, tp: TopicPartition, timestamp_ms: Millis) -> BoxFuture<'_, Result<Offset, LogError>>;

    /// Returns a group's commits, one entry per topic-partition; `None` without a commit.
    fn committed<'a>(
        &'a self,
        group: &'a str,
        tps: &'a [TopicPartition],
    ) -> BoxFuture<'a, Result<Vec<Option<Commit>>, LogError>>;

    /// Deletes all records below `before`, immediately, later or by whole segments.
    fn delete_below(&self, tp: TopicPartition, before: Offset) -> BoxFuture<'_, Result<(), LogError>>;
}

/// Returns all topic-partitions of these topics.
pub fn topic_partitions(log: &dyn Log, topics: &[Topic]) -> Result<Vec<TopicPartition>, LogError> {
    let mut tps = vec![];
    for &topic in topics {
        tps.extend((0..log.partitions(topic)?).map(|partition| TopicPartition::new(topic, partition)));
    }
    Ok(tps)
}

/// Timeout per read of a record that must exist.
const READ_WAIT: Duration = Duration::from_secs(1);

/// Passes the records of a topic-partition from an offset, or from the log start if that is later, up to the log end to
/// `apply`. `bounds` are the current ones. Returns the offset at which reading continues.
///
/// # Errors
/// Fails if the log cannot be read; some records may have been applied.
pub async fn read_up_to(
    log: &dyn Log,
    tp: TopicPartition,
    from: Offset,
    bounds: Bounds,
    apply: impl FnMut(ConsumerRecord),
) -> Result<Offset, LogError> {
    let from = from.max(bounds.start);
    if from >= bounds.end {
        return Ok(from);
    }
    let (mut reader, mut apply) = (log.reader(tp, from).await?, apply);
    while reader.position() < bounds.end {
        reader.read(READ_WAIT).await?.into_iter().for_each(&mut apply);
    }
    Ok(reader.position())
}

/// Events returned by [`Consumer::poll`], in order.
#[derive(Debug)]
pub enum Event {
    /// Records, in order within each partition; never from a paused partition.
    Records(Vec<ConsumerRecord>),
    /// Assigned partitions. They deliver nothing until [`Consumer::start`] sets a position.
    Assigned(Vec<TopicPartition>),
    /// Revoked partitions: drain, commit, then call [`Consumer::release`]. They deliver nothing more.
    Revoked(Vec<TopicPartition>),
    /// Lost partitions; commits for them are refused.
    Lost(Vec<TopicPartition>),
}

/// A member of a consumer group.
pub trait Consumer: Send {
    /// Waits up to `max_wait` for the next event; `None` if there was none. Must be called continually, even while all
    /// partitions are paused. Cancel-safe: dropping the future loses nothing.
    fn poll(&mut self, max_wait: Duration) -> BoxFuture<'_, Result<Option<Event>, LogError>>;

    /// Starts or restarts delivery of an assigned partition at `from`.
    ///
    /// # Errors
    /// If the partition is not assigned or `from` is out of range. A log that must query its range may report the
    /// latter from the next [`Consumer::poll`] instead.
    fn start(&mut self, tp: TopicPartition, from: Offset) -> Result<(), LogError>;

    /// Pauses delivery from these partitions.
    fn pause(&mut self, tps: &[TopicPartition]) -> Result<(), LogError>;

    /// Resumes delivery from these partitions.
    fn resume(&mut self, tps: &[TopicPartition]) -> Result<(), LogError>;

    /// Commits; the future resolves when the log has accepted all commits. It borrows nothing, so that the consumer can be
    /// polled meanwhile. One at a time: call this again once the future has resolved or was dropped.
    fn commit(&mut self, commits: Vec<(TopicPartition, Commit)>) -> BoxFuture<'static, Result<(), LogError>>;

    /// Releases revoked partitions, in response to [`Event::Revoked`].
    fn release(&mut self, tps: &[TopicPartition]) -> Result<(), LogError>;

    /// Leaves the group, as dropping the consumer does. Does not commit. The future resolves when it has left.
    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), LogError>> {
        drop(self);
        ready(Ok(())).boxed()
    }
}

/// A reader of one partition, outside of any group.
pub trait Reader: Send {
    /// Returns the next records, in order. The batch is empty if none arrived within `max_wait`, or if only
    /// [`Reader::position`] advanced, over a gap at the log end. Offsets may skip (compaction).
    fn read(&mut self, max_wait: Duration) -> BoxFuture<'_, Result<Vec<ConsumerRecord>, LogError>>;

    /// Returns the offset at which the next call reads.
    fn position(&self) -> Offset;
}
