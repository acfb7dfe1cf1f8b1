//! Applies the verdicts of the assignment state machine: opens, drains, closes and releases partitions.

use orbweaver_log::{Commit, Event, LogError, Offset, Partition, TopicPartition};
use orbweaver_messages::Topic;
use tokio::time::{Instant, sleep};

use crate::{
    Opening, Stage, StageError,
    alone::Alone,
    assignment::{TopicSet, Verdict},
    ledger::Ledger,
    metadata::{Metadata, Start},
    restore::{Opener, OpeningMessage, Progress, Ready, StartPoint},
    served::Place,
    tails::Waiter,
    trials::Work,
    turn::{Draining, Turns},
};

/// Plan batches per loop iteration: a drain also waits for this iteration's plans and rejects, submitted at its end.
const FLIGHTS_A_TURN: u64 = 2;

impl<S: Stage> Turns<S> {
    /// Handles an assignment, revocation or loss of partitions.
    pub(crate) async fn rebalanced(&mut self, event: Event) -> Result<(), StageError> {
        let counters = &self.metrics.partition_events;
        let (places, what, counter) = match &event {
            Event::Assigned(places) => (places, "assigned", &counters.assigned),
            Event::Revoked(places) => (places, "revoked", &counters.revoked),
            Event::Lost(places) => (places, "lost", &counters.lost),
            Event::Records(_) => return Ok(()),
        };
        counter.inc_by(places.len() as u64);
        tracing::info!(service = self.service, places = %listed(places), "{what}");
        for place in places {
            let Some(topic) = self.served.topic(place.topic) else { continue };
            let verdicts = match event {
                Event::Assigned(_) => {
                    // It may have been lost without an event, and is not paused now.
                    self.paused.remove(place);
                    self.assignment.assigned(place.partition, topic)
                }
                Event::Revoked(_) => self.assignment.revoked(place.partition, topic),
                Event::Lost(_) | Event::Records(_) => {
                    self.paused.remove(place);
                    self.assignment.lost(place.partition, topic)
                }
            };
            self.carry_out(verdicts).await?;
        }
        Ok(())
    }

    /// Starts the orderly shutdown: no new records are accepted, and work in flight may finish until the deadline.
    pub(crate) async fn shut_down(&mut self) -> Result<(), StageError> {
        tracing::info!(service = self.service, "shutting down: finishing work in flight");
        self.ends_by = Some(Instant::now() + self.config.shutdown_budget);
        let verdicts = self.assignment.shut_down();
        self.carry_out(verdicts).await
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
        let (now, oldest) = (Instant::now(), self.airborne.first().copied().unwrap_or(u64::MAX));
        let mut finished = vec![];
        for (&partition, draining) in &self.draining {
            let quiet = oldest >= draining.flights_below && self.served.is_quiet(partition);
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
            self.carry_out(verdicts).await?;
        }
        Ok(())
    }

    /// Reads the clock. A gap since the last check means that the process was suspended, or waited for as long.
    pub(crate) async fn read_clock(&mut self) -> Result<(), StageError> {
        self.now = self.clock.now();
        let gap = u64::try_from(self.now.saturating_sub(self.checked_ms)).unwrap_or(0);
        if u128::from(gap) >= self.config.frozen_after.as_millis() {
            self.prove_ownership(gap).await?;
            self.now = self.clock.now();
        }
        self.checked_ms = self.now;
        Ok(())
    }

