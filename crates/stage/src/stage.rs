//! What a service is to the runtime.

use std::time::Duration;

use futures::future::BoxFuture;
use orbweaver_log::{Delivered, LogError, Offset, Partition, Record, TopicPartition};
use orbweaver_messages::{Millis, Topic};
use tokio::sync::mpsc::UnboundedSender;

use crate::{Actions, Position, Token, panics::Thrown};

/// Where a record came from. `epoch` counts the assignments of its partition to this process, so that what finishes
/// after a partition went and came back completes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// Topic and partition.
    pub place: TopicPartition,
    /// The offset.
    pub offset: Offset,
    /// The assignment under which it was read.
    pub epoch: u32,
}

/// From where a log is replayed when a partition is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreFrom {
    /// From the log's start.
    Start,
    /// From the group's commit point of that topic.
    CommitPoint,
    /// From this offset, where the local index provably stands.
    Offset(Offset),
    /// Behind the record that the local index applied last, if that is proven (rule 4): the record is read again and must be
    /// the same, and the commit point must not lie beyond it. Else [`Stage::distrust`] is called, and the replay begins at
    /// the group's commit point, or at the start of a log that the group does not consume.
    Proven {
        /// Where the index stands.
        position: Position,
        /// Over a compacted log: the greatest age that the record may have, half of the log's delete retention, since what
        /// ended behind it may have left no trace. `None`: any.
        within: Option<Duration>,
    },
    /// From the first record of the last so many milliseconds, or from further back where [`Stage::looks_back_to`] says so. Of
    /// a topic of the group this is only a look: what is not complete there is received afterwards all the same.
    Back(Duration),
}

/// A log to be replayed before a partition is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoreSpec {
    /// The topic; of it the partition that is opened. [`Stage::tails`] names topics that are read whole.
    pub topic: Topic,
    /// From where. The end is the end that is found at the opening (or the claim, for a claimed topic).
    pub from: RestoreFrom,
    /// Go on reading after the restore: later records reach [`Stage::follow`].
    pub follow: bool,
}

/// Why a stage ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StageError {
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An effect failed for good.
    #[error(transparent)]
    Perform(#[from] PerformError),
    /// The stage asked to end.
    #[error("{service}: {reason}")]
    Halted {
        /// The service.
        service: &'static str,
        /// Why.
        reason: String,
    },
    /// A defect: a call of the stage panicked, or what the loop does itself.
    #[error("{service} panicked: {reason}")]
    Panicked {
        /// The service.
        service: &'static str,
        /// The message.
        reason: String,
    },
    /// Work was due and nothing moved.
    #[error("{service}: work is due and nothing moved for {seconds} s")]
    Stalled {
        /// The service.
        service: &'static str,
        /// For how long.
        seconds: u64,
    },
}

impl StageError {
    pub(crate) fn panicked(service: &'static str, thrown: &Thrown) -> Self {
        let text = thrown.downcast_ref::<&str>().copied().map(str::to_owned);
        let reason = text.or_else(|| thrown.downcast_ref::<String>().cloned()).unwrap_or_default();
        Self::Panicked { service, reason }
    }
}

/// An effect failed for good.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PerformError(pub String);

/// Performs effects outside of the log, store writes above all. Retries what may pass by itself.
pub trait Perform<E>: Send + Sync + 'static {
    /// Performs all effects; resolves when all are durable.
    fn perform(&self, effects: Vec<E>) -> BoxFuture<'_, Result<(), PerformError>>;
}

/// Does the work outside that a stage asks for: a request, an extraction.
pub trait Worker<J, D>: Send + Sync + 'static {
    /// Starts a job; its one result goes to `results`. The number of jobs is bounded by the stage's budget.
    fn start(&self, job: J, results: &UnboundedSender<D>);
}

