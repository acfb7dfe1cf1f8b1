//! Partitions come and go: applies the actions of the rebalance.

use std::{collections::BTreeSet, time::Duration};

use orbweaver_log::{Event, Offset, Partition, TopicPartition};
use tokio::time::Instant;

use super::{EventLoop, commits::Then};
use crate::{
    PartitionContext, Stage, StageError,
    assignment::{Change, Drain, PartitionAction},
    claim::is_claim,
    commit_metadata::{CommitMetadata, Start},
    opening::ledgers,
    restore::{PartitionRestore, RestoreEvent, RestoreMessage, RestoreResult},
    tails::Waiter,
    trials::Work,
};

/// A restored partition whose start is being counted.
pub(super) struct Restored {
    partition: Partition,
    epoch: u32,
    ready: RestoreResult,
    /// Topic-partitions to be quarantined.
    quarantined: Vec<(TopicPartition, Start)>,
}

impl<S: Stage> EventLoop<S> {
    /// Handles an assignment, revocation or loss of partitions.
    pub(super) fn rebalanced(&mut self, event: Event) -> Result<(), StageError> {
        let [assigned, revoked, lost] = &self.context.metrics.partition_events;
        let (tps, change, what, counter) = match event {
            Event::Assigned(tps) => (tps, Change::Assigned, "assigned", assigned),
            Event::Revoked(tps) => (tps, Change::Revoked, "revoked", revoked),
            Event::Lost(tps) => (tps, Change::Lost, "lost", lost),
            Event::Records(_) => return Ok(()),
        };
        counter.inc_by(tps.len() as u64);
        tracing::info!(service = self.context.service, tps = %listed(&tps), "{what}");
        if change != Change::Revoked {
            // A topic-partition may have been lost without an event before it was assigned.
            for tp in &tps {
                self.polling.forget(*tp);
                self.pending.forget(*tp);
            }
        }
        self.change(change, &tps)
    }

    /// Handles the loss of topic-partitions, found by their refused commits.
    pub(super) fn lose(&mut self, tps: &[TopicPartition]) -> Result<(), StageError> {
        tps.iter().for_each(|tp| self.pending.forget(*tp));
        self.change(Change::Lost, tps)
    }

    fn change(&mut self, change: Change, tps: &[TopicPartition]) -> Result<(), StageError> {
        let drain = self.drain_within(self.context.config.drain_budget);
        let actions = self.assignment.change(change, tps, drain);
        self.apply(actions)
    }

    fn drain_within(&self, budget: Duration) -> Drain {
        Drain { deadline: Instant::now() + budget, barrier: self.in_flight.barrier() }
    }

    /// Starts the orderly shutdown: no new records are accepted, and work in flight may finish until the deadline.
    pub(super) fn shut_down(&mut self) -> Result<(), StageError> {
        tracing::info!(service = self.context.service, "shutting down: finishing work in flight");
        let actions = self.assignment.shut_down(self.drain_within(self.context.config.shutdown_budget));
        self.apply(actions)
    }

    /// Returns `true` once shutdown has completed.
    pub(super) fn is_over(&self) -> bool {
        self.assignment.is_over() && self.pending.is_empty()
    }

    /// Closes draining partitions with nothing in flight or past their deadline.
    pub(super) fn finish_drains(&mut self) -> Result<(), StageError> {
        let Self { assignment, in_flight, open, stage, .. } = self;
        let is_quiet = |partition, barrier| {
            in_flight.is_past(barrier) && open.is_drained(partition) && stage.is_drained(partition)
        };
        let (actions, unfinished) = assignment.drained(Instant::now(), is_quiet);
        for partition in unfinished {
            tracing::warn!(
                service = self.context.service,
                partition,
                "not drained in time; the next owner repeats unfinished work"
            );
        }
        self.apply(actions)
    }

    fn apply(&mut self, actions: Vec<PartitionAction>) -> Result<(), StageError> {
        for action in actions {
            match action {
                PartitionAction::Begin { partition, epoch } => {
                    self.stage.assigned(partition);
                    self.restores.defer(partition, epoch);
                    self.begin_deferred();
                }
                PartitionAction::Cancel { partition } => {
                    self.restores.cancel(partition);
                    self.stage.close(partition);
                }
                PartitionAction::Drain { partition } => {
                    self.stage.drain(partition);
                    self.open.stop_taking(partition);
                }
                PartitionAction::Close { partition, commit } => self.close(partition, &commit)?,
                PartitionAction::Release(tps) => self.pending.release(tps),
            }
        }
        Ok(())
    }

    /// Starts to open partitions, once no trial is running and no commit names them.
    pub(super) fn begin_deferred(&mut self) {
        let pending = &self.pending;
        let is_free = |partition| !pending.names(partition);
        if self.restores.has_deferred(is_free) && self.quarantine.trial.enter(Work::Opening) {
            for (partition, epoch) in self.restores.take_deferred(is_free) {
                self.start_restore(partition, epoch);
            }
        }
    }

    /// Releases revoked topic-partitions whose last commits are answered.
    pub(super) fn release_partitions(&mut self) -> Result<(), StageError> {
        let tps = self.pending.take_releases();
        if tps.is_empty() { Ok(()) } else { Ok(self.polling.release(&tps)?) }
    }

    fn start_restore(&mut self, partition: Partition, epoch: u32) {
        let restore = PartitionRestore {
            context: self.context.clone(),
            partition,
            epoch,
            starts: self
                .context
                .topics
                .iter()
                .map(|&topic| self.stage.start_from(TopicPartition::new(topic, partition)))
                .collect(),
            claims: self.stage.claimed_topics(),
            tails: self.stage.tails(),
            restores: self.stage.restore_specs(partition),
            crashers: self.poison.all(),
        };
        self.restores.start(restore);
    }

