//! A topic-partition in quarantine: its records that wait, the one that is tried, and the suspect. Pure.

use std::{collections::VecDeque, time::Duration};

use orbweaver_log::{ConsumerRecord, Offset, TopicPartition};
use tokio::time::Instant;

use crate::{
    Origin,
    claim::is_claim,
    commit_metadata::{CommitMetadata, Suspect},
    quarantine::Next,
    trials::Permit,
};

/// Time without a record after which a topic-partition counts as caught up; the others are paused meanwhile.
const CAUGHT_UP: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Quarantined {
    /// Number of records that are still to be delivered one at a time.
    left: usize,
    /// Records of one poll that the stage has not received yet: the topic-partition is paused afterwards.
    pub(crate) waiting: VecDeque<ConsumerRecord>,
    /// The record that is committed as `trying`.
    trying: Option<Offset>,
    /// Whether nothing else is in flight in the process during this trial.
    counts: bool,
    /// Origin of the record, once the stage has it.
    pub(crate) given: Option<Origin>,
    /// Record that was in flight alone when the previous process ended.
    suspect: Option<Suspect>,
    since: Instant,
    /// Time at which the last of its records completed or was parked, or of its opening.
    left_at: Instant,
}

impl Quarantined {
    pub(crate) fn new(left: usize, suspect: Option<Suspect>, now: Instant) -> Self {
        let waiting = VecDeque::new();
        Self { left, waiting, trying: None, counts: false, given: None, suspect, since: now, left_at: now }
    }

    /// Takes the next record of this topic-partition, `tp`; one that is to be tried stays until it is given.
    pub(crate) fn next(&mut self, tp: TopicPartition, permit: Permit) -> Next {
        let Some(first) = self.waiting.front() else { return Next::Wait };
        let (offset, is_claim) = (first.offset, is_claim(first));
        let condemned = self.suspected(Some(offset)).and_then(Suspect::condemned);
        if !is_claim && condemned.is_none() {
            (self.trying, self.counts) = (Some(offset), permit == Permit::Counts);
            return Next::Mark(tp, offset, permit);
        }
        match (self.waiting.pop_front(), condemned) {
            (None, _) => Next::Wait,
            (Some(record), Some(reason)) if !is_claim => Next::Reject(record, reason),
            (Some(record), _) => Next::Claim(record),
        }
    }

    /// Takes the record that was committed as `trying`.
    pub(crate) fn take_marked(&mut self) -> Option<ConsumerRecord> {
        self.waiting.pop_front_if(|first| Some(first.offset) == self.trying)
    }

    /// Withdraws the mark of the record that is tried; returns `false` if there is none.
    pub(crate) fn unmark(&mut self) -> bool {
        self.trying.take().is_some()
    }

    /// Handles a record that completed or was parked.
    pub(crate) fn done(&mut self, origin: Origin, now: Instant) {
        if self.given != Some(origin) {
            return;
        }
        (self.trying, self.given) = (None, None);
        self.suspect = self.suspect.filter(|suspect| suspect.offset != origin.offset);
        self.left = self.left.saturating_sub(1);
        self.left_at = now;
    }

    /// Returns `true` if a record is marked or in flight.
    pub(crate) fn is_trying(&self) -> bool {
        self.trying.is_some() || self.given.is_some()
    }

    /// Returns `true` if a panic counts against the record in flight.
    pub(crate) fn is_to_blame(&self, is_elsewhere: bool) -> bool {
        self.trying.is_some() && self.given.is_some() && (self.counts || !is_elsewhere)
    }

    /// Returns `true` if the quarantine is over: enough records passed, or there are no more.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.left == 0 || (self.waiting.is_empty() && now >= self.left_at + CAUGHT_UP)
    }

    /// Returns `true` if there is a record that need not wait.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        !self.is_over(now) && !self.waiting.is_empty() && !self.pauses(now)
    }

    /// Returns `true` if all other topic-partitions wait for this one.
    pub(crate) fn holds_others(&self, now: Instant) -> bool {
        self.given.is_some() || !self.pauses(now)
    }

    /// Returns `true` if the log should deliver no further record.
    pub(crate) fn is_occupied(&self) -> bool {
        self.given.is_some() || !self.waiting.is_empty()
    }

    /// Names the suspect in the metadata of a commit, and whether the end of the process counts against it; a suspect
    /// that was not retried yet is kept.
    pub(crate) fn annotate(&self, metadata: CommitMetadata) -> CommitMetadata {
        let (suspect, counts) = match self.trying {
            None => (self.suspect, false),
            Some(offset) => {
                let new = Suspect { offset, unexplained_ends: 0, crashes: 0 };
                (Some(self.suspected(self.trying).unwrap_or(new)), self.counts)
            }
        };
        CommitMetadata { suspect, untried: suspect.is_some() && !counts, ..metadata }
    }

    /// Returns the suspect if it is the record at `offset`.
    fn suspected(&self, offset: Option<Offset>) -> Option<Suspect> {
        self.suspect.filter(|suspect| Some(suspect.offset) == offset)
    }

    /// Returns `true` if the suspect is next and its pause has not elapsed.
    fn pauses(&self, now: Instant) -> bool {
        let suspect = self.suspected(self.waiting.front().map(|first| first.offset));
        now < self.since + suspect.map_or(Duration::ZERO, Suspect::pause)
    }
}
