//! In-memory log for tests and the simulation: it gives the guarantees of the traits, and fails as scripted.
//!
//! By default it behaves like the embedded log: the first consumer of a group is assigned all partitions, and a second
//! one is refused. With [`MemoryLog::scripted`] a group accepts any number of members, numbered from 0 in the order of
//! joining; [`MemoryLog::assign`], [`MemoryLog::revoke`] and [`MemoryLog::lose`] set their assignments and so simulate
//! rebalances. [`MemoryLog::script_append`] and [`MemoryLog::script_commit`] make calls fail,
//! [`MemoryLog::hold_appends`] delays acknowledgements. Time is tokio's, so a paused clock works.

mod consumer;
mod reader;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, FutureExt, ready};
use orbweaver_messages::{Millis, Topic};
use tokio::sync::watch;

use crate::{
    Bounds, Commit, Consumer, ConsumerRecord, Event, Log, LogError, Offset, Partition, Reader, Record, TopicPartition,
    TopicSpec,
};
use consumer::MemoryConsumer;
use reader::MemoryReader;
use state::{AssignedPartition, State};

/// Scripted result of an append or commit.
#[derive(Debug)]
pub enum ScriptedResult {
    /// The call succeeds.
    Pass,
    /// The call takes effect for the first `after` entries, then fails.
    Fail {
        /// Number of entries that take effect.
        after: usize,
        error: LogError,
    },
}

/// An in-memory log. Cheap to clone; clones share one log, so a test keeps one to control what a stage uses.
#[derive(Clone)]
pub struct MemoryLog {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// `true` while acknowledgements are withheld.
    held: watch::Sender<bool>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryLog {
    /// Creates a log that assigns all partitions of a group to its only consumer.
    #[must_use]
    pub fn new(specs: &[TopicSpec]) -> Self {
        Self::with(State::new(specs, false))
    }

    /// Creates a log whose groups accept many members; each is assigned only the partitions that the script sets,
    /// initially none.
    #[must_use]
    pub fn scripted(specs: &[TopicSpec]) -> Self {
        Self::with(State::new(specs, true))
    }

    fn with(state: State) -> Self {
        let shared = Shared { state: Mutex::new(state), held: watch::Sender::new(false) };
        Self { shared: Arc::new(shared) }
    }

    #[must_use]
    pub fn with_record_limit(self, bytes: usize) -> Self {
        self.shared.state().record_limit = bytes;
        self
    }

    /// Assigns partitions to member `member` of `group`, which receives [`Event::Assigned`]. A previous owner receives
    /// no event (for that, call [`MemoryLog::lose`]), but its commits are refused from now on, like those of a
    /// suspended member.
    pub fn assign(&self, group: &str, member: usize, tps: &[TopicPartition]) -> Result<(), LogError> {
        let mut state = self.shared.state();
        for tp in tps {
            state.partition(*tp)?;
        }
        state.member(group, member)?;
        state.fence(group, tps);
        let taken = state.member(group, member)?;
        taken.held.extend(tps.iter().map(|tp| (*tp, AssignedPartition::default())));
        taken.queue(Event::Assigned(tps.to_vec()));
        Ok(())
    }

    /// Commits as member `member` of `group`, like its consumer.
    pub fn commit_as(
        &self,
        group: &str,
        member: usize,
        commits: Vec<(TopicPartition, Commit)>,
    ) -> Result<(), LogError> {
        self.shared.state().commit(group, member, commits)
    }

    /// Revokes partitions of member `member` of `group`; they deliver nothing from now on.
    pub fn revoke(&self, group: &str, member: usize, tps: &[TopicPartition]) -> Result<(), LogError> {
        let mut state = self.shared.state();
        let member = state.member(group, member)?;
        for tp in tps {
            member.held.get_mut(tp).ok_or(LogError::NotAssigned(*tp))?.revoked = true;
        }
        member.queue(Event::Revoked(tps.to_vec()));
        Ok(())
    }

    /// Takes partitions from member `member` of `group` immediately; commits for them are refused.
    pub fn lose(&self, group: &str, member: usize, tps: &[TopicPartition]) -> Result<(), LogError> {
        let mut state = self.shared.state();
        let member = state.member(group, member)?;
        for tp in tps {
            member.held.remove(tp);
        }
        member.queue(Event::Lost(tps.to_vec()));
        Ok(())
    }

    /// Fences all partitions of member `member` of `group` without an event, as at the end of its session. Its commits
    /// are refused from now on, although it still reads.
    pub fn expel(&self, group: &str, member: usize) -> Result<(), LogError> {
        self.shared.state().member(group, member)?.held.values_mut().for_each(|held| held.fenced = true);
        Ok(())
    }

    /// Returns the partitions of member `member` of `group`, sorted; revoked ones until released, no fenced ones.
    #[must_use]
    pub fn held(&self, group: &str, member: usize) -> Vec<TopicPartition> {
        let mut state = self.shared.state();
        let Ok(member) = state.member(group, member) else { return vec![] };
        member.held.iter().filter(|(_, held)| !held.fenced).map(|(tp, _)| *tp).collect()
    }

    /// Returns whether member `member` of `group` has received all its assignment events; `false` after it left.
    #[must_use]
    pub fn has_received(&self, group: &str, member: usize) -> bool {
        self.shared.state().member(group, member).is_ok_and(|member| member.events.is_empty())
    }

    /// Scripts the next append without a scripted result.
    pub fn script_append(&self, fate: ScriptedResult) {
        self.shared.state().append_fates.push_back(fate);
    }

    /// Scripts the next commit without a scripted result.
    pub fn script_commit(&self, fate: ScriptedResult) {
        self.shared.state().commit_fates.push_back(fate);
    }

    /// While `hold` is set, appends take effect but are not acknowledged.
    pub fn hold_appends(&self, hold: bool) {
        self.shared.held.send_replace(hold);
    }

    /// Returns all records of a partition, for assertions; none for an unknown partition.
    #[must_use]
    pub fn records(&self, tp: TopicPartition) -> Vec<ConsumerRecord> {
        self.shared.state().partition(tp).map(|found| found.records.iter().cloned().collect()).unwrap_or_default()
    }

    /// Compacts a partition fully: keeps the last record of each key, and no tombstones.
    pub fn compact(&self, tp: TopicPartition) -> Result<(), LogError> {
        self.compact_below(tp, Offset::MAX, Offset::MAX)
    }

    /// Compacts a partition like a log with `min.compaction.lag.ms` and `delete.retention.ms`: keeps the last record of
    /// each key below `before`, everything from `before` on, and only tombstones from `tombstones_before` on.
    pub fn compact_below(&self, tp: TopicPartition, before: Offset, tombstones_before: Offset) -> Result<(), LogError> {
        self.shared.state().partition(tp)?.compact(before, tombstones_before);
        Ok(())
    }
}

impl Log for MemoryLog {
    fn partitions(&self, topic: Topic) -> Result<Partition, LogError> {
        self.shared.state().partitions(topic)
    }

