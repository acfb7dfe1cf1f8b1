//! Opening a partition: claims, tails, commit points, and the replay of the logs that the stage restores from.
//!
//! The restore runs concurrently with the loop, so that other partitions continue, and reports to the loop through a
//! bounded channel; the loop passes the records to the stage. Replays use readers outside the group.

use std::{sync::Arc, time::Duration};

use orbweaver_log::{Bounds, ConsumerRecord, Offset, Partition, TopicPartition};
use orbweaver_messages::{Millis, Topic};
use tokio::{
    sync::{Semaphore, mpsc::Sender, oneshot},
    time::Instant,
};

use crate::{
    IndexCheckpoint, RestoreFrom, RestoreSpec, StageError, StartFrom,
    claim::claim,
    commit_metadata::{CommitMetadata, Crasher, Start, is_condemned},
    loop_context::LoopContext,
    panics::caught,
    patience::Patience,
};

/// Maximum wait per read of a replay.
const READ_WAIT: Duration = Duration::from_secs(1);

/// Message from an opening to the loop.
#[derive(Debug)]
pub(crate) enum RestoreEvent {
    /// Requests that the tails be read up to their current ends.
    Refresh(oneshot::Sender<()>),
    /// The checkpoint of the index over this topic is not valid for this log, with the reason.
    Distrusted(Topic, String),
    /// Requests the offset that the look back of this topic must reach.
    LooksBack(Topic, oneshot::Sender<Option<Offset>>),
    Records(Vec<ConsumerRecord>),
    /// All logs are replayed.
    Ready(RestoreResult),
}

/// A message from an opening, or the reason of its failure; `epoch` identifies a cancelled one.
#[derive(Debug)]
pub(crate) struct RestoreMessage {
    pub(crate) partition: Partition,
    pub(crate) epoch: u32,
    pub(crate) progress: Result<RestoreEvent, StageError>,
}

/// Result of an opening.
#[derive(Debug)]
pub(crate) struct RestoreResult {
    /// Offset of the first claim.
    pub(crate) claim: Option<Offset>,
    /// In the order of the stage's topics.
    pub(crate) starts: Vec<StartPoint>,
    /// Logs to be tailed, with their start offsets.
    pub(crate) follow: Vec<(TopicPartition, Offset)>,
}

/// Start of one topic-partition.
#[derive(Debug)]
pub(crate) struct StartPoint {
    pub(crate) tp: TopicPartition,
    pub(crate) commit: Offset,
    /// Log end found at opening.
    pub(crate) end: Offset,
    pub(crate) metadata: CommitMetadata,
    /// Restore end, for a replayed topic.
    pub(crate) restored_to: Option<Offset>,
}

impl StartPoint {
    /// Returns the start that this opening is. Without uncommitted records, no record can have caused a crash.
    pub(crate) fn counted(&self) -> Start {
        if self.commit < self.end { Start::after(&self.metadata) } else { Start::after(&CommitMetadata::default()) }
    }

    /// Returns the metadata that counts `start`: the suspect's last end has been counted, and the next trial has not
    /// started.
    pub(crate) fn metadata_of(&self, start: Start) -> CommitMetadata {
        let Start { starts, suspect, .. } = start;
        CommitMetadata { starts, suspect, untried: suspect.is_some(), ..CommitMetadata::default() }
    }
}

/// A partition that is being opened.
pub(crate) struct PartitionRestore {
    pub(crate) context: Arc<LoopContext>,
    pub(crate) partition: Partition,
    pub(crate) epoch: u32,
    /// Starts of delivery, in the order of the topics.
    pub(crate) starts: Vec<StartFrom>,
    pub(crate) claims: &'static [Topic],
    pub(crate) tails: &'static [Topic],
    pub(crate) restores: Vec<RestoreSpec>,
    /// Poison records known to the loop.
    pub(crate) crashers: Vec<Crasher>,
}

impl PartitionRestore {
    /// Opens the partition and reports to the loop. Ends early if the loop is gone.
    pub(crate) async fn run(mut self, at_once: Arc<Semaphore>, to: Sender<RestoreMessage>) {
        // The semaphore is never closed; a failure would only remove the limit.
        let _permit = at_once.acquire().await;
        let opened = caught(self.open(&to)).await;
        let opened = opened.unwrap_or_else(|thrown| Err(StageError::panicked(self.context.service, &thrown)));
        let progress = opened.map(RestoreEvent::Ready);
        let _ = to.send(RestoreMessage { partition: self.partition, epoch: self.epoch, progress }).await;
    }