/// A service: deciding code behind one face. The runtime calls it from one task, one call at a time; it never waits.
///
/// Every delivered origin must be completed exactly once: by a plan, `Actions::completes` or `Actions::rejects`.
pub trait Stage: Send + 'static {
    /// Work outside.
    type Job: Send + 'static;
    /// The result of that work.
    type Done: Send + 'static;
    /// Effects outside of the log.
    type Effect: Send + 'static;

    /// The name of the service, for metrics, logs and dead letters.
    fn service(&self) -> &'static str;

    /// The topics of the group. Partition N is open when N of all of them is held.
    fn topics(&self) -> &'static [Topic];

    /// The logs that this stage writes as owner: to each a claim is appended when a partition is opened.
    fn claims(&self) -> &'static [Topic] {
        &[]
    }

    /// The topics that are read whole, whatever partitions are open (`crawl.control`): once a process, from their start, before
    /// the first partition opens, and from then on as they grow. All their records reach [`Stage::follow`], in order within
    /// each partition. When a partition is opened, all that was in them then has reached it.
    fn tails(&self) -> &'static [Topic] {
        &[]
    }

    /// The logs to be replayed before `partition` is served.
    fn restores(&self, partition: Partition) -> Vec<RestoreSpec> {
        let _ = partition;
        vec![]
    }

    /// The offset in `topic` that a [look back](RestoreFrom::Back) for `partition` must reach, if the log still goes back that
    /// far. Asked when all logs that [`Stage::restores`] names before this one are replayed.
    fn looks_back_to(&self, partition: Partition, topic: Topic) -> Option<Offset> {
        let _ = (partition, topic);
        None
    }

    /// The index of `partition` over `topic` does not stand where [`RestoreFrom::Proven`] said: throw it away. Comes before
    /// all records of that topic.
    ///
    /// # Errors
    /// When it cannot be thrown away.
    fn distrust(&mut self, partition: Partition, topic: Topic) -> Result<(), StageError> {
        let _ = (partition, topic);
        Ok(())
    }

    /// A record of a log that is being replayed for `partition`.
    ///
    /// # Errors
    /// When the index cannot take it.
    fn restore(&mut self, partition: Partition, record: &Delivered) -> Result<(), StageError> {
        let _ = (partition, record);
        Ok(())
    }

    /// The [tails](Stage::tails) were read up to ends that were asked for after this token was put into
    /// [`Actions::refreshes`]: what was in them at that time has reached [`Stage::follow`].
    fn refreshed(&mut self, token: Token, now: Millis, actions: &mut Actions<Self::Job, Self::Effect>) {
        let _ = (token, now, actions);
    }

    /// A record of a followed log, after the restore, or of a [tail](Stage::tails).
    fn follow(&mut self, record: &Delivered, now: Millis, actions: &mut Actions<Self::Job, Self::Effect>) {
        let _ = (record, now, actions);
    }

    /// All logs of `partition` are replayed: what can fail at its opening is done here. [`Stage::open`] comes next.
    ///
    /// # Errors
    /// When the partition cannot be served.
    fn prepare(&mut self, opening: Opening, now: Millis) -> Result<(), StageError> {
        let _ = (opening, now);
        Ok(())
    }

    /// `partition` is served from now on. `assignment` is the epoch that origins of it carry; `claim` is the offset of the
    /// first claim (0 without claims). [`Stage::incomplete`] comes next.
    fn open(&mut self, opening: Opening, now: Millis) {
        let _ = (opening, now);
    }

    /// The offsets of `partition` that are not complete, of the topics of [`Stage::topics`] that are also restored (not only
    /// looked [back](RestoreFrom::Back) at), in rising order within each topic. Of these topics all other offsets between commit
    /// point and restore end count as complete, and reading goes on at the restore end. There may be millions: they are taken
    /// one by one, and never put into a list.
    fn incomplete(&self, partition: Partition) -> Box<dyn Iterator<Item = (Topic, Offset)> + '_> {
        let _ = partition;
        Box::new(std::iter::empty())
    }

    /// Records, in order within each partition.
    fn receive(&mut self, batch: Vec<(Origin, Delivered)>, now: Millis, actions: &mut Actions<Self::Job, Self::Effect>);

    /// The plan of this token is durable; `offsets` are those of its records, in order.
    fn settled(
        &mut self,
        token: Token,
        offsets: &[Offset],
        now: Millis,
        actions: &mut Actions<Self::Job, Self::Effect>,
    ) {
        let _ = (token, offsets, now, actions);
    }

    /// The log refused a record of the plan of this token: its later steps were not taken, and the origins that it would have
    /// completed are on their way to the dead letters, with `reason`. Forget what waited for the plan; an origin that is held
    /// outside of it has to be rejected here. Nothing of its steps can be taken for durable, nor for absent.
    fn refused(&mut self, token: Token, reason: &str, now: Millis, actions: &mut Actions<Self::Job, Self::Effect>) {
        let _ = (token, reason, now, actions);
    }

    /// A job is done.
    fn finished(&mut self, done: Self::Done, now: Millis, actions: &mut Actions<Self::Job, Self::Effect>) {
        let _ = (done, now, actions);
    }

    /// Time has passed.
    fn tick(&mut self, now: Millis, actions: &mut Actions<Self::Job, Self::Effect>) {
        let _ = (now, actions);
    }

    /// When [`Stage::tick`] wants to be called next; `None`: at the runtime's own pace.
    fn next_tick(&self) -> Option<Millis> {
        None
    }

    /// Whether what this stage begins must not be begun by two processes (requests). The runtime then proves that its
    /// partitions are its own also while nothing is to be committed, and tells it by [`Stage::owns_until`].
    fn needs_proof(&self) -> bool {
        false
    }

    /// A commit was accepted, so that nobody else is given what is open until `until_ms` and as long again (rule 21): half of
    /// the group's session after the commit was asked for. A stage that [needs proof](Stage::needs_proof) begins nothing later
    /// before it is told of another.
    fn owns_until(&mut self, until_ms: Millis) {
        let _ = until_ms;
    }

    /// `partition` is wanted back: begin nothing new for it. What is outstanding is drained by the runtime.
    fn drain(&mut self, partition: Partition) {
        let _ = partition;
    }

    /// `partition` is gone: forget it.
    fn close(&mut self, partition: Partition) {
        let _ = partition;
    }

    /// How much work could move now if the stage were healthy; the watchdog ends a stage in which this stays above zero
    /// while nothing completes (rules 18 and 26). Records parked for a later moment do not count.
    fn due(&self, now: Millis) -> usize;

    /// The records that end what a rejected record began elsewhere, such as a lease. They are appended behind its dead letter,
    /// before its origin completes.
    fn ends_of_rejected(record: &Delivered, now: Millis) -> Vec<Record>
    where
        Self: Sized,
    {
        let _ = (record, now);
        vec![]
    }

    /// A short text to be committed along with the commit point of `place`.
    fn commit_metadata(&self, place: TopicPartition) -> String {
        let _ = place;
        String::new()
    }
}

/// A partition that is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// The partition.
    pub partition: Partition,
    /// How many partitions there are.
    pub partitions: Partition,
    /// The epoch that origins of this assignment carry.
    pub assignment: u32,
    /// The offset of the claim in the first of [`Stage::claims`]; 0 without claims.
    pub claim: Offset,
    /// The commit point of the first of [`Stage::topics`]: all records below it are complete.
    pub commit: Offset,
}
