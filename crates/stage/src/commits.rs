//! When commits are sent, how long they are refused, and the start counts that they carry. Pure.

use std::{collections::HashMap, time::Duration};

use orbweaver_log::{Offset, Partition, TopicPartition};
use tokio::time::Instant;

use crate::RunnerConfig;

/// While nothing is in flight, the minimum time between commits is this fraction of the interval.
const IDLE_SHARE: u32 = 10;
/// Number of ownership checks per `frozen_after`, for a stage that needs proof.
const PROOFS: u32 = 4;

/// State of the loop on which the time of the next commit depends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand {
    /// Something completed since the commit points were last checked.
    pub(crate) is_dirty: bool,
    /// Nothing is in flight.
    pub(crate) is_idle: bool,
    /// The stage needs proof of the ownership of open partitions.
    pub(crate) needs_proof: bool,
}

#[derive(Debug)]
pub(crate) struct Commits {
    interval: Duration,
    patience: Duration,
    frozen_after: Duration,
    committed_at: Instant,
    /// Time at which a commit was last sent, accepted or not.
    sent_at: Instant,
    /// Time since which commits are refused.
    refused_since: Option<Instant>,
    /// Time since which there are completed offsets that are not committed.
    uncommitted_since: Option<Instant>,
    /// Start counts, with the commit points at which they were counted.
    starts: HashMap<TopicPartition, (u32, Offset)>,
}

impl Commits {
    pub(crate) fn new(config: &RunnerConfig, now: Instant) -> Self {
        Self {
            interval: config.commit_interval,
            patience: config.commit_patience,
            frozen_after: config.frozen_after,
            committed_at: now,
            sent_at: now,
            refused_since: None,
            uncommitted_since: None,
            starts: HashMap::new(),
        }
    }

    /// Returns the time of the next commit, if there is anything to commit.
    pub(crate) fn due_at(&self, demand: Demand) -> Option<Instant> {
        let is_idle = demand.is_idle && self.refused_since.is_none();
        let interval = if is_idle { self.interval / IDLE_SHARE } else { self.interval };
        let due = demand.is_dirty.then(|| self.committed_at + interval);
        due.into_iter().chain(self.proof_at(demand)).min()
    }

    /// Returns the time of the next commit whose only purpose is to verify ownership.
    pub(crate) fn proof_at(&self, demand: Demand) -> Option<Instant> {
        demand.needs_proof.then(|| self.sent_at + self.frozen_after / PROOFS)
    }

    /// Notes that there are completed offsets that are not committed.
    pub(crate) fn completed(&mut self, now: Instant) {
        self.uncommitted_since.get_or_insert(now);
    }

    /// Notes that no commit point moved: what completed is above them, and is checked again after another interval.
    pub(crate) fn unmoved(&mut self, now: Instant) {
        self.committed_at = now;
        self.uncommitted_since = None;
    }

    /// Notes that a commit was accepted.
    pub(crate) fn accepted(&mut self, now: Instant) {
        (self.committed_at, self.sent_at) = (now, now);
        (self.refused_since, self.uncommitted_since) = (None, None);
    }

    /// Notes that a commit was answered with an error. Returns `true` if commits have been refused for too long.
    pub(crate) fn refused(&mut self, now: Instant) -> bool {
        (self.committed_at, self.sent_at) = (now, now);
        now.duration_since(*self.refused_since.get_or_insert(now)) >= self.patience
    }

    /// Notes that a commit was refused for a topic-partition that is no longer assigned.
    pub(crate) fn not_assigned(&mut self, now: Instant) {
        (self.committed_at, self.sent_at) = (now, now);
    }

    /// Returns the time since which there are completed offsets that are not committed.
    pub(crate) fn uncommitted_since(&self) -> Option<Instant> {
        self.uncommitted_since
    }

    /// Sets the start count of an opening at its commit point.
    pub(crate) fn count_start(&mut self, tp: TopicPartition, starts: u32, commit: Offset) {
        self.starts.insert(tp, (starts, commit));
    }

    /// Returns the start count to be committed with `offset`: progress resets it.
    pub(crate) fn starts(&self, tp: TopicPartition, offset: Offset) -> u32 {
        self.starts.get(&tp).filter(|(_, commit)| offset <= *commit).map_or(0, |(starts, _)| *starts)
    }

    /// Forgets the start counts of a partition: it ended in order, or did not open.
    pub(crate) fn reset_starts(&mut self, partition: Partition) {
        self.starts.retain(|tp, _| tp.partition != partition);
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::topic;

    use super::*;

    const NOTHING: Demand = Demand { is_dirty: false, is_idle: false, needs_proof: false };
    const DIRTY: Demand = Demand { is_dirty: true, ..NOTHING };

    fn commits() -> (Commits, Instant) {
        let begun = Instant::now();
        (Commits::new(&RunnerConfig::default(), begun), begun)
    }

    #[test]
    fn a_commit_is_due_after_an_interval_and_sooner_while_nothing_is_in_flight() {
        let (mut commits, begun) = commits();
        let after = |commits: &Commits, demand| commits.due_at(demand).map(|at| (at - begun).as_millis());
        assert_eq!(after(&commits, NOTHING), None);
        assert_eq!(
            [DIRTY, Demand { is_idle: true, ..DIRTY }].map(|demand| after(&commits, demand)),
            [Some(50), Some(5)]
        );
        assert!(!commits.refused(begun));
        assert_eq!(after(&commits, Demand { is_idle: true, ..DIRTY }), Some(50), "refused commits are not hurried");
        commits.accepted(begun + Duration::from_millis(30));
        assert_eq!(after(&commits, DIRTY), Some(80));
    }

    #[test]
    fn ownership_is_verified_four_times_per_span_although_nothing_is_to_be_committed() {
        let (mut commits, begun) = commits();
        let proof = Demand { needs_proof: true, ..NOTHING };
        assert_eq!(commits.due_at(proof), Some(begun + Duration::from_secs(5)));
        assert_eq!(commits.due_at(Demand { is_dirty: true, ..proof }), Some(begun + Duration::from_millis(50)));
        commits.unmoved(begun + Duration::from_secs(4));
        assert_eq!(commits.due_at(proof), Some(begun + Duration::from_secs(5)), "nothing was sent");
        commits.refused(begun + Duration::from_secs(5));
        assert_eq!(commits.due_at(proof), Some(begun + Duration::from_secs(10)));
    }

    #[test]
    fn commits_that_are_refused_for_a_minute_in_a_row_end_the_stage() {
        let (mut commits, begun) = commits();
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert!(!commits.refused(at(10)) && !commits.refused(at(69)));
        commits.accepted(at(69));
        assert!(!commits.refused(at(70)) && !commits.refused(at(129)) && commits.refused(at(130)));
    }

    #[test]
    fn completions_age_until_a_commit_is_accepted() {
        let (mut commits, begun) = commits();
        commits.completed(begun);
        commits.completed(begun + Duration::from_secs(1));
        commits.refused(begun + Duration::from_secs(2));
        assert_eq!(commits.uncommitted_since(), Some(begun));
        commits.accepted(begun + Duration::from_secs(3));
        assert_eq!(commits.uncommitted_since(), None);
    }

    #[test]
    fn progress_and_an_orderly_end_reset_the_start_count() {
        let (mut commits, _) = commits();
        let tp = TopicPartition::new(topic::SEEDS, 1);
        commits.count_start(tp, 3, 7);
        assert_eq!([7, 8].map(|offset| commits.starts(tp, offset)), [3, 0]);
        commits.reset_starts(1);
        assert_eq!(commits.starts(tp, 7), 0);
    }
}
