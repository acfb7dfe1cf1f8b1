//! The interface between a service and the runtime.

use std::time::Duration;

use futures::future::BoxFuture;
use orbweaver_log::{ConsumerRecord, LogError, Offset, Partition, Record, TopicPartition};
use orbweaver_messages::{Millis, Topic};
use tokio::sync::mpsc::UnboundedSender;

use crate::{Actions, IndexCheckpoint, Token, panics::Thrown};

/// Source of a record. `assignment_epoch` counts the assignments of the partition to this process, so that a completion
/// from an earlier assignment has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    pub tp: TopicPartition,
    pub offset: Offset,
    /// Assignment epoch under which the record was read.
    pub assignment_epoch: u32,
}

/// Start of the replay when a partition is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreFrom {
    /// The log start.
    Start,
    /// The group's commit point of that topic.
    CommitPoint,
    /// This offset, up to which the local index is verified.
    Offset(Offset),
    /// After the last record that the local index applied, if the checkpoint is verified
    /// (docs/protocol.md#proven-checkpoints): the record is read again and must be identical, and the commit point must
    /// not be beyond it. Otherwise [`Stage::discard_index`] is called, and the replay starts at the group's commit
    /// point, or at the log start if the group does not consume the topic.
    FromCheckpoint {
        position: IndexCheckpoint,
        /// Maximum age of the record over a compacted log: half of the log's delete retention, since tombstones written
        /// after an older record may already be gone. `None`: no limit.
        within: Option<Duration>,
    },
    /// The first record within this duration before now, or an earlier one if [`Stage::look_back_offset`] demands it.
    /// For a topic of the group this is only a look back: its incomplete records are still delivered afterwards.
    LookBack(Duration),
}

/// Offset at which delivery of a topic-partition begins when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartFrom {
    /// The group's commit point.
    CommitPoint,
    /// This offset: the stage made everything below it durable, together with the offset itself. The commit point
    /// follows it.
    Offset(Offset),
    /// The log start: records that were deleted before are not missed.
    LogStart,
}

/// A log to be replayed before a partition is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoreSpec {
    /// Topic; only the partition that is being opened is replayed. [`Stage::tails`] names topics that are read
    /// completely.
    pub topic: Topic,
    /// Start of the replay. It ends at the log end found at opening, or at the claim for a claimed topic.
    pub from: RestoreFrom,
    /// Whether to tail the log after the restore: later records are passed to [`Stage::receive_tailed`].
    pub follow: bool,
}

/// Error that ended a stage.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StageError {
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An effect failed permanently.
    #[error(transparent)]
    Perform(#[from] PerformError),
    /// The stage requested the end.
    #[error("{service}: {reason}")]
    Halted {
        /// Name of the service.
        service: &'static str,
        reason: String,
    },
    /// A defect: the stage, the loop or another task of the process panicked.
    #[error("{service} panicked: {reason}")]
    Panicked {
        service: &'static str,
        /// Panic message.
        reason: String,
    },
    /// Work was due and nothing progressed.
    #[error("{service}: work is due, but nothing has progressed for {seconds} s")]
    Stalled {
        service: &'static str,
        /// Duration of the stall in seconds.
        seconds: u64,
    },
}

impl StageError {
    /// Returns the error for a panic outside of the loop.
    pub(crate) fn panicked_elsewhere(service: &'static str) -> Self {
        Self::Panicked { service, reason: "outside of its loop; the log has the panic".to_owned() }
    }

    pub(crate) fn panicked(service: &'static str, thrown: &Thrown) -> Self {
        let text = thrown.downcast_ref::<&str>().copied().map(str::to_owned);
        let reason = text.or_else(|| thrown.downcast_ref::<String>().cloned()).unwrap_or_default();
        Self::Panicked { service, reason }
    }
}

/// Permanent failure of an effect.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PerformError(pub String);

/// Executor of effects outside the log, mainly store writes. Retries transient errors.
pub trait Perform<E>: Send + Sync + 'static {
    /// Performs all effects; resolves when all are durable.
    fn perform(&self, effects: Vec<E>) -> BoxFuture<'_, Result<(), PerformError>>;
}

/// Executor of a stage's jobs, such as requests and extractions.
pub trait Worker<J, D>: Send + Sync + 'static {
    /// Starts a job, which sends exactly one result to `results`. The stage's budget bounds the number of jobs.
    fn start(&self, job: J, results: &UnboundedSender<D>);
}

/// Incomplete offsets of a partition, in ascending order within each topic.
pub type Incomplete<'a> = Result<Box<dyn Iterator<Item = (Topic, Offset)> + 'a>, StageError>;

