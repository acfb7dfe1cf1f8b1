//! A log in memory, for tests and the simulation: it keeps the promises of the traits, and breaks what it is told to break.
//!
//! By default it behaves like the embedded log: the first consumer of a group is given all partitions, a second one is
//! refused. With [`MemoryLog::scripted`] a group takes any number of members, numbered from 0 as they join, and they hold
//! what [`MemoryLog::assign`], [`MemoryLog::revoke`] and [`MemoryLog::lose`] say, which is how rebalances are played.
//! [`MemoryLog::script_append`] and [`MemoryLog::script_commit`] make calls fail, [`MemoryLog::hold_appends`] delays their
//! acknowledgement. Time is tokio's, so that a paused clock works.

mod consumer;
mod reader;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, FutureExt, ready};
use orbweaver_messages::{Millis, Topic};
use tokio::sync::watch;

use crate::{
    Bounds, Commit, Consumer, Delivered, Event, Log, LogError, Offset, Partition, Reader, Record, TopicPartition,
    TopicSpec,
};
use consumer::MemoryConsumer;
use reader::MemoryReader;
use state::{Held, State};

/// How the next append or commit goes.
#[derive(Debug)]
pub enum Fate {
    /// As it should.
    Pass,
    /// It takes effect for the first `after` of its entries and then fails.
    Fail {
        /// How many entries are taken.
        after: usize,
        /// With what.
        error: LogError,
    },
}

/// A log in memory. Cheap to clone; clones are the same log, so a test keeps one to control what a stage uses.
#[derive(Clone)]
pub struct MemoryLog {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// True while acknowledgements are held back.
    held: watch::Sender<bool>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryLog {
    /// A log that gives the one consumer of a group all its partitions.
    #[must_use]
    pub fn new(specs: &[TopicSpec]) -> Self {
        Self::with(State::new(specs, false))
    }

    /// A log whose groups take many members and give each what the script says, nothing at first.
    #[must_use]
    pub fn scripted(specs: &[TopicSpec]) -> Self {
        Self::with(State::new(specs, true))
    }

    fn with(state: State) -> Self {
        let shared = Shared { state: Mutex::new(state), held: watch::Sender::new(false) };
        Self { shared: Arc::new(shared) }
    }

    /// The same with another record limit.
    #[must_use]
    pub fn with_record_limit(self, bytes: usize) -> Self {
        self.shared.state().record_limit = bytes;
        self
    }

    /// Gives partitions to member `member` of `group`; it is told by [`Event::Assigned`]. Who held one before is not told
    /// (that is what [`MemoryLog::lose`] is for), but may not commit for it from now on: a member that was frozen.
    ///
    /// # Errors
    /// When there is no such member or partition.
    pub fn assign(&self, group: &str, member: usize, places: &[TopicPartition]) -> Result<(), LogError> {
        let mut state = self.shared.state();
        for place in places {
            state.partition(*place)?;
        }
        state.member(group, member)?;
        state.fence(group, member, places);
        let taken = state.member(group, member)?;
        taken.held.extend(places.iter().map(|place| (*place, Held::default())));
        taken.events.push_back(Event::Assigned(places.to_vec()));
        taken.news.notify_one();
        Ok(())
    }

    /// Asks member `member` of `group` to hand partitions back; they deliver nothing from now on.
    ///
    /// # Errors
    /// When there is no such member, or it does not hold one of them.
    pub fn revoke(&self, group: &str, member: usize, places: &[TopicPartition]) -> Result<(), LogError> {
        let mut state = self.shared.state();
        let member = state.member(group, member)?;
        for place in places {
            member.held.get_mut(place).ok_or(LogError::NotAssigned(*place))?.revoked = true;
        }
        member.events.push_back(Event::Revoked(places.to_vec()));
        member.news.notify_one();
        Ok(())
    }

    /// Takes partitions from member `member` of `group` at once; commits for them are refused.
    ///
    /// # Errors
    /// When there is no such member.
    pub fn lose(&self, group: &str, member: usize, places: &[TopicPartition]) -> Result<(), LogError> {
        let mut state = self.shared.state();
        let member = state.member(group, member)?;
        for place in places {
            member.held.remove(place);
        }
        member.events.push_back(Event::Lost(places.to_vec()));
        member.news.notify_one();
        Ok(())
    }

    /// Fences all that member `member` of `group` holds, without telling it: its session has ended. It may not commit from now
    /// on, although it still reads.
    ///
    /// # Errors
    /// When there is no such member.
    pub fn expel(&self, group: &str, member: usize) -> Result<(), LogError> {
        self.shared.state().member(group, member)?.held.values_mut().for_each(|held| held.fenced = true);
        Ok(())
    }

    /// What member `member` of `group` holds, sorted; a revoked partition counts until it is handed back.
    #[must_use]
    pub fn held(&self, group: &str, member: usize) -> Vec<TopicPartition> {
        let mut state = self.shared.state();
        let mut places: Vec<_> = match state.member(group, member) {
            Ok(member) => member.held.iter().filter(|(_, held)| !held.fenced).map(|(place, _)| *place).collect(),
            Err(_) => vec![],
        };
        places.sort_unstable();
        places
    }

    /// Whether member `member` of `group` has taken note of all that happened to its partitions. Who left has.
    #[must_use]
    pub fn has_heard(&self, group: &str, member: usize) -> bool {
        self.shared.state().member(group, member).is_ok_and(|member| member.events.is_empty())
    }

    /// Scripts the next append that has no fate yet.
    pub fn script_append(&self, fate: Fate) {
        self.shared.state().append_fates.push_back(fate);
    }

    /// Scripts the next commit that has no fate yet.
    pub fn script_commit(&self, fate: Fate) {
        self.shared.state().commit_fates.push_back(fate);
    }

    /// While `hold` is set, appends take effect but are not acknowledged.
    pub fn hold_appends(&self, hold: bool) {
        self.shared.held.send_replace(hold);
    }

    /// All records that a partition holds, as a test wants to see them; none for an unknown partition.
    #[must_use]
    pub fn records(&self, place: TopicPartition) -> Vec<Delivered> {
        self.shared.state().partition(place).map(|found| found.records.iter().cloned().collect()).unwrap_or_default()
    }

    /// Compacts a partition as of now: of each key the last record stays, and no tombstone.
    ///
    /// # Errors
    /// When there is no such partition.
    pub fn compact(&self, place: TopicPartition) -> Result<(), LogError> {
        self.compact_below(place, Offset::MAX, Offset::MAX)
    }

    /// Compacts a partition as a log with `min.compaction.lag.ms` and `delete.retention.ms` does: of each key the last record
    /// below `before` stays, and of the tombstones those from `tombstones_before` on.
    ///
    /// # Errors
    /// When there is no such partition.
    pub fn compact_below(
        &self,
        place: TopicPartition,
        before: Offset,
        tombstones_before: Offset,
    ) -> Result<(), LogError> {
        self.shared.state().partition(place)?.compact(before, tombstones_before);
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
            // The sender lives in `self`, so that waiting cannot fail.
            let _ = held.wait_for(|held| !held).await;
            result
        }
        .boxed()
    }

