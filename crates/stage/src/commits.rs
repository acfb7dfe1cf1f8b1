//! When and what is committed.

use orbweaver_log::{Commit, LogError, Offset, TopicPartition};
use orbweaver_messages::Millis;
use tokio::time::{Instant, timeout};

use crate::{
    Stage, StageError,
    alone::Alone,
    metadata::{Crasher, Metadata, Suspect},
    turn::Turns,
};

/// While nothing is in flight, commits may follow each other in a tenth of the interval.
const IDLE_SHARE: u32 = 10;
/// So many times in half a session a stage that needs it proves that its partitions are its own.
const PROOFS: u32 = 4;

/// Commits that the log did not take.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    /// Their partitions are no longer ours.
    pub(crate) gone: Vec<(TopicPartition, Commit)>,
    /// They may be tried again.
    pub(crate) for_now: Vec<(TopicPartition, Commit)>,
}

impl<S: Stage> Turns<S> {
    /// When the next commit is due, if there is something to commit.
    pub(crate) fn commit_at(&self) -> Option<Instant> {
        if !self.served.is_dirty() {
            return self.proof_at();
        }
        let idle = self.airborne.is_empty() && self.served.charged() == 0 && self.refused_since.is_none();
        let interval = self.config.commit_interval;
        let due = self.committed_at + if idle { interval / IDLE_SHARE } else { interval };
        Some(self.proof_at().map_or(due, |proof| due.min(proof)))
    }

    /// When a commit is due that only proves that the partitions are ours.
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
            // One is enough: the brokers refuse it to whom they no longer know as a member.
            moved.extend(self.served.places().next().and_then(|place| self.served.commit_point(place)));
        }
        if moved.is_empty() {
            // What completed lies above the commit points; they are looked at again after as long.
            self.committed_at = now;
            self.uncommitted_since = None;
            return Ok(());
        }
        self.commit(moved).await.map(drop)
    }

    /// Commits; false when some were refused, which are looked at again after the next interval.
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

    /// Commits at the orderly end of a partition: the start counts go back to zero.
    pub(crate) async fn commit_last(&mut self, points: Vec<(TopicPartition, Offset)>) -> Result<(), StageError> {
        let mut commits = vec![];
        for (place, offset) in points {
            self.starts.remove(&place);
            let (stage, crashers) = (self.stage.commit_metadata(place), self.crashers_of(place));
            let metadata = Metadata { stage, crashers, ..Metadata::default() };
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

    /// What is kept with the first topic of a partition.
    pub(crate) fn crashers_of(&self, place: TopicPartition) -> Vec<Crasher> {
        let kept = self.crashers.get(&place.partition).filter(|_| place.topic == self.topics[0]);
        kept.cloned().unwrap_or_default()
    }

    /// Sends commits to the log; returns those that it refused. A place that is no longer ours does not hold the others up.
    pub(crate) async fn send(&mut self, mut commits: Vec<(TopicPartition, Commit)>) -> Result<Refused, StageError> {
        let mut refused = Refused::default();
        while !commits.is_empty() {
            let asked_ms = self.clock.now();
            let answer = timeout(self.config.commit_timeout, self.consumer.commit(commits.clone())).await;
            self.committed_at = Instant::now();
            self.sent_at = self.committed_at;
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