    fn record_limit(&self) -> usize {
        self.shared.state().record_limit
    }

    fn append(&self, records: Vec<Record>) -> BoxFuture<'_, Result<Vec<Offset>, LogError>> {
        let result = self.shared.state().append(records);
        let mut held = self.shared.held.subscribe();
        async move {
            // `self` owns the sender, so waiting cannot fail.
            let _ = held.wait_for(|held| !held).await;
            result
        }
        .boxed()
    }

    fn consumer(&self, group: &str, topics: &[Topic]) -> Result<Box<dyn Consumer>, LogError> {
        let (member, news) = self.shared.state().join(group, topics)?;
        Ok(Box::new(MemoryConsumer { shared: Arc::clone(&self.shared), group: group.to_owned(), member, news }))
    }

    fn reader(&self, tp: TopicPartition, from: Offset) -> BoxFuture<'_, Result<Box<dyn Reader>, LogError>> {
        let reader = MemoryReader::new(Arc::clone(&self.shared), tp, from);
        ready(reader.map(|reader| Box::new(reader) as Box<dyn Reader>)).boxed()
    }

    fn bounds(&self, tp: TopicPartition) -> BoxFuture<'_, Result<Bounds, LogError>> {
        ready(self.shared.state().partition(tp).map(|found| found.bounds)).boxed()
    }

    fn offset_at(&self, tp: TopicPartition, timestamp_ms: Millis) -> BoxFuture<'_, Result<Offset, LogError>> {
        let found = self.shared.state().partition(tp).map(|partition| partition.offset_at(timestamp_ms));
        ready(found).boxed()
    }

    fn committed<'a>(
        &'a self,
        group: &'a str,
        tps: &'a [TopicPartition],
    ) -> BoxFuture<'a, Result<Vec<Option<Commit>>, LogError>> {
        ready(self.shared.state().committed(group, tps)).boxed()
    }

    fn delete_below(&self, tp: TopicPartition, before: Offset) -> BoxFuture<'_, Result<(), LogError>> {
        let mut state = self.shared.state();
        let deleted = state.partition(tp).and_then(|partition| partition.delete_below(tp, before));
        drop(state);
        ready(deleted).boxed()
    }
}