    fn consumer(&self, group: &str, topics: &[Topic]) -> Result<Box<dyn Consumer>, LogError> {
        let member = self.shared.state().join(group, topics)?;
        Ok(Box::new(MemoryConsumer::new(Arc::clone(&self.shared), group, member)?))
    }

    fn reader(&self, place: TopicPartition, from: Offset) -> BoxFuture<'_, Result<Box<dyn Reader>, LogError>> {
        let reader = MemoryReader::new(Arc::clone(&self.shared), place, from);
        ready(reader.map(|reader| Box::new(reader) as Box<dyn Reader>)).boxed()
    }

    fn bounds(&self, place: TopicPartition) -> BoxFuture<'_, Result<Bounds, LogError>> {
        let bounds = self.shared.state().partition(place).map(|found| Bounds { start: found.start, end: found.end });
        ready(bounds).boxed()
    }

    fn offset_at(&self, place: TopicPartition, timestamp_ms: Millis) -> BoxFuture<'_, Result<Offset, LogError>> {
        let found = self.shared.state().partition(place).map(|partition| partition.offset_at(timestamp_ms));
        ready(found).boxed()
    }

    fn committed<'a>(
        &'a self,
        group: &'a str,
        places: &'a [TopicPartition],
    ) -> BoxFuture<'a, Result<Vec<Option<Commit>>, LogError>> {
        ready(self.shared.state().committed(group, places)).boxed()
    }

    fn delete_below(&self, place: TopicPartition, before: Offset) -> BoxFuture<'_, Result<(), LogError>> {
        let mut state = self.shared.state();
        let deleted = state.partition(place).and_then(|partition| partition.delete_below(place, before));
        drop(state);
        ready(deleted).boxed()
    }
}