    /// Handles a message from a running restore.
    pub(super) fn restoring(&mut self, message: RestoreMessage) -> Result<(), StageError> {
        let RestoreMessage { partition, epoch, progress } = message;
        if !self.assignment.is_restoring(partition, epoch) {
            return Ok(());
        }
        match progress? {
            RestoreEvent::Refresh(refreshed) => {
                self.tails.refresh(Some(Waiter::Opening(refreshed)));
                Ok(())
            }
            RestoreEvent::Distrusted(topic, reason) => {
                tracing::warn!(
                    service = self.context.service,
                    %topic,
                    partition,
                    reason,
                    "index discarded; rebuilding it from the log"
                );
                self.stage.discard_index(partition, topic)
            }
            RestoreEvent::LooksBack(topic, answer) => {
                // A receiver that is gone belongs to a cancelled restore.
                let _ = answer.send(self.stage.look_back_offset(partition, topic));
                Ok(())
            }
            RestoreEvent::Records(records) => {
                let claims = records.iter().filter(|record| is_claim(record)).count();
                self.context.metrics.restored.inc_by((records.len() - claims) as u64);
                self.watchdog.moved(Instant::now());
                for record in &records {
                    if is_claim(record) {
                        self.stage.restore_claim(partition, record.tp, record.offset);
                        continue;
                    }
                    // Without it the state would be wrong.
                    record.check_readable()?;
                    self.poison.enter_restore(partition, record);
                    self.stage.restore(partition, record)?;
                }
                self.poison.leave();
                Ok(())
            }
            RestoreEvent::Ready(ready) => self.count_start(partition, epoch, ready),
        }
    }

    /// Commits the start counts before the partition opens (docs/protocol.md#quarantine). Restored topics are skipped:
    /// their records take effect during the restore.
    fn count_start(&mut self, partition: Partition, epoch: u32, ready: RestoreResult) -> Result<(), StageError> {
        let (mut commits, mut quarantined) = (vec![], vec![]);
        if let Some(first) = ready.starts.first() {
            self.poison.learn(partition, &first.metadata);
        }
        for point in ready.starts.iter().filter(|point| point.restored_to.is_none()) {
            let start = point.counted();
            let metadata = CommitMetadata { crashers: self.crashers_of(point.tp), ..point.metadata_of(start) };
            commits.push((point.tp, metadata.commit(point.tp, point.commit)?));
            self.commits.count_start(point.tp, start.starts, point.commit);
            if start.one_at_a_time {
                quarantined.push((point.tp, start));
            }
        }
        let restored = Restored { partition, epoch, ready, quarantined };
        self.pending.queue(commits, Then::Open(Box::new(restored)));
        Ok(())
    }

    /// Opens a restored partition, unless it was lost or revoked meanwhile.
    pub(super) fn open(&mut self, restored: Restored) -> Result<(), StageError> {
        let Restored { partition, epoch, ready, quarantined } = restored;
        if !self.assignment.restored(partition, epoch) {
            self.commits.reset_starts(partition);
            return Ok(());
        }
        if let Some(since) = self.restores.finish(partition) {
            self.context.metrics.restore_seconds.observe(since.elapsed().as_secs_f64());
        }
        let claim = ready.claim.unwrap_or(0);
        let commit_of = |topic: usize| ready.starts.get(topic).map_or(0, |start| start.commit);
        let opening = PartitionContext {
            partition,
            partitions: self.context.partitions,
            assignment_epoch: epoch,
            owner_epoch: claim,
            commits: [commit_of(0), commit_of(1), commit_of(2)],
        };
        self.stage.prepare(opening, self.time.now())?;
        // The stage may have read much from disk.
        self.stage.open(opening, self.time.read());
        let incomplete = self.stage.incomplete(partition)?;
        let tps = ledgers(&ready.starts, incomplete).map_err(|reason| self.context.halted(reason))?;
        let incomplete: usize = tps.iter().map(|tp| tp.ledger.outstanding()).sum();
        let from: Vec<(TopicPartition, Offset)> = tps.iter().map(|tp| (tp.tp, tp.ledger.next())).collect();
        tracing::info!(service = self.context.service, partition, epoch, claim, incomplete, ?from, "opened");
        self.open.open(partition, epoch, tps);
        for (tp, start) in quarantined {
            tracing::warn!(
                service = self.context.service,
                topic_partition = %tp,
                ?start,
                "quarantine: one record at a time after starts without progress"
            );
            self.quarantine.admit(tp, start.suspect, Instant::now());
        }
        for (tp, from) in from {
            if self.polling.start(tp, from)? {
                self.polling.adjust(tp, self.quarantine.occupied(tp))?;
            }
        }
        ready.follow.into_iter().for_each(|(tp, from)| self.tails.follow(tp, from));
        Ok(())
    }

    /// Closes a partition; its last commit is queued.
    fn close(&mut self, partition: Partition, commit: &BTreeSet<TopicPartition>) -> Result<(), StageError> {
        self.commit_last(partition, commit)?;
        self.open.close(partition);
        self.stage.close(partition);
        self.tails.leave(partition);
        self.quarantine.close(partition);
        tracing::info!(service = self.context.service, partition, "closed");
        Ok(())
    }
}

/// Formats topic-partitions for a log line: the first few, and the number of others.
fn listed(tps: &[TopicPartition]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = tps.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = tps.len().saturating_sub(SHOWN);
    if more == 0 { shown.join(" ") } else { format!("{} and {more} more", shown.join(" ")) }
}
