//! What a log can do.

use std::time::Duration;

use futures::future::BoxFuture;
use orbweaver_messages::{Millis, Topic};

use crate::{Commit, Delivered, LogError, Offset, Partition, Record, TopicPartition};

/// What a partition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The first offset that may still be read.
    pub start: Offset,
    /// The offset that the next record gets.
    pub end: Offset,
}

/// A log of topics in partitions. Cheap to share; every method may be called from many tasks.
pub trait Log: Send + Sync + 'static {
    /// The number of partitions of a topic.
    ///
    /// # Errors
    /// When there is no such topic.
    fn partitions(&self, topic: Topic) -> Result<Partition, LogError>;

    /// The largest record that is taken, by [`Record::bytes`]: whoever writes a record of any length cuts it to this. A dead
    /// letter may be larger by [`DEAD_LETTER_ROOM`](crate::DEAD_LETTER_ROOM).
    fn record_limit(&self) -> usize;

    /// Appends records, in order within each partition. Resolves when all are acknowledged, with their offsets in the
    /// order of `records`. A record that the log cannot take is refused by itself: [`LogError::Refused`] says which, and all
    /// others are appended and acknowledged then. On any other error some may have been appended, and the caller ends: nothing
    /// that they caused completes.
    fn append(&self, records: Vec<Record>) -> BoxFuture<'_, Result<Vec<Offset>, LogError>>;

    /// Joins `group` as a consumer of `topics`. What it is given arrives as events of [`Consumer::poll`].
    ///
    /// # Errors
    /// When a topic is unknown, or the group cannot be joined.
    fn consumer(&self, group: &str, topics: &[Topic]) -> Result<Box<dyn Consumer>, LogError>;

    /// Reads one partition by explicit assignment, outside of any group, from `from` on.
    fn reader(&self, place: TopicPartition, from: Offset) -> BoxFuture<'_, Result<Box<dyn Reader>, LogError>>;

    /// First and next offset of a partition.
    fn bounds(&self, place: TopicPartition) -> BoxFuture<'_, Result<Bounds, LogError>>;

    /// [`Log::bounds`] of many places, in their order: fewer round trips where a log is far away.
    fn all_bounds<'a>(&'a self, places: &'a [TopicPartition]) -> BoxFuture<'a, Result<Vec<Bounds>, LogError>> {
        Box::pin(async move {
            let mut bounds = Vec::with_capacity(places.len());
            for place in places {
                bounds.push(self.bounds(*place).await?);
            }
            Ok(bounds)
        })
    }

    /// The offset of the first record made at or after `timestamp_ms`; the end when there is none.
    fn offset_at(&self, place: TopicPartition, timestamp_ms: Millis) -> BoxFuture<'_, Result<Offset, LogError>>;

    /// What a group has committed, one entry a place; `None` where it never did.
    fn committed<'a>(
        &'a self,
        group: &'a str,
        places: &'a [TopicPartition],
    ) -> BoxFuture<'a, Result<Vec<Option<Commit>>, LogError>>;

    /// Gives up all records below `before`. They may go at once, later, or by whole segments.
    fn delete_below(&self, place: TopicPartition, before: Offset) -> BoxFuture<'_, Result<(), LogError>>;
}

/// What a consumer is told, in order.
#[derive(Debug)]
pub enum Event {
    /// Records, in order within each partition. Never of a paused partition.
    Records(Vec<Delivered>),
    /// These partitions are ours from now on. They deliver nothing until [`Consumer::start`] says from where.
    Assigned(Vec<TopicPartition>),
    /// These are wanted back: finish, commit, then [`Consumer::hand_back`]. They deliver nothing more.
    Revoked(Vec<TopicPartition>),
    /// These are gone; nothing may be committed for them.
    Lost(Vec<TopicPartition>),
}

/// A member of a consumer group.
pub trait Consumer: Send {
    /// Waits for the next event, `max_wait` at most; `None` when there was none. Must be called again and again, also
    /// while everything is paused. Dropping the future before it resolves loses nothing.
    fn poll(&mut self, max_wait: Duration) -> BoxFuture<'_, Result<Option<Event>, LogError>>;

    /// Begins (or begins anew) to deliver an assigned partition, from `from` on.
    ///
    /// # Errors
    /// When it is not assigned, or `from` is out of range. A log that has to ask for its range may tell that at the next
    /// [`Consumer::poll`] instead.
    fn start(&mut self, place: TopicPartition, from: Offset) -> Result<(), LogError>;

    /// Stops delivering from these partitions until they are resumed.
    ///
    /// # Errors
    /// When one is not assigned.
    fn pause(&mut self, places: &[TopicPartition]) -> Result<(), LogError>;

    /// Delivers from these partitions again.
    ///
    /// # Errors
    /// When one is not assigned.
    fn resume(&mut self, places: &[TopicPartition]) -> Result<(), LogError>;

    /// Commits; resolves when the log has accepted all of them.
    fn commit(&mut self, commits: Vec<(TopicPartition, Commit)>) -> BoxFuture<'_, Result<(), LogError>>;

    /// Answers [`Event::Revoked`]: these are no longer ours.
    ///
    /// # Errors
    /// When the log failed.
    fn hand_back(&mut self, places: &[TopicPartition]) -> Result<(), LogError>;

    /// Leaves the group. Commit before.
    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), LogError>>;
}

/// Reads one partition outside of any group.
pub trait Reader: Send {
    /// The next records, in order; an empty batch when none came within `max_wait`, or when only [`Reader::position`] moved
    /// on, over a gap at the end. Offsets may skip (compaction).
    fn read(&mut self, max_wait: Duration) -> BoxFuture<'_, Result<Vec<Delivered>, LogError>>;

    /// The offset from which the next call reads.
    fn position(&self) -> Offset;
}
