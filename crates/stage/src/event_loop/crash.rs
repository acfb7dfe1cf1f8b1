//! Last commits of a stage that ends with an error or a panic. Best effort: without them the end counts as unexplained.

use std::time::Duration;

use orbweaver_log::{Commit, ConsumerRecord, LogError, TopicPartition};
use tokio::time::{sleep, timeout};

use super::EventLoop;
use crate::{
    Origin, Stage, StageError,
    commit_metadata::{CRASHERS, CRASHES, CommitMetadata, count_crash},
    dead_letter::DeadLetterBatch,
    poison::InCall,
    quarantined::Quarantined,
};

/// Timeout for the last commit of a process that ends, and for each read and write that belongs to it.
const NOTE_WITHIN: Duration = Duration::from_secs(5);

impl<S: Stage> EventLoop<S> {
    /// Loads the poison records among restored and tailed records, independently of the partitions assigned to this
    /// process.
    pub(super) async fn load_poison_records(&mut self) {
        let tps: Vec<_> = (0..self.context.partitions).map(|number| self.context.first(number)).collect();
        let commits = match self.context.log.committed(&self.context.group, &tps).await {
            Ok(commits) => commits,
            // Opening a partition loads its poison records too.
            Err(error) => {
                return tracing::warn!(
                    service = self.context.service,
                    %error,
                    "poison records could not be loaded; retrying as partitions are opened"
                );
            }
        };
        for (tp, commit) in tps.into_iter().zip(commits) {
            self.poison.learn(tp.partition, &CommitMetadata::read(&commit.unwrap_or_default().metadata));
        }
    }

    /// Withdraws the marks of the records being tried: the stage ends with an error and has reported its reason.
    pub(super) async fn withdraw_trials(&mut self) {
        self.withdraw_if(|_| true).await;
    }

    /// Records a crash, and the record that was in flight alone, or being restored or tailed.
    pub(super) async fn note_crash(&mut self) {
        let noted = match self.poison.take_call() {
            Some(call) => {
                // The record that is being tried did not cause this crash.
                self.withdraw_trials().await;
                self.note_poison(call).await
            }
            None => self.note_suspect().await,
        };
        if let Err(error) = noted {
            tracing::warn!(
                service = self.context.service,
                %error,
                "the crash was not recorded; it counts as an unexplained end"
            );
        }
    }

    async fn withdraw_if(&mut self, is_withdrawn: fn(&Quarantined) -> bool) {
        for tp in self.quarantine.unmark_if(is_withdrawn) {
            if let Ok(commits) = self.commits_of(self.open.commit_point(tp).into_iter().collect()) {
                let _ = timeout(NOTE_WITHIN, self.commit_now(commits)).await;
            }
        }
    }

    async fn note_suspect(&mut self) -> Result<(), StageError> {
        // A mark that is being committed belongs to a record that the stage does not have.
        self.withdraw_if(|quarantined| quarantined.given.is_none()).await;
        let points = self.quarantine.to_blame().into_iter().filter_map(|tp| self.open.commit_point(tp));
        for (tp, offset) in points.collect::<Vec<_>>() {
            let metadata = CommitMetadata { crashed: true, untried: false, ..self.metadata(tp, offset) };
            self.note(tp, metadata.commit(tp, offset)?).await?;
        }
        Ok(())
    }

    /// Sends a last commit, in spite of transient refusals.
    async fn note(&mut self, tp: TopicPartition, commit: Commit) -> Result<(), StageError> {
        let pause = self.context.config.commit_interval;
        in_time(async {
            let mut commits = vec![(tp, commit)];
            loop {
                let refused = self.commit_now(commits).await?;
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
    async fn note_poison(&mut self, call: InCall) -> Result<(), StageError> {
        let InCall { partition, tp, offset } = call;
        let (service, first, log) = (self.context.service, self.context.first(partition), self.context.log.clone());
        let last = in_time(log.committed(&self.context.group, &[first])).await?.pop().flatten().unwrap_or_default();
        let mut metadata = CommitMetadata::read(&last.metadata);
        let Some(crashes) = count_crash(&mut metadata.crashers, tp, offset) else {
            tracing::error!(
                service,
                topic_partition = %tp,
                offset,
                condemned = CRASHERS,
                "crashed at a restored or tailed record, and no further poison record can be recorded: every start will \
                 crash here until the cause is fixed"
            );
            return Ok(());
        };
        tracing::error!(service, topic_partition = %tp, offset, crashes, "crashed at a restored or tailed record");
        if crashes == CRASHES {
            // While commits are refused, each further crash would send the letter again.
            self.note(first, last.clone()).await?;
            let reason =
                format!("the process crashed {crashes} times in a row while this record was restored or tailed");
            let origin = Origin { tp, offset, assignment_epoch: 0 };
            // The consumer of its topic ends the work that it belongs to.
            let ends = |_: &ConsumerRecord, _| vec![];
            let rejection = DeadLetterBatch { service, rejects: vec![(origin, reason)], now: self.time.now(), ends };
            in_time(rejection.send(&log)).await?;
        }
        self.note(first, metadata.commit(first, last.offset)?).await
    }
}

/// Runs `work` for at most [`NOTE_WITHIN`].
async fn in_time<T, E: Into<StageError>>(work: impl Future<Output = Result<T, E>>) -> Result<T, StageError> {
    match timeout(NOTE_WITHIN, work).await {
        Ok(result) => result.map_err(Into::into),
        Err(_) => Err(LogError::Unavailable(format!("no answer within {NOTE_WITHIN:?}")).into()),
    }
}
