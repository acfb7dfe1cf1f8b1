//! State of the in-memory log: partitions, groups, members and the script.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use orbweaver_messages::{Millis, Topic};
use tokio::sync::Notify;

use super::ScriptedResult;
use crate::{
    Bounds, Commit, ConsumerRecord, Event, LogError, Offset, Partition, RECORD_LIMIT, Record, Refusal, Refused,
    TopicPartition, TopicSpec,
};

/// Maximum number of records per batch.
pub(super) const BATCH_RECORDS: usize = 1_000;

/// Records of a partition. Offsets may have gaps after compaction.
#[derive(Default)]
pub(super) struct Records {
    pub(super) bounds: Bounds,
    pub(super) records: VecDeque<ConsumerRecord>,
    /// Wakes the readers of this partition, in the order of their registration, so that simulations are deterministic.
    pub(super) appended: Arc<Notify>,
}

impl Records {
    /// Returns up to `limit` records from `offset` on.
    pub(super) fn read(&self, offset: Offset, limit: usize) -> impl Iterator<Item = &ConsumerRecord> {
        let first = self.records.partition_point(|record| record.offset < offset);
        self.records.range(first..).take(limit)
    }

    pub(super) fn offset_at(&self, timestamp_ms: Millis) -> Offset {
        let found = self.records.iter().find(|record| record.timestamp_ms >= timestamp_ms);
        found.map_or(self.bounds.end, |record| record.offset)
    }

    pub(super) fn delete_below(&mut self, tp: TopicPartition, before: Offset) -> Result<(), LogError> {
        if before > self.bounds.end {
            return self.bounds.check(tp, before);
        }
        self.bounds.start = self.bounds.start.max(before);
        let gone = self.records.partition_point(|record| record.offset < self.bounds.start);
        self.records.drain(..gone);
        Ok(())
    }

    /// Keeps the last record of each key below `before`, and drops tombstones below `tombstones_before`.
    pub(super) fn compact(&mut self, before: Offset, tombstones_before: Offset) {
        let mut seen = HashSet::new();
        let mut kept = VecDeque::new();
        while let Some(record) = self.records.pop_back() {
            let last = record.key.as_ref().is_none_or(|key| record.offset >= before || seen.insert(key.clone()));
            let kept_value = record.key.is_none() || record.value.is_some() || record.offset >= tombstones_before;
            if last && kept_value {
                kept.push_front(record);
            }
        }
        self.records = kept;
    }
}

/// A partition assigned to a member.
#[derive(Default)]
pub(super) struct AssignedPartition {
    /// Next offset to deliver; `None` until started.
    pub(super) next: Option<Offset>,
    pub(super) paused: bool,
    /// Revoked: nothing is delivered, commits are accepted.
    pub(super) revoked: bool,
    /// Assigned to another member, without an event for this one.
    pub(super) fenced: bool,
}

/// A member of a group.
#[derive(Default)]
pub(super) struct Member {
    /// Sorted, so that simulations are deterministic.
    pub(super) held: BTreeMap<TopicPartition, AssignedPartition>,
    pub(super) events: VecDeque<Event>,
    /// The last partition that delivered records, for round-robin delivery.
    pub(super) served: Option<TopicPartition>,
    /// Wakes the member when there may be an event for it.
    pub(super) news: Arc<Notify>,
}

impl Member {
    /// Queues an event.
    pub(super) fn queue(&mut self, event: Event) {
        self.events.push_back(event);
        self.news.notify_one();
    }
}

#[derive(Default)]
struct Group {
    commits: HashMap<TopicPartition, Commit>,
    /// By member number; `None` for members that left.
    members: Vec<Option<Member>>,
}

/// The entire state.
pub(super) struct State {
    topics: HashMap<Topic, Vec<Records>>,
    /// Sorted, so that members are woken in a deterministic order.
    groups: BTreeMap<String, Group>,
    scripted: bool,
    pub(super) record_limit: usize,
    pub(super) append_fates: VecDeque<ScriptedResult>,
    pub(super) commit_fates: VecDeque<ScriptedResult>,
}

