//! Applies the actions of the assignment state machine: opens, drains, closes and releases partitions.

use orbweaver_log::{Commit, Event, LogError, Offset, Partition, TopicPartition};
use orbweaver_messages::Topic;
use tokio::time::{Instant, sleep};

use crate::{
    PartitionContext, Stage, StageError,
    assignment::{PartitionAction, TopicSet},
    commit_metadata::{CommitMetadata, Start},
    event_loop::{Draining, EventLoop},
    ledger::Ledger,
    open_partitions::TopicPartitionState,
    quarantine::Quarantine,
    restore::{PartitionRestore, RestoreEvent, RestoreMessage, RestoreResult, StartPoint},
    tails::Waiter,
    trials::Work,
};

/// Plan batches per loop iteration: a drain also waits for this iteration's plans and rejects, submitted at its end.
const BATCHES_PER_TURN: u64 = 2;

impl<S: Stage> EventLoop<S> {
    /// Handles an assignment, revocation or loss of partitions.
    pub(crate) async fn rebalanced(&mut self, event: Event) -> Result<(), StageError> {
        let counters = &self.metrics.partition_events;
        let (tps, what, counter) = match &event {
            Event::Assigned(tps) => (tps, "assigned", &counters.assigned),
            Event::Revoked(tps) => (tps, "revoked", &counters.revoked),
            Event::Lost(tps) => (tps, "lost", &counters.lost),
            Event::Records(_) => return Ok(()),
        };
        counter.inc_by(tps.len() as u64);
        tracing::info!(service = self.service, tps = %listed(tps), "{what}");
        for tp in tps {
            let Some(topic) = self.served.topic(tp.topic) else { continue };
            let verdicts = match event {
                Event::Assigned(_) => {
                    // The topic-partition may have been lost without an event, and is not paused now.
                    self.paused.remove(tp);
                    self.assignment.assigned(tp.partition, topic)
                }
                Event::Revoked(_) => self.assignment.revoked(tp.partition, topic),
                Event::Lost(_) | Event::Records(_) => {
                    self.paused.remove(tp);
                    self.assignment.lost(tp.partition, topic)
                }
            };
            self.apply_actions(verdicts).await?;
        }
        Ok(())
    }

    /// Starts the orderly shutdown: no new records are accepted, and work in flight may finish until the deadline.
    pub(crate) async fn shut_down(&mut self) -> Result<(), StageError> {
        tracing::info!(service = self.service, "shutting down: finishing work in flight");
        self.ends_by = Some(Instant::now() + self.config.shutdown_budget);
        let verdicts = self.assignment.shut_down();
        self.apply_actions(verdicts).await
    }

    /// Returns `true` once shutdown has completed.
    pub(crate) fn is_over(&self) -> bool {
        self.ends_by.is_some() && self.draining.is_empty()
    }

    /// Closes draining partitions with nothing in flight or past their deadline.
    pub(crate) async fn finish_drains(&mut self) -> Result<(), StageError> {
        if self.draining.is_empty() {
            return Ok(());
        }
        let (now, oldest) = (Instant::now(), self.in_flight.first().copied().unwrap_or(u64::MAX));
        let mut finished = vec![];
        for (&partition, draining) in &self.draining {
            let quiet = oldest >= draining.batches_below && self.served.is_drained(partition);
            if !quiet && now >= draining.deadline {
                tracing::warn!(
                    service = self.service,
                    partition,
                    "not drained in time; the next owner repeats unfinished work"
                );
            }
            if quiet || now >= draining.deadline {
                finished.push(partition);
            }
        }
        for partition in finished {
            self.draining.remove(&partition);
            let verdicts = self.assignment.drained(partition);
            self.apply_actions(verdicts).await?;
        }
        Ok(())
    }

