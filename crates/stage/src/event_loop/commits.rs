//! Commits of the loop: their contents, and the reactions to the answers.

use std::{collections::BTreeSet, time::Duration};

use futures::future::FutureExt;
use orbweaver_log::{Commit, LogError, Offset, Partition, TopicPartition};
use orbweaver_messages::Millis;
use tokio::time::{Instant, sleep, timeout};

use super::{EventLoop, partitions::Restored};
use crate::{
    Stage, StageError,
    commit_metadata::{CommitMetadata, Crasher},
    commits::Demand,
    pending_commits::{Answer, Request},
};

/// Timeout per commit request; an unanswered commit counts as refused.
pub(super) const COMMIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Reaction to the answer to a commit.
pub(super) enum Then {
    /// Refused commit points are checked again after the next interval.
    CheckAgain,
    /// The partition opens: its start is counted.
    Open(Box<Restored>),
    /// The quarantined record is passed to the stage: it is marked.
    Try(TopicPartition),
    /// Nothing: the partition is closed.
    Nothing,
}

/// Answer to a request.
enum Verdict {
    Accepted,
    /// This topic-partition is no longer assigned; nothing was committed.
    NotAssigned(TopicPartition),
    /// To be sent again later.
    Refused,
}

/// Commits that the log refused.
#[derive(Debug, Default)]
pub(super) struct RejectedCommits {
    /// No longer assigned.
    pub(super) gone: Vec<TopicPartition>,
    /// Retriable.
    pub(super) for_now: Vec<(TopicPartition, Commit)>,
}

impl<S: Stage> EventLoop<S> {
    fn demand(&self) -> Demand {
        Demand {
            is_dirty: self.open.is_dirty(),
            is_idle: self.in_flight.has_landed() && self.open.charged() == 0,
            needs_proof: self.stage.needs_proof() && self.open.open_partitions() > 0,
        }
    }

    /// Returns the time of the next commit, if there is anything to commit and no commit is being answered.
    pub(super) fn commit_at(&self) -> Option<Instant> {
        if self.pending.is_sending() { None } else { self.commits.due_at(self.demand()) }
    }

    /// Sends the commits that are queued or due, unless one is being answered.
    pub(super) fn send_commits(&mut self) -> Result<(), StageError> {
        let (demand, now) = (self.demand(), Instant::now());
        if demand.is_dirty {
            self.commits.completed(now);
        }
        if self.commit_at().is_some_and(|due| due <= now) {
            self.queue_points(demand, now)?;
        }
        match self.pending.next() {
            Some(request) => self.send(request),
            None => Ok(()),
        }
    }

    fn queue_points(&mut self, demand: Demand, now: Instant) -> Result<(), StageError> {
        let mut moved = self.open.moved();
        if moved.is_empty() && self.commits.proof_at(demand).is_some_and(|proof| proof <= now) {
            // One is enough: the brokers refuse it if the process is no longer a member.
            moved.extend(self.open.tps().next().and_then(|tp| self.open.commit_point(tp)));
        }
        if moved.is_empty() {
            self.commits.unmoved(now);
            return Ok(());
        }
        let commits = self.commits_of(moved)?;
        // These come last, and so apply instead of older points of a mark that is queued.
        self.pending.queue(commits, Then::CheckAgain);
        Ok(())
    }

    fn send(&mut self, request: Request<Then>) -> Result<(), StageError> {
        if request.is_empty() {
            return self.conclude(request);
        }
        let asked_ms = self.context.clock.now();
        let commit = self.polling.commit(request.commits());
        self.pending.sent(request, asked_ms, timeout(COMMIT_TIMEOUT, commit).boxed());
        Ok(())
    }

    /// Handles the answer to the request that was sent.
    pub(super) fn commit_answered(&mut self) -> Result<(), StageError> {
        let Some((mut request, asked_ms, answer)) = self.pending.take_answered() else { return Ok(()) };
        match self.judge(answer, &request.commits(), asked_ms)? {
            Verdict::Accepted => self.conclude(request),
            Verdict::NotAssigned(tp) => {
                request.remove(tp);
                self.send(request)
            }
            Verdict::Refused => {
                request.refuse();
                self.conclude(request)
            }
        }
    }

    fn conclude(&mut self, mut request: Request<Then>) -> Result<(), StageError> {
        for part in std::mem::take(&mut request.parts) {
            let named = || part.commits.iter().map(|(tp, _)| *tp);
            let refused: Vec<TopicPartition> = named().filter(|tp| request.is_refused(*tp)).collect();
            match part.then {
                Then::CheckAgain => refused.iter().for_each(|tp| self.open.not_committed(*tp)),
                Then::Open(restored) => {
                    let gone: Vec<TopicPartition> = named().filter(|tp| request.is_gone(*tp)).collect();
                    self.lose(&gone)?;
                    self.open(*restored)?;
                }
                Then::Try(tp) => {
                    refused.iter().for_each(|tp| self.open.not_committed(*tp));
                    self.try_marked(tp, refused.is_empty())?;
                }
                Then::Nothing => {
                    for (tp, commit) in part.commits.iter().filter(|(tp, _)| refused.contains(tp)) {
                        tracing::warn!(
                            service = self.context.service,
                            topic_partition = %tp,
                            offset = commit.offset,
                            "closed without its last commit"
                        );
                    }
                }
            }
        }
        Ok(())
    }