impl State {
    pub(super) fn new(specs: &[TopicSpec], scripted: bool) -> Self {
        let partitions = |spec: &TopicSpec| (0..spec.partitions).map(|_| Records::default()).collect();
        Self {
            topics: specs.iter().map(|spec| (spec.topic, partitions(spec))).collect(),
            groups: BTreeMap::new(),
            scripted,
            record_limit: RECORD_LIMIT,
            append_fates: VecDeque::new(),
            commit_fates: VecDeque::new(),
        }
    }

    pub(super) fn partitions(&self, topic: Topic) -> Result<Partition, LogError> {
        let partitions = self.topics.get(&topic).ok_or(LogError::UnknownTopic(topic))?;
        Ok(Partition::try_from(partitions.len()).unwrap_or(Partition::MAX))
    }

    pub(super) fn partition(&mut self, tp: TopicPartition) -> Result<&mut Records, LogError> {
        let partitions = self.topics.get_mut(&tp.topic).ok_or(LogError::UnknownTopic(tp.topic))?;
        partitions.get_mut(tp.partition as usize).ok_or(LogError::UnknownPartition(tp))
    }

    pub(super) fn member(&mut self, group: &str, member: usize) -> Result<&mut Member, LogError> {
        let found = self.groups.get_mut(group).and_then(|group| group.members.get_mut(member)?.as_mut());
        found.ok_or_else(|| LogError::Invalid(format!("the group `{group}` has no member {member}")))
    }

    /// Fences all members from `tps`, without events.
    pub(super) fn fence(&mut self, group: &str, tps: &[TopicPartition]) {
        let members = self.groups.get_mut(group).into_iter().flat_map(|group| group.members.iter_mut().flatten());
        for (tp, held) in members.flat_map(|member| &mut member.held) {
            held.fenced |= tps.contains(tp);
        }
    }

    /// Adds a member. Returns its number, and what wakes it.
    pub(super) fn join(&mut self, name: &str, topics: &[Topic]) -> Result<(usize, Arc<Notify>), LogError> {
        let mut tps = vec![];
        for topic in topics {
            tps.extend((0..self.partitions(*topic)?).map(|partition| TopicPartition::new(*topic, partition)));
        }
        let scripted = self.scripted;
        let group = self.groups.entry(name.to_owned()).or_default();
        if !scripted && group.members.iter().any(Option::is_some) {
            return Err(LogError::GroupTaken(name.to_owned()));
        }
        let mut member = Member::default();
        if !scripted {
            member.held.extend(tps.iter().map(|tp| (*tp, AssignedPartition::default())));
            member.events.push_back(Event::Assigned(tps));
        }
        let news = member.news.clone();
        group.members.push(Some(member));
        Ok((group.members.len() - 1, news))
    }

    pub(super) fn leave(&mut self, group: &str, member: usize) {
        if let Some(slot) = self.groups.get_mut(group).and_then(|group| group.members.get_mut(member)) {
            *slot = None;
        }
    }

    pub(super) fn append(&mut self, records: Vec<Record>) -> Result<Vec<Offset>, LogError> {
        for record in &records {
            self.partition(record.tp)?;
        }
        let (limit, error) = next(&mut self.append_fates);
        let (mut offsets, mut refusals) = (Vec::with_capacity(records.len()), vec![]);
        for (index, record) in records.into_iter().enumerate().take(limit) {
            if let Err(refusal) = Refusal::check_size(&record, self.record_limit) {
                offsets.push(0);
                refusals.push((index, refusal));
                continue;
            }
            let partition = self.partition(record.tp)?;
            let offset = partition.bounds.end;
            partition.bounds.end += 1;
            let headers = record.headers.into_iter().map(|(name, value)| (Cow::Borrowed(name), value)).collect();
            partition.records.push_back(ConsumerRecord {
                tp: record.tp,
                offset,
                timestamp_ms: record.timestamp_ms,
                key: record.key,
                value: record.value,
                headers,
            });
            offsets.push(offset);
            self.wake(record.tp)?;
        }
        error.map_or_else(|| Refused::unless_all(offsets, refusals), Err)
    }

