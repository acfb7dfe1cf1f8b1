//! Handle that closes all files.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Handle of [`ArchiverStage::closer`](crate::ArchiverStage::closer), for a process that is about to be complete: the
/// records of open files are incomplete until these are closed. Cheap to clone; clones request the same.
#[derive(Debug, Clone, Default)]
pub struct CloseFiles(Arc<AtomicBool>);

impl CloseFiles {
    /// Requests that all files that are open at the next tick of the stage be closed, whatever their size and age.
    /// Records that arrive later open new files.
    pub fn request(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_requested(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Returns whether it was requested since the last call.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}
