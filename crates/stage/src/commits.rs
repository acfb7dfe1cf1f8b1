//! Commits: their timing, contents and results.

use orbweaver_log::{Commit, LogError, Offset, TopicPartition};
use orbweaver_messages::Millis;
use tokio::time::{Instant, timeout};

use crate::{
    Stage, StageError,
    alone::Alone,
    metadata::{Crasher, Metadata, Suspect},
    turn::Turns,
};

/// While nothing is in flight, the minimum time between commits is this fraction of the interval.
const IDLE_SHARE: u32 = 10;
/// Number of ownership checks per `frozen_after`, for a stage that needs proof.
const PROOFS: u32 = 4;

/// Commits that the log refused.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    /// No longer assigned.
    pub(crate) gone: Vec<(TopicPartition, Commit)>,
    /// Retriable.
    pub(crate) for_now: Vec<(TopicPartition, Commit)>,
}

impl<S: Stage> Turns<S> {
    /// Returns the time of the next commit, if there is anything to commit.
    pub(crate) fn commit_at(&self) -> Option<Instant> {
        if !self.served.is_dirty() {
            return self.proof_at();
        }
        let idle = self.airborne.is_empty() && self.served.charged() == 0 && self.refused_since.is_none();
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
            moved.extend(self.served.places().next().and_then(|place| self.served.commit_point(place)));
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
        for (place, offset) in points {
            commits.push((place, self.metadata(place, offset).commit(place, offset)?));
        }
        let Refused { gone, for_now } = self.send(commits).await?;
        for (place, _) in gone.iter().chain(&for_now) {
            self.served.not_committed(*place);
        }
        Ok(gone.is_empty() && for_now.is_empty())
    }

    /// Commits at the orderly end of a partition: the start counts are reset to zero. A suspect with crashes or ends
    /// against it is kept, as not tried, for the next owner.
    pub(crate) async fn commit_last(&mut self, points: Vec<(TopicPartition, Offset)>) -> Result<(), StageError> {
        let mut commits = vec![];
        for (place, offset) in points {
            self.starts.remove(&place);
            let mut metadata = self.metadata(place, offset);
            if metadata.deaths + metadata.crashes == 0 {
                metadata.trying = None;
            }
            metadata.untried = metadata.trying.is_some();
            commits.push((place, metadata.commit(place, offset)?));
        }
        let Refused { gone, for_now } = self.send(commits).await?;
        for (place, commit) in gone.into_iter().chain(for_now) {
            tracing::warn!(service = self.service, %place, offset = commit.offset, "closed without its last commit");
        }
        Ok(())
    }

    pub(crate) fn metadata(&self, place: TopicPartition, offset: Offset) -> Metadata {
        let starts = self.starts.get(&place).filter(|(_, begun)| offset <= *begun).map_or(0, |(start, _)| start.starts);
        let (stage, crashers) = (self.stage.commit_metadata(place), self.crashers_of(place));
        let metadata = Metadata { starts, crashers, stage, ..Metadata::default() };
        let Some((suspect, tried)) = self.alone.get(&place).and_then(Alone::suspect) else { return metadata };
        let Suspect { offset, deaths, crashes } = suspect;
        Metadata { trying: Some(offset), deaths, crashes, untried: !tried, ..metadata }
    }

    /// Returns the crash counts stored with the first topic of a partition.
    pub(crate) fn crashers_of(&self, place: TopicPartition) -> Vec<Crasher> {
        let kept = self.crashers.get(&place.partition).filter(|_| place.topic == self.topics[0]);
        kept.cloned().unwrap_or_default()
    }

    /// Sends commits to the log and returns the refused ones. A topic-partition that is no longer assigned does not
    /// block the others.
    pub(crate) async fn send(&mut self, mut commits: Vec<(TopicPartition, Commit)>) -> Result<Refused, StageError> {
        let mut refused = Refused::default();
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
                    for (place, commit) in commits {
                        self.served.committed(place, commit.offset);
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
                let (lost, others): (Vec<_>, Vec<_>) = commits.into_iter().partition(|(place, _)| *place == gone);
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
