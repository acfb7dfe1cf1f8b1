//! Commits: their timing, contents and results.

use orbweaver_log::{Commit, LogError, Offset, TopicPartition};
use orbweaver_messages::Millis;
use tokio::time::{Instant, timeout};

use crate::{
    Stage, StageError,
    commit_metadata::{CommitMetadata, Crasher, Suspect},
    event_loop::EventLoop,
    quarantine::Quarantine,
};

/// While nothing is in flight, the minimum time between commits is this fraction of the interval.
const IDLE_SHARE: u32 = 10;
/// Number of ownership checks per `frozen_after`, for a stage that needs proof.
const PROOFS: u32 = 4;

/// Commits that the log refused.
#[derive(Debug, Default)]
pub(crate) struct RejectedCommits {
    /// No longer assigned.
    pub(crate) gone: Vec<(TopicPartition, Commit)>,
    /// Retriable.
    pub(crate) for_now: Vec<(TopicPartition, Commit)>,
}

impl<S: Stage> EventLoop<S> {
    /// Returns the time of the next commit, if there is anything to commit.
    pub(crate) fn commit_at(&self) -> Option<Instant> {
        if !self.served.is_dirty() {
            return self.proof_at();
        }
        let idle = self.in_flight.is_empty() && self.served.charged() == 0 && self.refused_since.is_none();
        let interval = self.config.commit_interval;
        let due = self.committed_at + if idle { interval / IDLE_SHARE } else { interval };
        Some(self.proof_at().map_or(due, |proof| due.min(proof)))
    }

    /// Returns the time of the next commit whose only purpose is to verify ownership.
    fn proof_at(&self) -> Option<Instant> {
        let wanted = self.stage.needs_proof() && self.served.open_partitions() > 0;
        wanted.then(|| self.sent_at + self.config.frozen_after / PROOFS)
    }

    pub(crate) async fn commit_when_due(&mut self) -> Result<(), StageError> {
        let Some(due) = self.commit_at() else { return Ok(()) };
        let now = Instant::now();
        if self.served.is_dirty() {
            self.uncommitted_since.get_or_insert(now);
        }
        if now < due {
            return Ok(());
        }
        let mut moved = self.served.moved();
        if moved.is_empty() && self.proof_at().is_some_and(|proof| proof <= now) {
            // One is enough: the brokers refuse it if the process is no longer a member.
            moved.extend(self.served.tps().next().and_then(|tp| self.served.commit_point(tp)));
        }
        if moved.is_empty() {
            // The completions are above the commit points, which are checked again after another interval.
            self.committed_at = now;
            self.uncommitted_since = None;
            return Ok(());
        }
        self.commit(moved).await.map(drop)
    }

    /// Commits these points. Returns `false` if some were refused; these are checked again after the next interval.
    pub(crate) async fn commit(&mut self, points: Vec<(TopicPartition, Offset)>) -> Result<bool, StageError> {
        let mut commits = Vec::with_capacity(points.len());
        for (tp, offset) in points {
            commits.push((tp, self.metadata(tp, offset).commit(tp, offset)?));
        }
        let RejectedCommits { gone, for_now } = self.send(commits).await?;
        for (tp, _) in gone.iter().chain(&for_now) {
            self.served.not_committed(*tp);
        }
        Ok(gone.is_empty() && for_now.is_empty())
    }

    /// Commits at the orderly end of a partition: the start counts are reset to zero. A suspect with crashes or ends
    /// against it is kept, as not tried, for the next owner.
    pub(crate) async fn commit_last(&mut self, points: Vec<(TopicPartition, Offset)>) -> Result<(), StageError> {
        let mut commits = vec![];
        for (tp, offset) in points {
            self.starts.remove(&tp);
            let mut metadata = self.metadata(tp, offset);
            if metadata.unexplained_ends + metadata.crashes == 0 {
                metadata.trying = None;
            }
            metadata.untried = metadata.trying.is_some();
            commits.push((tp, metadata.commit(tp, offset)?));
        }
        let RejectedCommits { gone, for_now } = self.send(commits).await?;
        for (tp, commit) in gone.into_iter().chain(for_now) {
            tracing::warn!(service = self.service, topic_partition = %tp, offset = commit.offset, "closed without its last commit");
        }
        Ok(())
    }

    pub(crate) fn metadata(&self, tp: TopicPartition, offset: Offset) -> CommitMetadata {
        let starts = self.starts.get(&tp).filter(|(_, begun)| offset <= *begun).map_or(0, |(start, _)| start.starts);
        let (stage, crashers) = (self.stage.commit_metadata(tp), self.crashers_of(tp));
        let metadata = CommitMetadata { starts, crashers, stage, ..CommitMetadata::default() };
        let Some((suspect, tried)) = self.alone.get(&tp).and_then(Quarantine::suspect) else { return metadata };
        let Suspect { offset, unexplained_ends, crashes } = suspect;
        CommitMetadata { trying: Some(offset), unexplained_ends, crashes, untried: !tried, ..metadata }
    }

    /// Returns the crash counts stored with the first topic of a partition.
    pub(crate) fn crashers_of(&self, tp: TopicPartition) -> Vec<Crasher> {
        let kept = self.crashers.get(&tp.partition).filter(|_| tp.topic == self.topics[0]);
        kept.cloned().unwrap_or_default()
    }

    /// Sends commits to the log and returns the refused ones. A topic-partition that is no longer assigned does not
    /// block the others.
    pub(crate) async fn send(
        &mut self,
        mut commits: Vec<(TopicPartition, Commit)>,
    ) -> Result<RejectedCommits, StageError> {
        let mut refused = RejectedCommits::default();
        while !commits.is_empty() {
            let asked_ms = self.clock.now();
            let answer = timeout(self.config.commit_timeout, self.consumer.commit(commits.clone())).await;
            self.committed_at = Instant::now();
            self.sent_at = self.committed_at;
            // The answer may have taken long, and work may be started next.
            self.now = self.clock.now();
            let error = match answer {
                Ok(Ok(())) => {
                    let half = Millis::try_from(self.config.frozen_after.as_millis()).unwrap_or(Millis::MAX);
                    self.stage.owns_until(asked_ms.saturating_add(half));
                    self.metrics.commits.inc_by(commits.len() as u64);
                    self.refused_since = None;
                    self.uncommitted_since = None;
                    for (tp, commit) in commits {
                        self.served.committed(tp, commit.offset);
                    }
                    break;
                }
                Ok(Err(error @ LogError::Fatal(_))) => return Err(error.into()),
                Ok(Err(error)) => error,
                Err(_) => LogError::Fatal(format!("a commit was not answered within {:?}", self.config.commit_timeout)),
            };
            self.metrics.commit_failures.inc();
            tracing::warn!(service = self.service, %error, "a commit was refused");
            if let LogError::NotAssigned(gone) = error {
                let (lost, others): (Vec<_>, Vec<_>) = commits.into_iter().partition(|(tp, _)| *tp == gone);
                if !lost.is_empty() {
                    refused.gone.extend(lost);
                    commits = others;
                    continue;
                }
                refused.for_now.extend(others);
                break;
            }
            let since = *self.refused_since.get_or_insert(self.committed_at);
            if since.elapsed() >= self.config.commit_patience {
                return Err(error.into());
            }
            refused.for_now.append(&mut commits);
        }
        Ok(refused)
    }
}