/// A service: its decisions behind one interface. The runtime calls it from one task, one call at a time; calls never
/// block.
///
/// Every delivered origin must be completed exactly once: by a plan, `Actions::completes` or `Actions::rejects`. The
/// exception is a partition that is revoked or closed: its origins may be parked, and need not complete; the next owner
/// receives their records again.
///
/// An error of any method ends the stage: none of the actions of that call are executed, and nothing is completed.
#[allow(unused_variables, reason = "most methods do nothing by default")]
pub trait Stage: Send + 'static {
    /// Job executed by the [`Worker`].
    type Job: Send + 'static;
    /// Result of a job.
    type Done: Send + 'static;
    /// Effect outside the log.
    type Effect: Send + 'static;

    /// Returns the name of the service, for metrics, logs and dead letters.
    fn service(&self) -> &'static str;

    /// Returns the topics of the group. Partition N is open while N of all of them is held.
    fn topics(&self) -> &'static [Topic];

    /// Returns the offset at which delivery of `tp` begins when its partition is opened.
    fn start_from(&self, tp: TopicPartition) -> StartFrom {
        StartFrom::CommitPoint
    }

    /// Returns `true` if a record whose schema version is unknown ends the stage, which can read it after an upgrade;
    /// otherwise the record is rejected.
    fn needs_known_schemas(&self) -> bool {
        false
    }

    /// Returns the logs that this stage writes as owner; opening a partition appends a claim to each.
    fn claimed_topics(&self) -> &'static [Topic] {
        &[]
    }

    /// Returns the topics of which all partitions are read, whichever are open (`crawl.control`): once per process,
    /// from their start, before the first partition opens, and then continuously while a partition is open or being
    /// opened. All their records are passed to [`Stage::receive_tailed`], in order within each partition. Before a
    /// partition opens, the stage has received everything that they contained when its opening began.
    fn tails(&self) -> &'static [Topic] {
        &[]
    }

    /// Notes that `partition` was assigned and is about to be restored, possibly after others. [`Stage::prepare`] or
    /// [`Stage::close`] follows.
    fn assigned(&mut self, partition: Partition) {}

    /// Returns the logs to be replayed before `partition` opens.
    fn restore_specs(&self, partition: Partition) -> Vec<RestoreSpec> {
        vec![]
    }

    /// Returns the offset in `topic` that a [look back](RestoreFrom::LookBack) for `partition` must reach, if the log
    /// still contains it. Called once all logs that [`Stage::restore_specs`] lists before this one are replayed.
    fn look_back_offset(&self, partition: Partition, topic: Topic) -> Option<Offset> {
        None
    }

    /// Discards the index of `partition` over `topic`, because the checkpoint of [`RestoreFrom::FromCheckpoint`] could
    /// not be verified. Called before any record of that topic.
    fn discard_index(&mut self, partition: Partition, topic: Topic) -> Result<(), StageError> {
        Ok(())
    }

    /// Applies a record of a log that is being replayed for `partition`.
    fn restore(&mut self, partition: Partition, record: &ConsumerRecord) -> Result<(), StageError> {
        Ok(())
    }

    /// Reports that the [tails](Stage::tails) were read up to log ends that were queried after this token was put into
    /// [`Actions::refreshes`]: all their records of that time have been passed to [`Stage::receive_tailed`].
    fn refreshed(
        &mut self,
        token: Token,
        now: Millis,
        actions: &mut Actions<Self::Job, Self::Effect>,
    ) -> Result<(), StageError> {
        Ok(())
    }

    /// Applies a record of a tailed log after its restore, or of a [tail](Stage::tails). While a quarantined record is
    /// being tried, tailed records wait, unless its call requested a refresh.
    fn receive_tailed(
        &mut self,
        record: &ConsumerRecord,
        now: Millis,
        actions: &mut Actions<Self::Job, Self::Effect>,
    ) -> Result<(), StageError> {
        Ok(())
    }

    /// Notes a claim in a log that is being replayed for `partition`. The offset of the claim is the owner epoch of the
    /// records that follow from that owner; later records of earlier epochs are those of a stale owner
    /// (docs/protocol.md#claims).
    fn restore_claim(&mut self, partition: Partition, claim: TopicPartition, owner_epoch: Offset) {}

    /// Does the fallible part of opening a partition, once all its logs are replayed. [`Stage::open`] follows.
    fn prepare(&mut self, opening: PartitionContext, now: Millis) -> Result<(), StageError> {
        Ok(())
    }

    /// Opens the partition of `opening`. [`Stage::incomplete`] follows.
    fn open(&mut self, opening: PartitionContext, now: Millis) {}

    /// Returns the incomplete offsets of `partition` in those topics of [`Stage::topics`] that are also restored (not
    /// only looked [back](RestoreFrom::LookBack) at), in ascending order within each topic. All other offsets of these
    /// topics between commit point and restore end count as complete, and reading continues at the restore end. There
    /// may be millions, so they are iterated and never collected.
    fn incomplete(&self, partition: Partition) -> Incomplete<'_> {
        Ok(Box::new(std::iter::empty()))
    }

    /// Receives records, in order within each partition.
    fn receive(
        &mut self,
        batch: Vec<(Origin, ConsumerRecord)>,
        now: Millis,
        actions: &mut Actions<Self::Job, Self::Effect>,
    ) -> Result<(), StageError>;

    /// Reports that the plan of this token is durable; `offsets` are those of its records, in order.
    fn plan_durable(
        &mut self,
        token: Token,
        offsets: &[Offset],
        now: Millis,
        actions: &mut Actions<Self::Job, Self::Effect>,
    ) -> Result<(), StageError> {
        Ok(())
    }

    /// Reports that the log refused a record of the plan of this token: its later steps were not executed, and the
    /// origins that it would have completed are being written to the dead letters, with `reason`. Drop all state that
    /// depends on the plan, and reject origins that are kept outside of it. Its steps must be assumed neither durable
    /// nor absent.
    fn refused(
        &mut self,
        token: Token,
        reason: &str,
        now: Millis,
        actions: &mut Actions<Self::Job, Self::Effect>,
    ) -> Result<(), StageError> {
        Ok(())
    }

    /// Receives the result of a job.
    fn job_done(
        &mut self,
        done: Self::Done,
        now: Millis,
        actions: &mut Actions<Self::Job, Self::Effect>,
    ) -> Result<(), StageError> {
        Ok(())
    }

    /// Handles the passage of time.
    fn tick(&mut self, now: Millis, actions: &mut Actions<Self::Job, Self::Effect>) -> Result<(), StageError> {
        Ok(())
    }

    /// Returns the time of the next call of [`Stage::tick`]; `None`: the runtime's interval.
    fn next_tick(&self) -> Option<Millis> {
        None
    }

    /// Returns `true` if no two processes may start the same work of this stage (requests). The runtime then verifies
    /// the ownership of its partitions even if nothing is to be committed, and reports it by [`Stage::owns_until`].
    fn needs_proof(&self) -> bool {
        false
    }

    /// Reports an accepted commit: the open partitions are assigned to no other member until `until_ms` plus the same
    /// span again (docs/protocol.md#fenced-requests). `until_ms` is the time of the commit request plus
    /// `RunnerConfig::frozen_after`, at most half of the group's session timeout. A stage that [needs
    /// proof](Stage::needs_proof) starts nothing after that time until the next report.
    fn owns_until(&mut self, until_ms: Millis) {}

    /// Notes a record that was consumed and is never passed in: a claim, or one that cannot be read.
    fn passed_over(&mut self, origin: Origin) {}

    /// Stops starting work for `partition`, which was revoked. The runtime drains its outstanding records.
    fn drain(&mut self, partition: Partition) {}

    /// Returns `false` while the stage finishes parked work of `partition`, which was revoked: the partition then stays
    /// open until its drain is over. The stage completes that work by jobs or plans, after each of which this is called.
    fn is_drained(&self, partition: Partition) -> bool {
        true
    }

    /// Drops all state of `partition`, which is no longer assigned.
    fn close(&mut self, partition: Partition) {}

    /// Returns the amount of work that could progress now if the stage were healthy; the watchdog ends a stage if the
    /// amount stays above zero while nothing completes (docs/protocol.md#parked-records, docs/protocol.md#due-work).
    /// Records parked until a later time do not count.
    fn due(&self, now: Millis) -> usize;

    /// Returns the records that end what a rejected record started elsewhere, such as a lease. These records are
    /// appended after the dead letter, before the origin completes.
    fn ends_of_rejected(record: &ConsumerRecord, now: Millis) -> Vec<Record>
    where
        Self: Sized,
    {
        vec![]
    }
}

/// A partition that is being opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionContext {
    pub partition: Partition,
    /// Number of partitions.
    pub partitions: Partition,
    /// Assignment epoch that origins of this assignment carry.
    pub assignment_epoch: u32,
    /// Offset of the claim in the first of [`Stage::claimed_topics`]; 0 without claims.
    pub owner_epoch: Offset,
    /// Commit points of the first three of [`Stage::topics`], 0 for none: all records below are complete.
    pub commits: [Offset; 3],
}