    /// Commits before anything else, since a suspended process may have lost its partitions
    /// (docs/protocol.md#fenced-requests).
    async fn prove_ownership(&mut self, gap_ms: u64) -> Result<(), StageError> {
        self.metrics.freezes.inc();
        tracing::warn!(
            service = self.service,
            gap_ms,
            "the process was suspended; committing first to verify ownership"
        );
        let places: Vec<TopicPartition> = self.served.places().collect();
        let mut commits: Vec<(TopicPartition, Commit)> = vec![];
        for point in places.into_iter().filter_map(|place| self.served.commit_point(place)) {
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
        for (place, _) in gone {
            let Some(topic) = self.served.topic(place.topic) else { continue };
            let verdicts = self.assignment.lost(place.partition, topic);
            self.carry_out(verdicts).await?;
        }
        Ok(())
    }

    async fn carry_out(&mut self, verdicts: Vec<Verdict>) -> Result<(), StageError> {
        for verdict in verdicts {
            match verdict {
                Verdict::Begin { partition, epoch } => self.begin(partition, epoch),
                Verdict::Cancel { partition } => {
                    self.deferred.remove(&partition);
                    if let Some((opener, _)) = self.openers.remove(&partition) {
                        opener.abort();
                    }
                    self.stage.close(partition);
                }
                Verdict::Drain { partition } => {
                    self.stage.drain(partition);
                    self.served.stop_taking(partition);
                    let now = Instant::now();
                    let deadline = self.ends_by.unwrap_or(now + self.config.drain_budget);
                    self.draining
                        .insert(partition, Draining { deadline, flights_below: self.flown + FLIGHTS_A_TURN + 1 });
                }
                Verdict::Close { partition, commit } => self.close(partition, commit).await?,
                Verdict::HandBack { partition, topics } => {
                    let places = self.places(partition, topics);
                    self.paused.retain(|place| !places.contains(place));
                    match self.consumer.hand_back(&places) {
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
        let opener = Opener {
            log: self.log.clone(),
            service: self.service,
            group: self.group.clone(),
            partition,
            epoch,
            topics: self.topics,
            claims: self.stage.claims(),
            tails: self.stage.tails(),
            restores: self.stage.restores(partition),
            clock: self.clock.clone(),
            patience: self.config.restore_patience,
            crashers: self.crashers.values().flatten().cloned().collect(),
        };
        let running = opener.run(self.opening_permits.clone(), self.openings.0.clone());
        let task = tokio::spawn(self.metrics.cpu.wrap(running));
        self.openers.insert(partition, (task, Instant::now()));
    }

    /// Handles a message from a running restore.
    pub(crate) async fn opening(&mut self, message: OpeningMessage) -> Result<(), StageError> {
        let OpeningMessage { partition, epoch, progress } = message;
        if !self.assignment.is_restoring(partition, epoch) {
            return Ok(());
        }
        match progress? {
            Progress::Refresh(refreshed) => {
                self.followers.refresh(Some(Waiter::Opening(refreshed)));
                Ok(())
            }
            Progress::Distrusted(topic, reason) => {
                tracing::warn!(
                    service = self.service,
                    %topic,
                    partition,
                    reason,
                    "index discarded; rebuilding it from the log"
                );
                self.stage.distrust(partition, topic)
            }
            Progress::LooksBack(topic, answer) => {
                // A receiver that is gone belongs to a cancelled restore.
                let _ = answer.send(self.stage.looks_back_to(partition, topic));
                Ok(())
            }
            Progress::Records(records) => {
                self.metrics.restored.inc_by(records.len() as u64);
                self.watchdog.moved(Instant::now());
                for record in &records {
                    self.in_call = Some((partition, record.place, record.offset));
                    self.stage.restore(partition, record)?;
                }
                self.in_call = None;
                Ok(())
            }
            Progress::Ready(ready) => self.open(partition, epoch, ready).await,
        }
    }

    async fn open(&mut self, partition: Partition, epoch: u32, ready: Ready) -> Result<(), StageError> {
        if let Some((_, since)) = self.openers.remove(&partition) {
            self.metrics.restore_seconds.observe(since.elapsed().as_secs_f64());
        }
        let alone = self.count_start(&ready.starts).await?;
        if !self.assignment.restored(partition, epoch) {
            self.starts.retain(|place, _| place.partition != partition);
            return Ok(());
        }
        let claim = ready.claim.unwrap_or(0);
        let commit = ready.starts.first().map_or(0, |start| start.commit);
        let opening = Opening { partition, partitions: self.partitions, assignment: epoch, claim, commit };
        self.stage.prepare(opening, self.now)?;
        // It may have read much from disk.
        self.now = self.clock.now();
        self.stage.open(opening, self.now);
        let halt = |reason| StageError::Halted { service: self.service, reason };
        let places = ledgers(&ready.starts, self.stage.incomplete(partition)).map_err(halt)?;
        let incomplete: usize = places.iter().map(|place| place.ledger.outstanding()).sum();
        let from: Vec<(TopicPartition, Offset)> =
            places.iter().map(|place| (place.place, place.ledger.next())).collect();
        tracing::info!(service = self.service, partition, epoch, claim, incomplete, ?from, "opened");
        self.served.open(partition, epoch, places);
        for (place, start) in alone {
            tracing::warn!(
                service = self.service,
                %place,
                ?start,
                "quarantine: one record at a time after starts without progress"
            );
            self.alone.insert(place, Alone::new(self.config.alone_records, start.suspect));
        }
        for (place, from) in from {
            match self.consumer.start(place, from) {
                // Lost in the meantime; its event is on the way.
                Err(LogError::NotAssigned(_)) => continue,
                other => other?,
            }
            let full = self.served.budget().paused();
            self.adjust(place, full)?;
        }
        for (place, from) in ready.follow {
            self.followers.follow(place, from);
        }
        Ok(())
    }

    /// Commits the start counts, and returns the topic-partitions to be quarantined (docs/protocol.md#quarantine).
    /// Restored topics are skipped: their records take effect during the restore. A partition that turns out to be lost
    /// does not open.
    async fn count_start(&mut self, starts: &[StartPoint]) -> Result<Vec<(TopicPartition, Start)>, StageError> {
        let (mut commits, mut alone) = (vec![], vec![]);
        if let Some(first) = starts.first() {
            self.learn_crashers(first.place.partition, &first.metadata);
        }
        for point in starts.iter().filter(|point| point.restored_to.is_none()) {
            // Without uncommitted records, no record can have caused a crash.
            let last = if point.commit < point.end { point.metadata.clone() } else { Metadata::default() };
            let start = Start::after(&last);
            let (deaths, crashes) = start.suspect.map_or((0, 0), |suspect| (suspect.deaths, suspect.crashes));
            let (stage, crashers) = (point.metadata.stage.clone(), self.crashers_of(point.place));
            let starts = start.starts;
            // Its last end has been counted, and the next trial has not started.
            let (trying, untried) = (last.trying, last.trying.is_some());
            let metadata = Metadata { starts, trying, deaths, crashes, crashed: false, untried, crashers, stage };
            commits.push((point.place, metadata.commit(point.place, point.commit)?));
            self.starts.insert(point.place, (start, point.commit));
            if start.one_at_a_time {
                alone.push((point.place, start));
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
        self.alone.retain(|place, _| place.partition != partition);
        self.starts.retain(|place, _| place.partition != partition);
        tracing::info!(service = self.service, partition, "closed");
        Ok(())
    }

    fn places(&self, partition: Partition, topics: TopicSet) -> Vec<TopicPartition> {
        topics
            .iter()
            .filter_map(|topic| self.topics.get(topic))
            .map(|&topic| TopicPartition::new(topic, partition))
            .collect()
    }
}

/// Builds the ledgers of a partition, in the order of the topics.
///
/// # Errors
/// When an offset cannot be incomplete.
fn ledgers(starts: &[StartPoint], incomplete: impl Iterator<Item = (Topic, Offset)>) -> Result<Vec<Place>, String> {
    let mut ledgers: Vec<Ledger> = starts.iter().map(|start| Ledger::starting_at(start.commit)).collect();
    for (topic, offset) in incomplete {
        let mut places = starts.iter().zip(&mut ledgers);
        let restored = places.find_map(|(start, ledger)| {
            (start.place.topic == topic).then(|| Some((start, ledger, start.restored_to?))).flatten()
        });
        let Some((start, ledger, end)) = restored else {
            return Err(format!("offset {offset} of {topic} is reported as incomplete, but {topic} was not restored"));
        };
        if offset >= end || !ledger.deliver(offset) {
            let StartPoint { place, commit, .. } = start;
            let next = ledger.next();
            return Err(format!(
                "{place}: offset {offset} is reported as incomplete, but is outside of {commit} (commit point) to {end} \
                 (restore end), or out of order: the lowest allowed is {next}"
            ));
        }
    }
    let place = |(start, mut ledger): (&StartPoint, Ledger)| {
        if let Some(end) = start.restored_to {
            ledger.skip_to(end.max(start.commit));
        }
        Place::new(start.place, ledger, start.commit)
    };
    Ok(starts.iter().zip(ledgers).map(place).collect())
}

/// Formats topic-partitions for a log line: the first few, and the number of others.
fn listed(places: &[TopicPartition]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = places.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = places.len().saturating_sub(SHOWN);
    if more == 0 { shown.join(" ") } else { format!("{} and {more} more", shown.join(" ")) }
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::topic;
    use proptest::prelude::*;

    use super::*;

    fn start(commit: Offset, restored_to: Option<Offset>) -> StartPoint {
        let place = TopicPartition::new(topic::FRONTIER, 3);
        StartPoint { place, commit, end: 0, metadata: Metadata::default(), restored_to }
    }

    fn ledger(start: StartPoint, incomplete: impl IntoIterator<Item = Offset>) -> Result<Ledger, String> {
        let named = incomplete.into_iter().map(|offset| (topic::FRONTIER, offset));
        ledgers(&[start], named).map(|mut places| places.remove(0).ledger)
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
        assert_eq!(ledger(start(10, None), []).unwrap().next(), 10, "what was not restored is received");
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