    /// Reads the clock. A gap since the last check means that the process was suspended, or waited for as long.
    pub(crate) async fn read_clock(&mut self) -> Result<(), StageError> {
        self.now = self.clock.now();
        let gap = u64::try_from(self.now.saturating_sub(self.checked_ms)).unwrap_or(0);
        if u128::from(gap) >= self.config.frozen_after.as_millis() {
            self.verify_ownership(gap).await?;
            self.now = self.clock.now();
        }
        self.checked_ms = self.now;
        Ok(())
    }

    /// Commits before anything else, since a suspended process may have lost its partitions
    /// (docs/protocol.md#fenced-requests).
    async fn verify_ownership(&mut self, gap_ms: u64) -> Result<(), StageError> {
        self.metrics.freezes.inc();
        tracing::warn!(
            service = self.service,
            gap_ms,
            "the process was suspended; committing first to verify ownership"
        );
        let tps: Vec<TopicPartition> = self.served.tps().collect();
        let mut commits: Vec<(TopicPartition, Commit)> = vec![];
        for point in tps.into_iter().filter_map(|tp| self.served.commit_point(tp)) {
            commits.push((point.0, self.metadata(point.0, point.1).commit(point.0, point.1)?));
        }
        // Retry transient failures for up to `commit_patience`; fencing is final.
        while !commits.is_empty() {
            let refused = self.send(commits).await?;
            self.lose(refused.gone).await?;
            commits = refused.for_now;
            let pause = sleep(self.config.commit_interval);
            if !commits.is_empty() && self.shutdown.run_until_cancelled(pause).await.is_none() {
                let reason = "shut down before the suspended process could verify its ownership".to_owned();
                return Err(StageError::Halted { service: self.service, reason });
            }
        }
        // No progress was possible in the meantime.
        self.watchdog.moved(Instant::now());
        Ok(())
    }

    /// Handles the loss of partitions, found by their refused commits.
    async fn lose(&mut self, gone: Vec<(TopicPartition, Commit)>) -> Result<(), StageError> {
        for (tp, _) in gone {
            let Some(topic) = self.served.topic(tp.topic) else { continue };
            let verdicts = self.assignment.lost(tp.partition, topic);
            self.apply_actions(verdicts).await?;
        }
        Ok(())
    }

