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

use super::{
    checkpoint::{Checkpoint, Entry},
    partition::Cut,
    state::Shared,
};
use crate::LogError;

/// State of the flushes: the next checkpoint to write.
pub(super) struct FlushState {
    checkpoint: Checkpoint,
    /// Index of each partition's entry in the checkpoint.
    index: Vec<usize>,
    /// Partitions to settle again, because a compaction was running.
    again: Vec<usize>,
    /// Partitions as an earlier process left them, possibly beyond the checkpoint. They are part of the next cut.
    recovered: Vec<usize>,
}

impl FlushState {
    /// Continues after `last`. Keeps entries of topics that are not configured now. `tps` are topics and partitions.
    pub(super) fn new<'a>(last: Option<Checkpoint>, tps: impl Iterator<Item = (&'a str, u32)>) -> Self {
        let mut checkpoint = last.unwrap_or_default();
        let mut index = vec![];
        let known: std::collections::HashMap<_, _> = (0..)
            .zip(&checkpoint.entries)
            .map(|(at, entry): (usize, &Entry)| ((entry.topic.clone(), entry.partition), at))
            .collect();
        for (topic, partition) in tps {
            let at = known.get(&(topic.to_owned(), partition)).copied();
            index.push(at.unwrap_or(checkpoint.entries.len()));
            if at.is_none() {
                checkpoint.entries.push(Entry { topic: topic.to_owned(), partition, ..Entry::default() });
            }
        }
        let recovered = (0..index.len()).collect();
        Self { checkpoint, index, again: vec![], recovered }
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

    /// Flushes if anything changed. `durable` is `false` if the policy guarantees no durability.
    pub(super) fn pass(&self, durable: bool) -> Result<(), LogError> {
        // Held throughout: one flush at a time.
        let mut passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        self.disk.alive()?;
        self.pass_with(&mut passes, durable).inspect_err(|error| self.disk.fail(error))
    }

    fn pass_with(&self, passes: &mut FlushState, durable: bool) -> Result<(), LogError> {
        let (cuts, commits) = {
            let _all = self.cut.write().unwrap_or_else(PoisonError::into_inner);
            let mut dirty = std::mem::take(&mut *self.dirty.lock().unwrap_or_else(PoisonError::into_inner));
            dirty.append(&mut passes.again);
            if dirty.is_empty() && !self.commits.dirty.load(Ordering::Acquire) {
                return Ok(());
            }
            dirty.append(&mut passes.recovered);
            dirty.sort_unstable();
            dirty.dedup();
            let cuts: Vec<(usize, Cut)> =
                dirty.into_iter().filter_map(|number| Some((number, self.partitions.get(number)?.cut()))).collect();
            (cuts, self.commits.cut()?)
        };
        if durable {
            if let Some(sync) = self.vouched.get() {
                self.disk.synced(sync().map_err(LogError::Fatal))?;
            }
            for (number, cut) in &cuts {
                if let Some(partition) = self.partitions.get(*number) {
                    partition.sync(&self.disk, cut)?;
                }
            }
            self.commits.sync(&self.disk)?;
        }
        let freed = passes.checkpoint.commits.0 < commits.0;
        passes.checkpoint.commits = commits;
        passes.checkpoint.sequence += 1;
        passes.checkpoint.boot = super::checkpoint::boot();
        self.disk.options.sync.name().clone_into(&mut passes.checkpoint.sync);
        for (number, cut) in &cuts {
            let at = passes.index.get(*number).copied();
            if let Some(entry) = at.and_then(|at| passes.checkpoint.entries.get_mut(at)) {
                entry.clone_from(&cut.entry);
            }
        }
        if durable {
            passes.checkpoint.store(&self.disk)?;
        }
        for (number, cut) in cuts {
            let Some(partition) = self.partitions.get(number) else { continue };
            if !partition.settle(&self.disk, &cut.entry)? {
                passes.again.push(number);
            }
        }
        if freed { self.commits.settle(commits.0) } else { Ok(()) }
    }
}
