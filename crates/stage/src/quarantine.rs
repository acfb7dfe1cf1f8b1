//! Quarantine (docs/protocol.md#quarantine): after a crash loop, records are delivered one at a time in the whole
//! process, and the poison record is dead-lettered.

use std::{
    collections::VecDeque,
    ops::Bound::{Excluded, Unbounded},
    time::Duration,
};

use orbweaver_log::{Commit, ConsumerRecord, LogError, Offset, Partition, TopicPartition};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Origin, Stage, StageError,
    claim::is_claim,
    commit_metadata::{CRASHERS, CRASHES, CommitMetadata, Crasher, Suspect, count_crash, is_condemned},
    dead_letter::DeadLetterBatch,
    event_loop::EventLoop,
    open_partitions::Delivery,
    trials::{Permit, Work},
};

/// Timeout for the last commit of a process that ends, and for each read and write that belongs to it.
const NOTE_WITHIN: Duration = Duration::from_secs(5);
/// Time without a record after which a topic-partition counts as caught up; the others are paused meanwhile.
const CAUGHT_UP: Duration = Duration::from_secs(5);

/// A topic-partition in quarantine.
#[derive(Debug)]
pub(crate) struct Quarantine {
    /// Number of records that are still to be delivered one at a time.
    pub(crate) left: usize,
    /// Delivered and not yet passed to the stage: the records of one poll, since the topic-partition is paused
    /// afterwards.
    pub(crate) waiting: VecDeque<ConsumerRecord>,
    /// The record that was committed as `trying`.
    pub(crate) trying: Option<Offset>,
    /// Whether nothing else is in flight in the process during this trial.
    pub(crate) counts: bool,
    /// Origin of that record, once the stage has it.
    pub(crate) given: Option<Origin>,
    /// Record that was in flight alone when the previous process ended.
    pub(crate) suspect: Option<Suspect>,
    since: Instant,
    /// Time at which the last of its records completed or was parked, or of its opening.
    left_at: Instant,
}

impl Quarantine {
    pub(crate) fn new(left: usize, suspect: Option<Suspect>) -> Self {
        let now = Instant::now();
        let waiting = VecDeque::new();
        Self { left, waiting, trying: None, counts: false, given: None, suspect, since: now, left_at: now }
    }

    /// Returns the suspect if it is the record at `offset`.
    fn suspected(&self, offset: Option<Offset>) -> Option<Suspect> {
        self.suspect.filter(|suspect| Some(suspect.offset) == offset)
    }

    /// Returns `true` if the quarantine is over: enough records passed, or there are no more.
    fn is_over(&self, now: Instant) -> bool {
        self.left == 0 || (self.waiting.is_empty() && now >= self.left_at + CAUGHT_UP)
    }

    /// Returns `true` if there is a record that need not wait.
    fn is_due(&self, now: Instant) -> bool {
        !self.is_over(now) && !self.waiting.is_empty() && !self.pauses(now)
    }

    /// Returns `true` if the suspect is next and its pause has not elapsed.
    fn pauses(&self, now: Instant) -> bool {
        let suspect = self.suspected(self.waiting.front().map(|first| first.offset));
        now < self.since + suspect.map_or(Duration::ZERO, Suspect::pause)
    }

    /// Returns `true` if all other topic-partitions wait for this one.
    pub(crate) fn holds_others(&self, now: Instant) -> bool {
        self.given.is_some() || !self.pauses(now)
    }

    /// Returns the suspect to be named in a commit, and whether the end of the process counts against it; a suspect
    /// that was not retried yet is kept.
    pub(crate) fn suspect(&self) -> Option<(Suspect, bool)> {
        let Some(offset) = self.trying else { return self.suspect.map(|suspect| (suspect, false)) };
        let new = Suspect { offset, unexplained_ends: 0, crashes: 0 };
        Some((self.suspected(self.trying).unwrap_or(new), self.counts))
    }

    /// Returns `true` if the log should deliver no further record.
    pub(crate) fn is_occupied(&self) -> bool {
        self.given.is_some() || !self.waiting.is_empty()
    }
}

impl<S: Stage> EventLoop<S> {
    /// Handles a quarantined record that completed or was parked.
    pub(crate) fn quarantined_done(&mut self, origin: Origin) {
        if self.alone.is_empty() {
            return;
        }
        if let Some(alone) = self.alone.get_mut(&origin.tp).filter(|alone| alone.given == Some(origin)) {
            (alone.trying, alone.given) = (None, None);
            alone.suspect = alone.suspect.filter(|suspect| suspect.offset != origin.offset);
            alone.left = alone.left.saturating_sub(1);
            alone.left_at = Instant::now();
        }
    }

