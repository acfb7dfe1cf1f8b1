//! Coordinator of all groups: assigns partitions to members piecewise, and revokes them.
//!
//! Partition N of all topics of a group goes to one member (the `range` assignor), but each topic-partition is assigned
//! and revoked separately, unless a schedule assigns all that are free in one event, as Kafka does. A partition is revoked before it moves. A member that does not release it in time, or is
//! silent for a session, is fenced; an expelled member learns of the loss when the coordinator receives from it again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use orbweaver_log::{Log, MemoryLog, Partition, TopicPartition};
use orbweaver_messages::topic;
use tokio::time::Instant;

use crate::{gate::Gate, network::lock, random::Random};

/// Silence after which a member is expelled.
pub const SESSION: Duration = Duration::from_secs(45);
/// Time within which a member must release a revoked partition.
const HAND_BACK_WITHIN: Duration = Duration::from_secs(60);

struct Member {
    process: usize,
    gate: Arc<Gate>,
    /// Partitions held at the expulsion, until the member is notified of their loss.
    expelled: Option<Vec<TopicPartition>>,
}

#[derive(Default)]
struct Group {
    members: BTreeMap<usize, Member>,
    joined: usize,
    /// Holder of each topic-partition, and the time of its revocation.
    holders: BTreeMap<TopicPartition, (usize, Option<Instant>)>,
    targets: BTreeMap<Partition, usize>,
    /// Members for which the targets were computed.
    made_for: Vec<usize>,
    /// Time before which no partition of the last topic moves.
    last_topic_held: Option<Instant>,
}

/// A member that lost its partitions unnoticed, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expelled {
    /// Number of the process.
    pub process: usize,
    /// Time of the expulsion.
    pub at: Instant,
}

/// All groups. Clones share their state.
#[derive(Clone)]
pub struct Groups {
    log: MemoryLog,
    groups: Arc<Mutex<BTreeMap<String, Group>>>,
    expelled: Arc<Mutex<Vec<Expelled>>>,
    /// Whether the coordinator is unavailable, together with the log.
    away: Arc<AtomicBool>,
    /// Whether the free topic-partitions of a member are assigned in one event.
    at_once: bool,
}

impl Groups {
    /// Creates a coordinator without groups. `at_once`: the free topic-partitions of a member are assigned in one event.
    #[must_use]
    pub fn new(log: MemoryLog, at_once: bool) -> Self {
        Self { log, groups: Arc::default(), expelled: Arc::default(), away: Arc::default(), at_once }
    }

    /// Adds a process to a group. Returns its member number, which equals that in the log.
    pub(crate) fn join(&self, group: &str, process: usize, gate: Arc<Gate>) -> usize {
        let mut groups = lock(&self.groups);
        let group = groups.entry(group.to_owned()).or_default();
        let number = group.joined;
        group.joined += 1;
        group.members.insert(number, Member { process, gate, expelled: None });
        number
    }

    /// Removes a member that leaves gracefully.
    pub(crate) fn leave(&self, group: &str, member: usize) {
        if let Some(group) = lock(&self.groups).get_mut(group) {
            group.members.remove(&member);
            group.holders.retain(|_, (holder, _)| *holder != member);
        }
    }

    /// Returns the members expelled so far.
    #[must_use]
    pub fn expelled(&self) -> Vec<Expelled> {
        lock(&self.expelled).clone()
    }

    /// Returns `true` if every partition is at its target and all members have received their events.
    #[must_use]
    pub fn are_at_rest(&self) -> bool {
        lock(&self.groups).iter().all(|(name, group)| {
            let placed = |(tp, (holder, wanted)): (&TopicPartition, &(usize, Option<Instant>))| {
                wanted.is_none() && group.targets.get(&tp.partition) == Some(holder)
            };
            let is_notified = group.members.keys().all(|&member| self.log.has_received(name, member));
            is_notified
                && group.holders.len() == group.targets.len() * topics(name).len()
                && group.holders.iter().all(placed)
        })
    }

    /// Returns the partitions of which one healthy member holds all topics, each with that member.
    pub(crate) fn held(&self, name: &str) -> BTreeSet<(Partition, usize)> {
        let groups = lock(&self.groups);
        let Some(group) = groups.get(name) else { return BTreeSet::new() };
        let holder = |topic, partition| {
            let (holder, wanted) = group.holders.get(&TopicPartition::new(topic, partition))?;
            let member = group.members.get(holder)?;
            (wanted.is_none() && member.expelled.is_none() && member.gate.is_well()).then_some(*holder)
        };
        let of_all = |&partition: &Partition| {
            let mut holders = topics(name).iter().map(|&topic| holder(topic, partition));
            let first = holders.next()??;
            holders.all(|other| other == Some(first)).then_some((partition, first))
        };
        group.targets.keys().filter_map(of_all).collect()
    }

    /// Moves one partition of a group to a random member.
    pub(crate) fn churn(&self, name: &str, random: &mut Random) {
        let mut groups = lock(&self.groups);
        let Some(group) = groups.get_mut(name) else { return };
        let members: Vec<usize> = group.eligible().collect();
        let partitions: Vec<Partition> = group.targets.keys().copied().collect();
        if !members.is_empty() && !partitions.is_empty() {
            let partition = partitions[random.index(partitions.len())];
            group.targets.insert(partition, members[random.index(members.len())]);
        }
    }