    async fn open(&mut self, to: &Sender<RestoreMessage>) -> Result<RestoreResult, StageError> {
        // Claims come first: the restore covers everything that the logs contain before them, from any writer.
        let LoopContext { log, service, clock, .. } = &*self.context;
        let records = self.claims.iter().map(|&topic| claim(self.at(topic), service, clock.now())).collect();
        let claims = if self.claims.is_empty() { vec![] } else { log.append(records).await? };
        self.refresh(to).await;
        let mut starts = self.commit_points().await?;
        self.crashers.extend(starts.first().into_iter().flat_map(|first| first.metadata.crashers.clone()));
        let mut follow = vec![];
        for spec in &self.restores {
            let tp = self.at(spec.topic);
            let claimed = self.claims.iter().position(|&topic| topic == spec.topic);
            let bounds = self.context.log.bounds(tp).await?;
            let commit = starts.iter().find(|start| start.tp == tp).map(|start| start.commit);
            let read_from = never_below(spec.from, commit, bounds);
            if let Some(first) = starts.first_mut() {
                first.metadata.crashers.retain(|crasher| !crasher.is_below(tp, read_from));
            }
            let end = claimed.and_then(|index| claims.get(index).copied()).unwrap_or(bounds.end);
            let doubt = self.doubt(spec.from, tp, commit, Bounds { end, ..bounds }).await?;
            let mut from = self.from(spec.from, tp, commit, bounds).await?;
            if let RestoreFrom::LookBack(_) = spec.from {
                from = self.further_back(tp.topic, to).await.map_or(from, |back| from.min(back.max(bounds.start)));
            }
            let from = match doubt {
                None => from,
                Some(reason) => {
                    self.report(to, RestoreEvent::Distrusted(tp.topic, reason)).await;
                    commit.unwrap_or(bounds.start)
                }
            };
            // After a look back, incomplete records are still to be received.
            let start = starts.iter_mut().find(|start| start.tp == tp);
            if let Some(start) = start.filter(|_| !matches!(spec.from, RestoreFrom::LookBack(_))) {
                start.restored_to = Some(end);
            }
            self.replay(tp, from, end, to).await?;
            if spec.follow {
                follow.push((tp, end));
            }
        }
        Ok(RestoreResult { claim: claims.first().copied(), starts, follow })
    }

    fn at(&self, topic: Topic) -> TopicPartition {
        TopicPartition::new(topic, self.partition)
    }

    /// Waits until the stage has received everything that the former owner wrote to the tails.
    async fn refresh(&self, to: &Sender<RestoreMessage>) {
        if !self.tails.is_empty() {
            let (refreshed, over) = oneshot::channel();
            self.report(to, RestoreEvent::Refresh(refreshed)).await;
            // Without an answer the opening was cancelled, and the loop ignores its further messages.
            let _ = over.await;
        }
    }

    /// Reads the commit points, or takes the stage's own starts. Without a commit a stage starts at offset 0; it halts if
    /// that offset, or the committed one, is no longer in the log (docs/protocol.md#offsets).
    async fn commit_points(&self) -> Result<Vec<StartPoint>, StageError> {
        let tps: Vec<TopicPartition> = self.context.topics.iter().map(|&topic| self.at(topic)).collect();
        // Log starts that were read before the commits. A log start read after them proves nothing: a successor of this
        // process may have committed in between, and retention deleted the records below.
        let mut known_starts = vec![0; tps.len()];
        loop {
            let commits = self.context.log.committed(&self.context.group, &tps).await?;
            let bounds = self.context.log.all_bounds(&tps).await?;
            let mut starts = Vec::with_capacity(tps.len());
            for (index, (commit, bounds)) in commits.into_iter().zip(&bounds).enumerate() {
                let (tp, start) = (tps[index], known_starts[index]);
                let committed = match self.starts[index] {
                    StartFrom::CommitPoint => commit.as_ref().map(|commit| commit.offset),
                    StartFrom::Offset(offset) => Some(offset),
                    StartFrom::LogStart => Some(bounds.start),
                };
                if let Some(reason) = misplaced(tp, &self.context.group, committed, Bounds { start, ..*bounds }) {
                    return Err(self.context.halted(reason));
                }
                let metadata =
                    commit.map_or_else(CommitMetadata::default, |commit| CommitMetadata::read(&commit.metadata));
                let commit = committed.unwrap_or(0);
                starts.push(StartPoint { tp, commit, end: bounds.end, metadata, restored_to: None });
            }
            if starts.iter().zip(&bounds).all(|(point, bounds)| point.commit >= bounds.start) {
                return Ok(starts);
            }
            known_starts = bounds.iter().map(|bounds| bounds.start).collect();
        }
    }