    /// Passes one record from a quarantined topic-partition to the stage if nothing else is in flight in the process:
    /// all other topic-partitions are paused meanwhile.
    pub(crate) async fn feed_quarantined(&mut self) -> Result<(), StageError> {
        if self.alone.is_empty() {
            self.trial.withdraw();
            return Ok(());
        }
        if self.alone.values().any(|alone| alone.given.is_some()) || !self.is_idle() {
            return Ok(());
        }
        let now = Instant::now();
        self.trial.complete(now);
        if let Some(tp) = self.alone.iter().find(|(_, alone)| alone.is_over(now)).map(|(&tp, _)| tp) {
            self.trial.end();
            if self.trial.enter(Work::Records) {
                return self.end_quarantine(tp);
            }
        }
        let Some(tp) = self.next_quarantined(now) else {
            self.trial.withdraw();
            return Ok(());
        };
        if let Some(permit) = self.trial.begin(now) {
            self.fed = Some(tp);
            self.feed(tp, permit).await?;
        }
        Ok(())
    }

    /// Returns the topic-partition whose record is tried next: round robin.
    fn next_quarantined(&self, now: Instant) -> Option<TopicPartition> {
        let is_due = |(&tp, alone): (&TopicPartition, &Quarantine)| {
            (alone.is_due(now) && !self.draining.contains_key(&tp.partition)).then_some(tp)
        };
        let after = self.fed.and_then(|fed| self.alone.range((Excluded(fed), Unbounded)).find_map(is_due));
        after.or_else(|| self.alone.iter().find_map(is_due))
    }

    fn end_quarantine(&mut self, tp: TopicPartition) -> Result<(), StageError> {
        let waiting = self.alone.remove(&tp).map(|alone| alone.waiting).unwrap_or_default();
        let full = self.served.budget().paused();
        self.adjust(tp, full)?;
        self.records(waiting.into())
    }

    /// Withdraws the marks of the records being tried: the stage ends with an error and has reported its reason. Best
    /// effort.
    pub(crate) async fn withdraw_trials(&mut self) {
        let tried: Vec<TopicPartition> =
            self.alone.iter().filter(|(_, alone)| alone.trying.is_some()).map(|(&tp, _)| tp).collect();
        for tp in tried {
            if let Some(alone) = self.alone.get_mut(&tp) {
                alone.trying = None;
            }
            let points = self.served.commit_point(tp).into_iter().collect();
            let _ = timeout(NOTE_WITHIN, self.commit(points)).await;
        }
    }

    /// Records a crash, and the record that was in flight alone, or being restored or tailed. Best effort: without this
    /// the end counts as unexplained.
    pub(crate) async fn note_crash(&mut self) {
        let noted = match self.in_call.take() {
            Some((partition, tp, offset)) => {
                // The record that is being tried did not cause this crash.
                self.withdraw_trials().await;
                self.note_crasher(partition, tp, offset).await
            }
            None => self.note_suspect().await,
        };
        if let Err(error) = noted {
            tracing::warn!(
                service = self.service,
                %error,
                "the crash was not recorded; it counts as an unexplained end"
            );
        }
    }

    /// Loads the poison records among restored and tailed records, independently of the partitions assigned to this
    /// process.
    pub(crate) async fn load_crashers(&mut self) {
        let tps: Vec<_> = (0..self.partitions).map(|number| TopicPartition::new(self.topics[0], number)).collect();
        let commits = match self.log.committed(&self.group, &tps).await {
            Ok(commits) => commits,
            // Opening a partition loads its poison records too.
            Err(error) => {
                return tracing::warn!(
                    service = self.service,
                    %error,
                    "poison records could not be loaded; retrying as partitions are opened"
                );
            }
        };
        for (tp, commit) in tps.into_iter().zip(commits) {
            self.learn_crashers(tp.partition, &CommitMetadata::read(&commit.unwrap_or_default().metadata));
        }
    }

    /// Takes the poison records from the commit metadata of a partition.
    pub(crate) fn learn_crashers(&mut self, partition: Partition, metadata: &CommitMetadata) {
        let condemned: Vec<Crasher> =
            metadata.crashers.iter().filter(|crasher| crasher.is_condemned()).cloned().collect();
        self.crashers.remove(&partition);
        if !condemned.is_empty() {
            self.crashers.insert(partition, condemned);
        }
    }

    /// Returns `true` if a partition is open or being opened. Without one, tailed records wait: a crash in their call
    /// could be recorded nowhere, and would be repeated at every start.
    pub(crate) fn can_note(&self) -> bool {
        !self.restores.is_empty() || self.served.partitions().next().is_some()
    }

    /// Prepares the call of the stage for a tailed record; returns `false` for a poison record.
    pub(crate) fn enters_call(&mut self, record: &ConsumerRecord) -> bool {
        let ConsumerRecord { tp, offset, .. } = *record;
        if self.crashers.values().any(|crashers| is_condemned(crashers, tp, offset)) {
            return false;
        }
        let own = self.served.partitions().find(|number| *number == tp.partition);
        let some = || self.served.partitions().chain(self.restores.keys().copied()).min();
        self.in_call = own.or_else(some).map(|partition| (partition, tp, offset));
        true
    }