    /// Keeps the partitions of a group's last topic in place for this time.
    pub(crate) fn hold_last_topic(&self, name: &str, time: Duration) {
        if let Some(group) = lock(&self.groups).get_mut(name) {
            group.last_topic_held = Some(Instant::now() + time);
        }
    }

    /// Makes the coordinator unavailable, or available again; sessions then start over.
    pub(crate) fn hold_sessions(&self, away: bool) {
        self.away.store(away, Ordering::Relaxed);
        for group in lock(&self.groups).values() {
            group.members.values().for_each(|member| member.gate.count_silence_anew());
        }
    }

    /// Performs the next pieces of pending changes.
    pub(crate) fn step(&self, random: &mut Random) {
        if self.away.load(Ordering::Relaxed) {
            return;
        }
        for (name, group) in &mut *lock(&self.groups) {
            self.notify(name, group);
            group.plan(topics(name).first().map_or(0, |&topic| self.log.partitions(topic).unwrap_or(0)));
            self.move_pieces(name, group, random);
        }
    }

    /// Expels members that were silent for too long, and notifies those that communicate again.
    fn notify(&self, name: &str, group: &mut Group) {
        let now = Instant::now();
        for (&number, member) in &mut group.members {
            let silent = member.gate.silent_since();
            if member.expelled.is_none() && silent.is_some_and(|since| now.duration_since(since) >= SESSION) {
                let held = group.holders.iter().filter(|(_, (holder, _))| *holder == number);
                member.expelled = Some(held.map(|(tp, _)| *tp).collect());
                group.holders.retain(|_, (holder, _)| *holder != number);
                lock(&self.expelled).push(Expelled { process: member.process, at: now });
                // A killed member has left the log already.
                let _ = self.log.expel(name, number);
            }
            if silent.is_none()
                && let Some(lost) = member.expelled.take()
            {
                let _ = self.log.lose(name, number, &lost);
            }
        }
        group.members.retain(|_, member| member.expelled.is_none() || !member.gate.is_dead());
    }

    fn move_pieces(&self, name: &str, group: &mut Group, random: &mut Random) {
        let now = Instant::now();
        let held = usize::from(group.last_topic_held.is_some_and(|until| now < until));
        let topics = topics(name);
        let mut free: BTreeMap<usize, Vec<TopicPartition>> = BTreeMap::new();
        for &topic in &topics[..topics.len().saturating_sub(held)] {
            for (&partition, &target) in &group.targets {
                let tp = TopicPartition::new(topic, partition);
                let holder = group.holders.get(&tp).copied();
                // Piecewise: each step skips some at random.
                if random.chance(30) && !(self.at_once && holder.is_none()) {
                    continue;
                }
                match holder {
                    None => free.entry(target).or_default().push(tp),
                    Some((holder, _)) if holder == target && group.holders[&tp].1.is_none() => {}
                    Some((holder, None)) => {
                        if self.log.revoke(name, holder, &[tp]).is_ok() {
                            group.holders.insert(tp, (holder, Some(now)));
                        }
                    }
                    Some((holder, Some(since))) => {
                        // A killed member releases nothing; its partitions wait for the end of its session.
                        let lives = group.members.get(&holder).is_none_or(|member| !member.gate.is_dead());
                        let handed_back = lives && !self.log.held(name, holder).contains(&tp);
                        let late = now.duration_since(since) >= HAND_BACK_WITHIN;
                        if late && !handed_back {
                            let _ = self.log.lose(name, holder, &[tp]);
                        }
                        if handed_back || late {
                            group.holders.remove(&tp);
                        }
                    }
                }
            }
        }
        for (target, tps) in free {
            self.assign(name, group, target, &tps);
        }
    }

    /// Assigns free topic-partitions to a member that is well and has received its last loss.
    fn assign(&self, name: &str, group: &mut Group, target: usize, tps: &[TopicPartition]) {
        let ready = group.members.get(&target).is_some_and(|member| member.gate.is_well());
        for tps in tps.chunks(if self.at_once { tps.len() } else { 1 }) {
            if ready && self.log.has_received(name, target) && self.log.assign(name, target, tps).is_ok() {
                group.holders.extend(tps.iter().map(|tp| (*tp, (target, None))));
            }
        }
    }
}

impl Group {
    fn eligible(&self) -> impl Iterator<Item = usize> {
        self.members.iter().filter(|(_, member)| member.expelled.is_none()).map(|(number, _)| *number)
    }

    /// Reassigns the partitions if the members have changed.
    fn plan(&mut self, partitions: Partition) {
        let members: Vec<usize> = self.eligible().collect();
        if members == self.made_for {
            return;
        }
        self.targets.clear();
        for partition in (0..partitions).filter(|_| !members.is_empty()) {
            let share = partition as usize * members.len() / partitions as usize;
            self.targets.insert(partition, members[share]);
        }
        self.made_for = members;
    }
}

fn topics(group: &str) -> &'static [orbweaver_messages::Topic] {
    topic::groups().get(group).map_or(&[], Vec::as_slice)
}