    /// Wakes readers and members that wait for records of `tp`.
    fn wake(&mut self, tp: TopicPartition) -> Result<(), LogError> {
        self.partition(tp)?.appended.notify_waiters();
        for member in self.groups.values().flat_map(|group| group.members.iter().flatten()) {
            if member.held.get(&tp).is_some_and(|held| held.next.is_some()) {
                member.news.notify_one();
            }
        }
        Ok(())
    }

    pub(super) fn commit(
        &mut self,
        name: &str,
        member: usize,
        commits: Vec<(TopicPartition, Commit)>,
    ) -> Result<(), LogError> {
        let held = &self.member(name, member)?.held;
        for (tp, commit) in &commits {
            if held.get(tp).is_none_or(|held| held.fenced) {
                return Err(LogError::NotAssigned(*tp));
            }
            commit.check_size(*tp)?;
        }
        let (limit, error) = next(&mut self.commit_fates);
        self.groups.entry(name.to_owned()).or_default().commits.extend(commits.into_iter().take(limit));
        error.map_or(Ok(()), Err)
    }

    pub(super) fn committed(&mut self, group: &str, tps: &[TopicPartition]) -> Result<Vec<Option<Commit>>, LogError> {
        for tp in tps {
            self.partition(*tp)?;
        }
        let commits = self.groups.get(group).map(|group| &group.commits);
        Ok(tps.iter().map(|tp| commits.and_then(|commits| commits.get(tp).cloned())).collect())
    }

    /// Returns the next event of a member: assignment changes first, then records, round-robin over its partitions.
    pub(super) fn next_event(&mut self, group: &str, number: usize) -> Result<Option<Event>, LogError> {
        let member = self.member(group, number)?;
        if let Some(event) = member.events.pop_front() {
            return Ok(Some(event));
        }
        let served = member.served;
        let ready = member.held.iter().filter(|(_, held)| !held.paused && !held.revoked);
        let mut ready: Vec<_> = ready.filter_map(|(tp, held)| Some((*tp, held.next?))).collect();
        let turn = ready.partition_point(|(tp, _)| served.is_some_and(|served| *tp <= served));
        ready.rotate_left(turn);

        let mut batch: Vec<ConsumerRecord> = vec![];
        let mut last = None;
        for (tp, offset) in ready {
            let room = BATCH_RECORDS.saturating_sub(batch.len());
            let partition = self.partition(tp)?;
            if room == 0 || offset >= partition.bounds.end {
                continue;
            }
            partition.bounds.check(tp, offset)?;
            let before = batch.len();
            batch.extend(partition.read(offset, room).cloned());
            // If only a gap remains, continue after it.
            let end = partition.bounds.end;
            let next = batch.get(before..).and_then(<[_]>::last).map_or(end, |record| record.offset + 1);
            if let Some(held) = self.member(group, number)?.held.get_mut(&tp) {
                held.next = Some(next);
            }
            last = Some(tp);
        }
        if last.is_some() {
            self.member(group, number)?.served = last;
        }
        Ok((!batch.is_empty()).then_some(Event::Records(batch)))
    }
}

/// Returns how many entries of the next call take effect, and its error.
fn next(fates: &mut VecDeque<ScriptedResult>) -> (usize, Option<LogError>) {
    match fates.pop_front() {
        None | Some(ScriptedResult::Pass) => (usize::MAX, None),
        Some(ScriptedResult::Fail { after, error }) => (after, Some(error)),
    }
}