    async fn from(
        &self,
        from: RestoreFrom,
        tp: TopicPartition,
        commit: Option<Offset>,
        bounds: Bounds,
    ) -> Result<Offset, StageError> {
        match from {
            RestoreFrom::Start => Ok(bounds.start),
            RestoreFrom::CommitPoint => match commit {
                Some(commit) => Ok(commit),
                None => {
                    let commits = self.context.log.committed(&self.context.group, &[tp]).await?;
                    Ok(commits.into_iter().flatten().next().map_or(bounds.start, |commit| commit.offset))
                }
            },
            RestoreFrom::FromCheckpoint { position, .. } => Ok(position.offset + 1),
            RestoreFrom::Offset(offset) if (bounds.start..=bounds.end).contains(&offset) => Ok(offset),
            RestoreFrom::Offset(offset) => {
                let Bounds { start, end } = bounds;
                Err(self.context.halted(format!("{tp}: the index is at {offset}, but the log holds {start} to {end}")))
            }
            RestoreFrom::LookBack(back) => {
                let back = Millis::try_from(back.as_millis()).unwrap_or(Millis::MAX);
                Ok(self.context.log.offset_at(tp, self.context.clock.now().saturating_sub(back)).await?)
            }
        }
    }

    /// Returns the stage's look-back offset, after it has received all previously sent records.
    async fn further_back(&self, topic: Topic, to: &Sender<RestoreMessage>) -> Option<Offset> {
        let (answer, answered) = oneshot::channel();
        self.report(to, RestoreEvent::LooksBack(topic, answer)).await;
        // Without an answer the opening was cancelled, and the loop ignores its further messages.
        answered.await.ok().flatten()
    }

