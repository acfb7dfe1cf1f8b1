//! Glue to the runtime: records in, checkpoints out.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    path::Path,
    sync::Arc,
};

use orbweaver_log::{ConsumerRecord, Log, Offset, Partition, TopicPartition};
use orbweaver_messages::{Millis, Topic};
use orbweaver_stage::{Actions, Origin, PartitionContext, Stage, StageError, StartFrom, Worker};
use tokio::sync::mpsc::UnboundedSender;

use super::{
    ExportError, ExportView, GROUP, Source, TOPICS,
    files::{ResultFiles, Save},
};

/// Maximum time between two checkpoints while records arrive, in milliseconds.
const CHECKPOINT_EVERY: Millis = 1_000;
/// Idle time after which a checkpoint is made at once, since the crawl may be complete, in milliseconds.
const IDLE: Millis = 20;
/// Number of records after which a checkpoint is made at once: half of what the runtime delivers before one completes.
const MOST_RECORDS: usize = 5_000;

/// A record whose line, if it has one, was taken; with the reason if it is not valid.
type Taken = (Origin, Option<String>);

/// A checkpoint that is being made.
struct Saving {
    taken: Vec<Taken>,
    positions: BTreeMap<TopicPartition, Offset>,
}

/// The exporter as a stage. A record completes once a durable checkpoint contains it, and delivery begins at that
/// checkpoint, wherever the commit point is.
pub struct ExportStage {
    files: ResultFiles,
    view: Arc<ExportView>,
    /// Offsets below which the durable checkpoint contains all records.
    durable: BTreeMap<TopicPartition, Offset>,
    /// Topic-partitions of which nothing was taken yet: records deleted before the first one are not missed, since a
    /// sweep that does not know of the group yet may still delete.
    unread: BTreeSet<TopicPartition>,
    /// Records since the last checkpoint.
    taken: Vec<Taken>,
    /// Whether the positions or the files have changed since the last checkpoint.
    is_dirty: bool,
    saving: Option<Saving>,
    received_at: Millis,
    saved_at: Millis,
}

impl ExportStage {
    /// Opens the files in `out` at their last checkpoint, for the results from `source`.
    ///
    /// # Errors
    /// Fails if the log, a file or the index cannot be opened, or records that the files lack were deleted.
    pub async fn open(
        log: &dyn Log,
        out: &Path,
        view: Arc<ExportView>,
        source: Source<'_>,
    ) -> Result<Self, ExportError> {
        let (files, unread) = ResultFiles::open(log, out, Arc::clone(&view), source).await?;
        let durable = files.positions().clone();
        Ok(Self {
            files,
            view,
            durable,
            unread,
            taken: vec![],
            is_dirty: false,
            saving: None,
            received_at: 0,
            saved_at: 0,
        })
    }

    /// Returns the time at which the next checkpoint is due; `None` if there is nothing new or one is being made.
    fn checkpoint_at(&self) -> Option<Millis> {
        let at = match self.taken.len() {
            MOST_RECORDS.. => self.received_at,
            _ => (self.received_at + IDLE).min(self.saved_at + CHECKPOINT_EVERY),
        };
        (self.is_dirty && self.saving.is_none()).then_some(at)
    }
}

impl Stage for ExportStage {
    type Job = Save;
    type Done = Result<(), ExportError>;
    type Effect = Infallible;

    fn service(&self) -> &'static str {
        GROUP
    }

    fn topics(&self) -> &'static [Topic] {
        TOPICS
    }

    fn start_from(&self, tp: TopicPartition) -> StartFrom {
        match self.durable.get(&tp) {
            Some(next) if !self.unread.contains(&tp) => StartFrom::Offset(*next),
            _ => StartFrom::LogStart,
        }
    }

    fn needs_known_schemas(&self) -> bool {
        true
    }

    fn open(&mut self, opening: PartitionContext, _: Millis) {
        for (topic, start) in TOPICS.iter().zip(opening.commits) {
            let tp = TopicPartition::new(*topic, opening.partition);
            if self.unread.contains(&tp) {
                self.files.skip_to(tp, start);
                self.is_dirty = true;
            }
        }
    }

    fn receive(
        &mut self,
        batch: Vec<(Origin, ConsumerRecord)>,
        now: Millis,
        _: &mut Actions<Save, Infallible>,
    ) -> Result<(), StageError> {
        for (origin, record) in batch {
            let invalid = self.files.take(&record)?.err();
            if let Some(reason) = &invalid {
                tracing::warn!(topic_partition = %origin.tp, offset = origin.offset, reason, "record rejected");
            }
            self.unread.remove(&origin.tp);
            self.taken.push((origin, invalid));
        }
        self.is_dirty = true;
        self.received_at = now;
        self.files.show();
        Ok(())
    }

    fn tick(&mut self, now: Millis, actions: &mut Actions<Save, Infallible>) -> Result<(), StageError> {
        if self.checkpoint_at().is_some_and(|at| at <= now) {
            actions.jobs.push(self.files.save()?);
            let positions = self.files.positions().clone();
            self.saving = Some(Saving { taken: std::mem::take(&mut self.taken), positions });
            (self.is_dirty, self.saved_at) = (false, now);
        }
        Ok(())
    }

    fn next_tick(&self) -> Option<Millis> {
        self.checkpoint_at()
    }

    fn job_done(
        &mut self,
        done: Result<(), ExportError>,
        _: Millis,
        actions: &mut Actions<Save, Infallible>,
    ) -> Result<(), StageError> {
        done?;
        let Some(Saving { taken, positions }) = self.saving.take() else { return Ok(()) };
        self.durable = positions;
        for (origin, invalid) in taken {
            match invalid {
                Some(reason) => actions.rejects.push((origin, reason)),
                None => actions.completes.push(origin),
            }
        }
        Ok(())
    }

    /// Lines of a revoked partition go to the files of another process. At a shutdown, no one reads the view any more.
    fn drain(&mut self, _: Partition) {
        self.view.set_revoked();
    }

    fn due(&self, _: Millis) -> usize {
        self.taken.len() + self.saving.as_ref().map_or(0, |saving| saving.taken.len())
    }
}

/// Makes checkpoints durable, on a blocking thread.
#[derive(Debug, Clone, Copy)]
pub struct CheckpointWorker;

impl Worker<Save, Result<(), ExportError>> for CheckpointWorker {
    fn start(&self, save: Save, results: &UnboundedSender<Result<(), ExportError>>) {
        let results = results.clone();
        tokio::task::spawn_blocking(move || {
            // A receiver that is gone belongs to a stage that has ended.
            let _ = results.send(save());
        });
    }
}