    /// Queues the last commit of a partition: the start counts are reset to zero.
    pub(super) fn commit_last(
        &mut self,
        partition: Partition,
        tps: &BTreeSet<TopicPartition>,
    ) -> Result<(), StageError> {
        self.commits.reset_starts(partition);
        let mut commits = vec![];
        for (tp, offset) in tps.iter().filter_map(|tp| self.open.commit_point(*tp)) {
            commits.push((tp, self.metadata(tp, offset).at_the_end().commit(tp, offset)?));
        }
        self.pending.queue(commits, Then::Nothing);
        Ok(())
    }

    pub(super) fn commits_of(
        &self,
        points: Vec<(TopicPartition, Offset)>,
    ) -> Result<Vec<(TopicPartition, Commit)>, StageError> {
        let commit = |(tp, offset)| Ok((tp, self.metadata(tp, offset).commit(tp, offset)?));
        points.into_iter().map(commit).collect()
    }

    pub(super) fn metadata(&self, tp: TopicPartition, offset: Offset) -> CommitMetadata {
        let metadata = CommitMetadata {
            starts: self.commits.starts(tp, offset),
            crashers: self.crashers_of(tp),
            ..CommitMetadata::default()
        };
        self.quarantine.annotate(tp, metadata)
    }

    /// Returns the crash counts stored with the first topic of a partition.
    pub(super) fn crashers_of(&self, tp: TopicPartition) -> Vec<Crasher> {
        if tp == self.context.first(tp.partition) { self.poison.of(tp.partition) } else { vec![] }
    }

    /// Handles the answer to commits that were sent at `asked_ms`.
    fn judge(
        &mut self,
        answer: Answer,
        commits: &[(TopicPartition, Commit)],
        asked_ms: Millis,
    ) -> Result<Verdict, StageError> {
        let now = Instant::now();
        let error = match answer {
            Ok(Ok(())) => {
                self.commits.accepted(now);
                let owned_ms = Millis::try_from(self.context.config.frozen_after.as_millis()).unwrap_or(Millis::MAX);
                self.stage.owns_until(asked_ms.saturating_add(owned_ms));
                self.context.metrics.commits.inc_by(commits.len() as u64);
                commits.iter().for_each(|(tp, commit)| self.open.committed(*tp, commit.offset));
                return Ok(Verdict::Accepted);
            }
            Ok(Err(error @ LogError::Fatal(_))) => return Err(error.into()),
            Ok(Err(error)) => error,
            Err(_) => LogError::Fatal(format!("a commit was not answered within {COMMIT_TIMEOUT:?}")),
        };
        self.context.metrics.commit_failures.inc();
        tracing::warn!(service = self.context.service, %error, "a commit was refused");
        if let LogError::NotAssigned(gone) = error {
            self.commits.not_assigned(now);
            let is_named = commits.iter().any(|(tp, _)| *tp == gone);
            return Ok(if is_named { Verdict::NotAssigned(gone) } else { Verdict::Refused });
        }
        if self.commits.refused(now) { Err(error.into()) } else { Ok(Verdict::Refused) }
    }

    /// Commits while nothing else happens: after a suspension, and at a failed end. Returns the refused commits.
    pub(super) async fn commit_now(
        &mut self,
        mut commits: Vec<(TopicPartition, Commit)>,
    ) -> Result<RejectedCommits, StageError> {
        self.pending.settle().await;
        let mut rejected = RejectedCommits::default();
        while !commits.is_empty() {
            let asked_ms = self.context.clock.now();
            let answer = timeout(COMMIT_TIMEOUT, self.polling.commit(commits.clone())).await;
            self.time.read();
            match self.judge(answer, &commits, asked_ms)? {
                Verdict::Accepted => break,
                Verdict::NotAssigned(tp) => {
                    rejected.gone.push(tp);
                    commits.retain(|(other, _)| *other != tp);
                }
                Verdict::Refused => {
                    rejected.for_now = commits;
                    break;
                }
            }
        }
        Ok(rejected)
    }

    /// Reads the clock. A gap since the last check means that the process was suspended: it commits before anything
    /// else, since it may have lost its partitions (docs/protocol.md#fenced-requests).
    pub(super) async fn check_for_suspension(&mut self) -> Result<(), StageError> {
        let Some(gap_ms) = self.time.check(self.context.config.frozen_after) else { return Ok(()) };
        self.context.metrics.freezes.inc();
        tracing::warn!(
            service = self.context.service,
            gap_ms,
            "the process was suspended; committing first to verify ownership"
        );
        let tps: Vec<TopicPartition> = self.open.tps().collect();
        let points = tps.into_iter().filter_map(|tp| self.open.commit_point(tp)).collect();
        let mut commits = self.commits_of(points)?;
        // Retry transient failures for up to `commit_patience`; fencing is final.
        while !commits.is_empty() {
            let RejectedCommits { gone, for_now } = self.commit_now(commits).await?;
            self.lose(&gone)?;
            commits = for_now;
            let pause = sleep(self.context.config.commit_interval);
            if !commits.is_empty() && self.context.shutdown.run_until_cancelled(pause).await.is_none() {
                let reason = "shut down before the suspended process could verify its ownership".to_owned();
                return Err(self.context.halted(reason));
            }
        }
        // No progress was possible in the meantime.
        self.watchdog.moved(Instant::now());
        self.time.check(Duration::MAX);
        Ok(())
    }
}