    async fn replay(
        &self,
        tp: TopicPartition,
        from: Offset,
        end: Offset,
        to: &Sender<RestoreMessage>,
    ) -> Result<(), StageError> {
        if from >= end {
            return Ok(());
        }
        let mut reader = self.context.log.reader(tp, from).await?;
        let mut patience = Patience::new(Instant::now());
        while reader.position() < end {
            let mut records = reader.read(READ_WAIT).await?;
            if records.is_empty() {
                if patience.waited(Instant::now()) > self.context.config.restore_patience {
                    let (position, seconds) = (reader.position(), self.context.config.restore_patience.as_secs());
                    return Err(self.context.halted(format!(
                        "{tp}: no record could be restored between {position} and {end} for {seconds} s"
                    )));
                }
                continue;
            }
            patience.moved(Instant::now());
            records.retain(|record| {
                let condemned = is_condemned(&self.crashers, record.tp, record.offset);
                record.offset < end && !condemned
            });
            if !self.report(to, RestoreEvent::Records(records)).await {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns `false` if the loop is gone.
    async fn report(&self, to: &Sender<RestoreMessage>, progress: RestoreEvent) -> bool {
        let message = RestoreMessage { partition: self.partition, epoch: self.epoch, progress: Ok(progress) };
        to.send(message).await.is_ok()
    }

    /// Returns the reason why the index checkpoint could not be verified, if so (docs/protocol.md#proven-checkpoints).
    async fn doubt(
        &self,
        from: RestoreFrom,
        tp: TopicPartition,
        commit: Option<Offset>,
        bounds: Bounds,
    ) -> Result<Option<String>, StageError> {
        let RestoreFrom::FromCheckpoint { position, within } = from else { return Ok(None) };
        let reason = out_of_reach(position, commit, bounds)
            .or_else(|| within.and_then(|within| too_old(position, self.context.clock.now(), within)));
        if reason.is_some() {
            return Ok(reason);
        }
        let mut reader = self.context.log.reader(tp, position.offset).await?;
        let mut patience = Patience::new(Instant::now());
        loop {
            let records = reader.read(READ_WAIT).await?;
            if let Some(record) = records.first() {
                let same = IndexCheckpoint::of(record) == position;
                return Ok((!same).then(|| format!("the log holds another record at {}", position.offset)));
            }
            if reader.position() > position.offset {
                return Ok(Some(format!("the log holds no record at {} any more", position.offset)));
            }
            if patience.waited(Instant::now()) > self.context.config.restore_patience {
                let (offset, seconds) = (position.offset, self.context.config.restore_patience.as_secs());
                let reason = format!("{tp}: the record at {offset} could not be read for {seconds} s");
                return Err(self.context.halted(reason));
            }
        }
    }
}

/// Returns the offset below which no restore reads a log again, even if the index is lost. Pure.
fn never_below(from: RestoreFrom, commit: Option<Offset>, bounds: Bounds) -> Offset {
    match from {
        RestoreFrom::CommitPoint | RestoreFrom::FromCheckpoint { .. } => commit.unwrap_or(bounds.start),
        RestoreFrom::Start | RestoreFrom::Offset(_) | RestoreFrom::LookBack(_) => bounds.start,
    }
}

/// Returns the reason why an index cannot continue from its checkpoint in this log, if so. Pure.
fn out_of_reach(position: IndexCheckpoint, commit: Option<Offset>, bounds: Bounds) -> Option<String> {
    let (offset, Bounds { start, end }) = (position.offset, bounds);
    if !(start..end).contains(&offset) {
        return Some(format!("it is at {offset}, but the log holds {start} to {end}"));
    }
    let commit = commit.filter(|&commit| offset.saturating_add(1) < commit)?;
    Some(format!("it is at {offset}, below the commit point {commit}"))
}

/// Returns the reason why an index over a compacted log is too old, if so. Pure.
fn too_old(position: IndexCheckpoint, now: Millis, within: Duration) -> Option<String> {
    let age = u128::try_from(now.saturating_sub(position.timestamp_ms)).unwrap_or(0);
    (age > within.as_millis())
        .then(|| format!("its last record was made {} s ago; tombstones may have been deleted", age / 1000))
}

/// Returns the reason why a stage cannot start at its commit point, if so. Pure.
fn misplaced(tp: TopicPartition, group: &str, commit: Option<Offset>, bounds: Bounds) -> Option<String> {
    let Bounds { start, end } = bounds;
    match commit {
        None if start > 0 => Some(format!(
            "{tp}: the group `{group}` has no commit and would start at 0, but the log starts at {start}: records \
             were deleted before they were read; commit {start} for the group to skip them"
        )),
        Some(commit) if commit < start => Some(format!(
            "{tp}: the group `{group}` has committed {commit}, but the log starts at {start}: records were deleted \
             before they were read; commit {start} for the group to skip them"
        )),
        Some(commit) if commit > end => Some(format!(
            "{tp}: the group `{group}` has committed {commit}, but the log ends at {end}: this is not the log that \
             was committed for; restore that log, or commit an offset of this one"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::topic;

    use super::*;

    #[test]
    fn a_log_is_read_again_from_the_commit_point_only_if_its_restore_begins_there() {
        let position = IndexCheckpoint { offset: 17, timestamp_ms: 1_000_000, hash: 0 };
        let bounds = Bounds { start: 10, end: 20 };
        let below = |from, commit| never_below(from, commit, bounds);
        for from in [RestoreFrom::CommitPoint, RestoreFrom::FromCheckpoint { position, within: None }] {
            assert_eq!([below(from, Some(15)), below(from, None)], [15, 10]);
        }
        for from in [RestoreFrom::Start, RestoreFrom::Offset(17), RestoreFrom::LookBack(Duration::from_secs(60))] {
            assert_eq!(below(from, Some(15)), 10);
        }
    }

    #[test]
    fn an_index_is_trusted_only_within_the_log_above_the_commit_point_and_not_too_old() {
        let at = |offset| IndexCheckpoint { offset, timestamp_ms: 1_000_000, hash: 0 };
        let bounds = Bounds { start: 10, end: 20 };
        let why = |offset, commit| out_of_reach(at(offset), commit, bounds).unwrap_or_default();
        assert!(why(9, None).contains("it is at 9, but the log holds 10 to 20"));
        assert!(why(20, None).contains("it is at 20, but the log holds 10 to 20"));
        assert!(why(13, Some(15)).contains("it is at 13, below the commit point 15"));
        assert_eq!([why(14, Some(15)), why(19, Some(10)), why(10, None)], ["", "", ""]);
        let old = |now| too_old(at(12), now, Duration::from_secs(60));
        assert!(old(1_060_001).unwrap().contains("60 s ago"));
        assert_eq!([old(1_060_000), old(0)], [None, None]);
    }

    #[test]
    fn a_stage_halts_where_its_commit_point_is_not_in_the_log() {
        let tp = TopicPartition::new(topic::SEEDS, 3);
        let bounds = Bounds { start: 10, end: 20 };
        let why = |commit| misplaced(tp, "dedup", commit, bounds);
        assert!(why(None).unwrap().contains("crawl.seeds/3: the group `dedup` has no commit"));
        assert!(why(Some(9)).unwrap().contains("has committed 9, but the log starts at 10"));
        assert!(why(Some(21)).unwrap().contains("has committed 21, but the log ends at 20"));
        assert_eq!((why(Some(10)), why(Some(20))), (None, None));
        assert_eq!(misplaced(tp, "dedup", None, Bounds { start: 0, end: 20 }), None);
    }
}