    async fn apply_actions(&mut self, verdicts: Vec<PartitionAction>) -> Result<(), StageError> {
        for verdict in verdicts {
            match verdict {
                PartitionAction::Begin { partition, epoch } => self.begin(partition, epoch),
                PartitionAction::Cancel { partition } => {
                    self.deferred.remove(&partition);
                    if let Some((opener, _)) = self.restores.remove(&partition) {
                        opener.abort();
                    }
                    self.stage.close(partition);
                }
                PartitionAction::Drain { partition } => {
                    self.stage.drain(partition);
                    self.served.stop_taking(partition);
                    let now = Instant::now();
                    let deadline = self.ends_by.unwrap_or(now + self.config.drain_budget);
                    self.draining
                        .insert(partition, Draining { deadline, batches_below: self.flown + BATCHES_PER_TURN + 1 });
                }
                PartitionAction::Close { partition, commit } => self.close(partition, commit).await?,
                PartitionAction::Release { partition, topics } => {
                    let tps = self.tps(partition, topics);
                    self.paused.retain(|tp| !tps.contains(tp));
                    match self.consumer.release(&tps) {
                        // Lost in the meantime.
                        Ok(()) | Err(LogError::NotAssigned(_)) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        Ok(())
    }

    /// Starts to open a partition, after the running trial if there is one.
    fn begin(&mut self, partition: Partition, epoch: u32) {
        if self.trial.enter(Work::Opening) {
            self.start_opener(partition, epoch);
        } else {
            self.deferred.insert(partition, epoch);
        }
    }

    /// Starts to open the partitions that waited for the end of a trial.
    pub(crate) fn begin_deferred(&mut self) {
        if !self.deferred.is_empty() && self.trial.enter(Work::Opening) {
            for (partition, epoch) in std::mem::take(&mut self.deferred) {
                self.start_opener(partition, epoch);
            }
        }
    }

    fn start_opener(&mut self, partition: Partition, epoch: u32) {
        let opener = PartitionRestore {
            log: self.log.clone(),
            service: self.service,
            group: self.group.clone(),
            partition,
            epoch,
            topics: self.topics,
            claims: self.stage.claimed_topics(),
            tails: self.stage.tails(),
            restores: self.stage.restore_specs(partition),
            clock: self.clock.clone(),
            patience: self.config.restore_patience,
            crashers: self.crashers.values().flatten().cloned().collect(),
        };
        let running = opener.run(self.opening_permits.clone(), self.openings.0.clone());
        let task = tokio::spawn(self.metrics.cpu.wrap(running));
        self.restores.insert(partition, (task, Instant::now()));
    }

    /// Handles a message from a running restore.
    pub(crate) async fn opening(&mut self, message: RestoreMessage) -> Result<(), StageError> {
        let RestoreMessage { partition, epoch, progress } = message;
        if !self.assignment.is_restoring(partition, epoch) {
            return Ok(());
        }
        match progress? {
            RestoreEvent::Refresh(refreshed) => {
                self.followers.refresh(Some(Waiter::Opening(refreshed)));
                Ok(())
            }
            RestoreEvent::Distrusted(topic, reason) => {
                tracing::warn!(
                    service = self.service,
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
                self.metrics.restored.inc_by(records.len() as u64);
                self.watchdog.moved(Instant::now());
                for record in &records {
                    self.check_readable(record)?;
                    self.in_call = Some((partition, record.tp, record.offset));
                    self.stage.restore(partition, record)?;
                }
                self.in_call = None;
                Ok(())
            }
            RestoreEvent::Ready(ready) => self.open(partition, epoch, ready).await,
        }
    }

    async fn open(&mut self, partition: Partition, epoch: u32, ready: RestoreResult) -> Result<(), StageError> {
        if let Some((_, since)) = self.restores.remove(&partition) {
            self.metrics.restore_seconds.observe(since.elapsed().as_secs_f64());
        }
        let alone = self.count_start(&ready.starts).await?;
        if !self.assignment.restored(partition, epoch) {
            self.starts.retain(|tp, _| tp.partition != partition);
            return Ok(());
        }
        let claim = ready.claim.unwrap_or(0);
        let commit = ready.starts.first().map_or(0, |start| start.commit);
        let opening = PartitionContext {
            partition,
            partitions: self.partitions,
            assignment_epoch: epoch,
            owner_epoch: claim,
            commit,
        };
        self.stage.prepare(opening, self.now)?;
        // The stage may have read much from disk.
        self.now = self.clock.now();
        self.stage.open(opening, self.now);
        let halt = |reason| StageError::Halted { service: self.service, reason };
        let tps = ledgers(&ready.starts, self.stage.incomplete(partition)?).map_err(halt)?;
        let incomplete: usize = tps.iter().map(|tp| tp.ledger.outstanding()).sum();
        let from: Vec<(TopicPartition, Offset)> = tps.iter().map(|tp| (tp.tp, tp.ledger.next())).collect();
        tracing::info!(service = self.service, partition, epoch, claim, incomplete, ?from, "opened");
        self.served.open(partition, epoch, tps);
        for (tp, start) in alone {
            tracing::warn!(
                service = self.service,
                topic_partition = %tp,
                ?start,
                "quarantine: one record at a time after starts without progress"
            );
            self.alone.insert(tp, Quarantine::new(self.config.quarantine_records, start.suspect));
        }
        for (tp, from) in from {
            match self.consumer.start(tp, from) {
                // Lost in the meantime; its event is on the way.
                Err(LogError::NotAssigned(_)) => continue,
                other => other?,
            }
            let full = self.served.budget().paused();
            self.adjust(tp, full)?;
        }
        for (tp, from) in ready.follow {
            self.followers.follow(tp, from);
        }
        Ok(())
    }

    /// Commits the start counts, and returns the topic-partitions to be quarantined (docs/protocol.md#quarantine).
    /// Restored topics are skipped: their records take effect during the restore. A partition that turns out to be lost
    /// does not open.
    async fn count_start(&mut self, starts: &[StartPoint]) -> Result<Vec<(TopicPartition, Start)>, StageError> {
        let (mut commits, mut alone) = (vec![], vec![]);
        if let Some(first) = starts.first() {
            self.learn_crashers(first.tp.partition, &first.metadata);
        }
        for point in starts.iter().filter(|point| point.restored_to.is_none()) {
            // Without uncommitted records, no record can have caused a crash.
            let last = if point.commit < point.end { point.metadata.clone() } else { CommitMetadata::default() };
            let start = Start::after(&last);
            let (unexplained_ends, crashes) =
                start.suspect.map_or((0, 0), |suspect| (suspect.unexplained_ends, suspect.crashes));
            let (stage, crashers) = (point.metadata.stage.clone(), self.crashers_of(point.tp));
            let starts = start.starts;
            // The suspect's last end has been counted, and the next trial has not started.
            let (trying, untried) = (last.trying, last.trying.is_some());
            let metadata =
                CommitMetadata { starts, trying, unexplained_ends, crashes, crashed: false, untried, crashers, stage };
            commits.push((point.tp, metadata.commit(point.tp, point.commit)?));
            self.starts.insert(point.tp, (start, point.commit));
            if start.one_at_a_time {
                alone.push((point.tp, start));
            }
        }
        let refused = self.send(commits).await?;
        self.lose(refused.gone).await?;
        Ok(alone)
    }

    async fn close(&mut self, partition: Partition, commit: TopicSet) -> Result<(), StageError> {
        self.draining.remove(&partition);
        let points = self.served.commit_points(partition, commit);
        self.commit_last(points).await?;
        self.served.close(partition);
        self.stage.close(partition);
        self.followers.leave(partition);
        self.alone.retain(|tp, _| tp.partition != partition);
        self.starts.retain(|tp, _| tp.partition != partition);
        tracing::info!(service = self.service, partition, "closed");
        Ok(())
    }

    fn tps(&self, partition: Partition, topics: TopicSet) -> Vec<TopicPartition> {
        topics
            .iter()
            .filter_map(|topic| self.topics.get(topic))
            .map(|&topic| TopicPartition::new(topic, partition))
            .collect()
    }
}

/// Builds the ledgers of a partition, in the order of the topics.
fn ledgers(
    starts: &[StartPoint],
    incomplete: impl Iterator<Item = (Topic, Offset)>,
) -> Result<Vec<TopicPartitionState>, String> {
    let mut ledgers: Vec<Ledger> = starts.iter().map(|start| Ledger::starting_at(start.commit)).collect();
    for (topic, offset) in incomplete {
        let mut tps = starts.iter().zip(&mut ledgers);
        let restored = tps.find_map(|(start, ledger)| {
            (start.tp.topic == topic).then(|| Some((start, ledger, start.restored_to?))).flatten()
        });
        let Some((start, ledger, end)) = restored else {
            return Err(format!("offset {offset} of {topic} is reported as incomplete, but {topic} was not restored"));
        };
        if offset >= end || !ledger.deliver(offset) {
            let StartPoint { tp, commit, .. } = start;
            let next = ledger.next();
            return Err(format!(
                "{tp}: offset {offset} is reported as incomplete, but is outside of {commit} (commit point) to {end} \
                 (restore end), or out of order: the lowest allowed is {next}"
            ));
        }
    }
    let tp = |(start, mut ledger): (&StartPoint, Ledger)| {
        if let Some(end) = start.restored_to {
            ledger.skip_to(end.max(start.commit));
        }
        TopicPartitionState::new(start.tp, ledger, start.commit)
    };
    Ok(starts.iter().zip(ledgers).map(tp).collect())
}

/// Formats topic-partitions for a log line: the first few, and the number of others.
fn listed(tps: &[TopicPartition]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = tps.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = tps.len().saturating_sub(SHOWN);
    if more == 0 { shown.join(" ") } else { format!("{} and {more} more", shown.join(" ")) }
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::topic;
    use proptest::prelude::*;

    use super::*;

    fn start(commit: Offset, restored_to: Option<Offset>) -> StartPoint {
        let tp = TopicPartition::new(topic::FRONTIER, 3);
        StartPoint { tp, commit, end: 0, metadata: CommitMetadata::default(), restored_to }
    }

    fn ledger(start: StartPoint, incomplete: impl IntoIterator<Item = Offset>) -> Result<Ledger, String> {
        let named = incomplete.into_iter().map(|offset| (topic::FRONTIER, offset));
        ledgers(&[start], named).map(|mut tps| tps.remove(0).ledger)
    }

    #[test]
    fn after_a_restore_reading_goes_on_at_its_end_while_the_commit_stays() {
        let mut opened = ledger(start(10, Some(100)), [12, 40]).unwrap();
        assert_eq!((opened.commit_point(), opened.next(), opened.outstanding()), (12, 100, 2));
        assert!(opened.deliver(100) && opened.complete(12));
        assert_eq!(opened.commit_point(), 40);
        assert!(opened.complete(40));
        assert_eq!(opened.commit_point(), 100);
        assert_eq!(ledger(start(10, Some(100)), []).unwrap().commit_point(), 100);
        let empty = ledger(start(10, Some(7)), []).unwrap();
        assert_eq!((empty.commit_point(), empty.next()), (10, 10), "the commit point does not go back");
        assert_eq!(ledger(start(10, None), []).unwrap().next(), 10, "records that were not restored are received");
    }

    #[test]
    fn an_offset_that_cannot_be_incomplete_is_refused() {
        for wrong in [vec![9], vec![100], vec![Offset::MAX], vec![12, 12], vec![40, 12]] {
            let last = wrong.last().copied().unwrap();
            let reason = ledger(start(10, Some(100)), wrong).unwrap_err();
            let expected = format!(
                "crawl.frontier/3: offset {last} is reported as incomplete, but is outside of 10 (commit point) to 100"
            );
            assert!(reason.starts_with(&expected), "{reason}");
        }
        assert!(ledger(start(10, None), [12]).unwrap_err().ends_with("but crawl.frontier was not restored"));
    }

    #[test]
    fn twenty_million_incomplete_offsets_are_taken_one_by_one_into_two_and_a_half_megabytes() {
        let opened = ledger(start(0, Some(40_000_000)), 10_000_000..30_000_000).unwrap();
        assert_eq!((opened.outstanding(), opened.commit_point()), (20_000_000, 10_000_000));
        assert!(opened.bytes() < 2_600_000, "{} bytes", opened.bytes());
    }

    proptest! {
        #[test]
        fn what_is_named_is_incomplete_and_nothing_else(commit in 0u64..1000, named: std::collections::BTreeSet<u16>, end in 0u64..70_000) {
            let end = commit + end;
            let named: Vec<Offset> = named.into_iter().map(|offset| commit + Offset::from(offset)).take_while(|offset| *offset < end).collect();
            let mut opened = ledger(start(commit, Some(end)), named.iter().copied()).unwrap();
            prop_assert_eq!((opened.outstanding(), opened.next()), (named.len(), end));
            for offset in named {
                prop_assert_eq!(opened.commit_point(), offset);
                prop_assert!(opened.complete(offset));
            }
            prop_assert_eq!(opened.commit_point(), end);
        }
    }
}
