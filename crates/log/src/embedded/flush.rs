//! Flushes: make appended data durable and record it in a checkpoint.
//!
//! 1. A *cut*: while no append, commit or deletion is in progress, the lengths of each changed partition and of the
//!    commits are recorded. A batch is in the cut as a whole or not at all.
//! 2. The cut is made durable while appends continue; before that, the external data that its records refer to (rows of
//!    the store).
//! 3. The checkpoint is written and made durable.
//! 4. Files that no checkpoint needs any longer are removed.
//!
//! Cause before effect holds across a power cut because the log rolls back to a cut: everything in it was acknowledged
//! before the cut, and so were its causes.

use std::sync::{PoisonError, atomic::Ordering};

use super::{checkpoint::Checkpoint, state::Shared};
use crate::LogError;

/// State of the flushes: the next checkpoint to write.
pub(super) struct FlushState {
    checkpoint: Checkpoint,
    /// Partitions to settle again, because a compaction was running.
    again: Vec<usize>,
    /// Partitions as an earlier process left them, possibly beyond the checkpoint. They are part of the next cut.
    recovered: Vec<usize>,
}

impl FlushState {
    /// Continues after `last`.
    pub(super) fn new(last: Option<Checkpoint>, partitions: usize) -> Self {
        Self { checkpoint: last.unwrap_or_default(), again: vec![], recovered: (0..partitions).collect() }
    }
}

impl Shared {
    /// Counts recovered records as a change, to be made durable by the next flush.
    pub(super) fn touch_recovered(&self) {
        // Held to the end: a cut in between would contain changes without the recovered records.
        let mut passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        if !passes.recovered.is_empty() {
            self.dirty.lock().unwrap_or_else(PoisonError::into_inner).append(&mut passes.recovered);
            self.wake_flusher();
        }
    }

    /// Flushes if anything changed.
    pub(super) fn flush_changes(&self) -> Result<(), LogError> {
        // Held throughout: one flush at a time.
        let mut passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        self.disk.check_writable()?;
        self.pass_with(&mut passes).inspect_err(|error| self.disk.fail(error))
    }

    fn pass_with(&self, passes: &mut FlushState) -> Result<(), LogError> {
        let FlushState { checkpoint, again, recovered } = passes;
        let (cuts, commits) = {
            let _all = self.cut.write().unwrap_or_else(PoisonError::into_inner);
            let mut dirty = std::mem::take(&mut *self.dirty.lock().unwrap_or_else(PoisonError::into_inner));
            dirty.append(again);
            if dirty.is_empty() && !self.commits.dirty.load(Ordering::Acquire) {
                return Ok(());
            }
            dirty.append(recovered);
            dirty.sort_unstable();
            dirty.dedup();
            let changed = dirty.into_iter().filter_map(|number| self.partitions.get(number));
            let cuts: Vec<_> = changed.map(|partition| (partition, partition.cut())).collect();
            (cuts, self.commits.cut()?)
        };
        if let Some(sync) = self.external_sync.get() {
            self.disk.synced(sync().map_err(LogError::Fatal))?;
        }
        for (partition, cut) in &cuts {
            partition.sync(&self.disk, cut)?;
        }
        self.commits.sync(&self.disk)?;
        let freed = checkpoint.commits.0 < commits.0;
        checkpoint.commits = commits;
        checkpoint.sequence += 1;
        checkpoint.boot = super::checkpoint::boot();
        for (partition, cut) in &cuts {
            let key = (partition.tp.topic.0.to_owned(), partition.tp.partition);
            checkpoint.entries.insert(key, cut.entry);
        }
        checkpoint.store(&self.disk)?;
        for (partition, cut) in cuts {
            if !partition.settle(&self.disk, &cut.entry)? {
                again.push(partition.number);
            }
        }
        if freed { self.commits.settle(commits.0) } else { Ok(()) }
    }
}
