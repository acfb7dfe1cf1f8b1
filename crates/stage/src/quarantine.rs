//! Quarantine (docs/protocol.md#quarantine): after a crash loop, records are delivered one at a time in the whole
//! process, and the poison record is dead-lettered.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
};

use orbweaver_log::{ConsumerRecord, Offset, Partition, TopicPartition};
use tokio::time::Instant;

use crate::{
    Origin, Trials,
    commit_metadata::{CommitMetadata, Suspect},
    quarantined::Quarantined,
    trials::{Permit, Trial, Work},
};

/// Next step of the loop for the quarantine.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    Wait,
    /// The quarantine of the topic-partition is over; these records are delivered as usual.
    End(TopicPartition, Vec<ConsumerRecord>),
    /// Complete a claim.
    Claim(ConsumerRecord),
    /// Reject a poison record.
    Reject(ConsumerRecord, String),
    /// Commit the mark of this record; then call [`Quarantine::take_marked`].
    Mark(TopicPartition, Offset, Permit),
}

#[derive(Debug)]
pub(crate) struct Quarantine {
    /// Number of records of a topic-partition that are delivered one at a time.
    records: usize,
    tps: BTreeMap<TopicPartition, Quarantined>,
    /// Membership of the stage among those of the process that try records.
    pub(crate) trial: Trial,
    /// Topic-partition of the last record delivered.
    fed: Option<TopicPartition>,
}

impl Quarantine {
    pub(crate) fn new(records: usize, trials: &Trials) -> Self {
        Self { records, tps: BTreeMap::new(), trial: Trial::new(trials), fed: None }
    }

    /// Puts `tp` into quarantine; `suspect` is the record that was in flight alone when the previous process ended.
    pub(crate) fn admit(&mut self, tp: TopicPartition, suspect: Option<Suspect>, now: Instant) {
        self.tps.insert(tp, Quarantined::new(self.records, suspect, now));
    }

    /// Keeps a record that was delivered from quarantine; returns any other.
    pub(crate) fn keep(&mut self, record: ConsumerRecord) -> Option<ConsumerRecord> {
        if self.tps.is_empty() {
            return Some(record);
        }
        match self.tps.get_mut(&record.tp) {
            None => Some(record),
            Some(quarantined) => {
                quarantined.waiting.push_back(record);
                None
            }
        }
    }

    /// Returns the next step: one record at a time, round robin, while nothing else is in flight in the process.
    /// `is_idle` means that this stage has nothing in flight.
    pub(crate) fn next(&mut self, now: Instant, is_idle: bool, is_draining: impl Fn(Partition) -> bool) -> Next {
        if self.tps.is_empty() {
            self.trial.withdraw();
            return Next::Wait;
        }
        if !is_idle || self.tps.values().any(Quarantined::is_trying) {
            return Next::Wait;
        }
        self.trial.complete(now);
        if let Some(tp) = self.tps.iter().find(|(_, quarantined)| quarantined.is_over(now)).map(|(&tp, _)| tp) {
            self.trial.end();
            if self.trial.enter(Work::Records) {
                let waiting = self.tps.remove(&tp).map(|quarantined| quarantined.waiting.into());
                return Next::End(tp, waiting.unwrap_or_default());
            }
        }
        let Some(tp) = self.next_due(now, is_draining) else {
            self.trial.withdraw();
            return Next::Wait;
        };
        let Some(permit) = self.trial.begin(now) else { return Next::Wait };
        self.fed = Some(tp);
        self.tps.get_mut(&tp).map_or(Next::Wait, |quarantined| quarantined.next(tp, permit))
    }

    fn next_due(&self, now: Instant, is_draining: impl Fn(Partition) -> bool) -> Option<TopicPartition> {
        let due = |(&tp, quarantined): (&TopicPartition, &Quarantined)| {
            (quarantined.is_due(now) && !is_draining(tp.partition)).then_some(tp)
        };
        let after = self.fed.and_then(|fed| self.tps.range((Excluded(fed), Unbounded)).find_map(due));
        after.or_else(|| self.tps.iter().find_map(due))
    }

    /// Takes the record of `tp` whose mark was committed; `None` if its partition was closed meanwhile.
    pub(crate) fn take_marked(&mut self, tp: TopicPartition) -> Option<ConsumerRecord> {
        self.tps.get_mut(&tp)?.take_marked()
    }

    /// Withdraws a mark that was not committed.
    pub(crate) fn unmark(&mut self, tp: TopicPartition) {
        self.tps.get_mut(&tp).map(Quarantined::unmark);
    }

    /// Withdraws the marks for which `is_withdrawn` holds, and returns their topic-partitions.
    pub(crate) fn unmark_if(&mut self, is_withdrawn: fn(&Quarantined) -> bool) -> Vec<TopicPartition> {
        let withdrawn = self.tps.iter_mut().filter(|(_, quarantined)| is_withdrawn(quarantined));
        withdrawn.filter_map(|(&tp, quarantined)| quarantined.unmark().then_some(tp)).collect()
    }

    /// Notes that the stage has a record from quarantine.
    pub(crate) fn give(&mut self, origin: Origin) {
        if let Some(quarantined) = self.tps.get_mut(&origin.tp) {
            quarantined.given = Some(origin);
        }
    }

    /// Handles a record that completed or was parked.
    pub(crate) fn done(&mut self, origin: Origin) {
        if !self.tps.is_empty()
            && let Some(quarantined) = self.tps.get_mut(&origin.tp)
        {
            quarantined.done(origin, Instant::now());
        }
    }

    /// Returns the topic-partitions whose record in flight a panic counts against. A panic in this loop always does,
    /// since this stage was quiet; any other only if the whole process was quiet.
    pub(crate) fn to_blame(&self) -> Vec<TopicPartition> {
        let is_elsewhere = self.trial.panicked().is_cancelled();
        let blamed = self.tps.iter().filter(|(_, quarantined)| quarantined.is_to_blame(is_elsewhere));
        blamed.map(|(&tp, _)| tp).collect()
    }

    /// Forgets a closed partition.
    pub(crate) fn close(&mut self, partition: Partition) {
        self.tps.retain(|tp, _| tp.partition != partition);
    }

    pub(crate) fn tps(&self) -> impl Iterator<Item = TopicPartition> {
        self.tps.keys().copied()
    }

    /// Returns whether a topic-partition in quarantine should be delivered no further record; `None` for others.
    pub(crate) fn occupied(&self, tp: TopicPartition) -> Option<bool> {
        self.tps.get(&tp).map(Quarantined::is_occupied)
    }

    /// Returns `true` if the topic-partitions that are not in quarantine are to be paused.
    pub(crate) fn holds_others(&self, now: Instant) -> bool {
        self.trial.is_held() || self.tps.values().any(|quarantined| quarantined.holds_others(now))
    }

    /// Names the suspect of `tp` in the metadata of a commit.
    pub(crate) fn annotate(&self, tp: TopicPartition, metadata: CommitMetadata) -> CommitMetadata {
        match self.tps.get(&tp) {
            None => metadata,
            Some(quarantined) => quarantined.annotate(metadata),
        }
    }
}

#[cfg(test)]
mod tests;