    async fn note_suspect(&mut self) -> Result<(), StageError> {
        // A panic in this loop always counts against the record, since this stage was quiet; any other panic counts
        // only if the whole process was quiet.
        let is_elsewhere = self.trial.panicked().is_cancelled();
        let is_tried = |alone: &Quarantine| alone.trying.is_some() && (alone.counts || !is_elsewhere);
        let tried: Vec<TopicPartition> =
            self.alone.iter().filter(|(_, alone)| is_tried(alone)).map(|(&tp, _)| tp).collect();
        for (tp, offset) in tried.into_iter().filter_map(|tp| self.served.commit_point(tp)).collect::<Vec<_>>() {
            let metadata = CommitMetadata { crashed: true, untried: false, ..self.metadata(tp, offset) };
            self.note(tp, metadata.commit(tp, offset)?).await?;
        }
        Ok(())
    }

    /// Sends a last commit, in spite of transient refusals.
    async fn note(&mut self, tp: TopicPartition, commit: Commit) -> Result<(), StageError> {
        let pause = self.config.commit_interval;
        in_time(async {
            let mut commits = vec![(tp, commit)];
            loop {
                let refused = self.send(commits).await?;
                if !refused.gone.is_empty() {
                    return Err(StageError::Log(LogError::NotAssigned(tp)));
                }
                commits = refused.for_now;
                if commits.is_empty() {
                    return Ok(());
                }
                sleep(pause).await;
            }
        })
        .await
    }

    /// Counts the crash at a restored or tailed record; if this condemns it, it goes to the dead letters.
    async fn note_crasher(
        &mut self,
        partition: Partition,
        tp: TopicPartition,
        offset: Offset,
    ) -> Result<(), StageError> {
        let first = TopicPartition::new(self.topics[0], partition);
        let last = in_time(self.log.committed(&self.group, &[first])).await?.pop().flatten().unwrap_or_default();
        let mut metadata = CommitMetadata::read(&last.metadata);
        let Some(crashes) = count_crash(&mut metadata.crashers, tp, offset) else {
            tracing::error!(
                service = self.service,
                topic_partition = %tp,
                offset,
                condemned = CRASHERS,
                "crashed at a restored or tailed record, and no further poison record can be recorded: every start will \
                 crash here until the cause is fixed"
            );
            return Ok(());
        };
        tracing::error!(service = self.service, topic_partition = %tp, offset, crashes, "crashed at a restored or tailed record");
        if crashes == CRASHES {
            // While commits are refused, each further crash would send the letter again.
            self.note(first, last.clone()).await?;
            let reason =
                format!("the process crashed {crashes} times in a row while this record was restored or tailed");
            let origin = Origin { tp, offset, assignment_epoch: 0 };
            // The consumer of its topic ends the work that it belongs to.
            let ends = |_: &ConsumerRecord, _| vec![];
            let rejection =
                DeadLetterBatch { service: self.service, rejects: vec![(origin, reason)], now: self.now, ends };
            in_time(rejection.send(&self.log)).await?;
        }
        self.note(first, metadata.commit(first, last.offset)?).await
    }

    async fn feed(&mut self, tp: TopicPartition, permit: Permit) -> Result<(), StageError> {
        let Some(alone) = self.alone.get_mut(&tp) else { return Ok(()) };
        let Some(offset) = alone.waiting.front().filter(|record| !is_claim(record)).map(|record| record.offset) else {
            // Claims complete at once.
            let claim = alone.waiting.pop_front();
            return self.take_claim(claim);
        };
        let condemned = alone.suspected(Some(offset)).and_then(Suspect::condemned);
        if condemned.is_none() {
            // Durable before the stage receives the record: the next start finds the suspect here.
            (alone.trying, alone.counts) = (Some(offset), permit == Permit::Counts);
            if permit == Permit::Uncounted {
                tracing::warn!(
                    service = self.service,
                    topic_partition = %tp,
                    offset,
                    "another service of the process still has records in flight: an end during this trial does not count"
                );
            }
            // Together with those of the others, so that only one record counts as tried.
            let points = self.alone.keys().filter_map(|tp| self.served.commit_point(*tp)).collect();
            if !self.commit(points).await? {
                if let Some(alone) = self.alone.get_mut(&tp) {
                    alone.trying = None;
                }
                return Ok(());
            }
            self.read_clock().await?;
        }
        let Some(alone) = self.alone.get_mut(&tp) else { return Ok(()) };
        let Some(record) = alone.waiting.pop_front() else { return Ok(()) };
        let Delivery::Accepted(origin) = self.served.deliver(&record) else { return Ok(()) };
        alone.given = Some(origin);
        if let Some(reason) = condemned {
            self.reject(origin, reason);
            return Ok(());
        }
        self.receive(vec![(origin, record)])
    }

    fn take_claim(&mut self, claim: Option<ConsumerRecord>) -> Result<(), StageError> {
        if let Some(Delivery::Accepted(origin)) = claim.map(|claim| self.served.deliver(&claim)) {
            self.complete(origin);
        }
        Ok(())
    }
}

/// Runs `work` for at most [`NOTE_WITHIN`].
async fn in_time<T, E: Into<StageError>>(work: impl Future<Output = Result<T, E>>) -> Result<T, StageError> {
    match timeout(NOTE_WITHIN, work).await {
        Ok(result) => result.map_err(Into::into),
        Err(_) => Err(LogError::Unavailable(format!("no answer within {NOTE_WITHIN:?}")).into()),
    }
}
