//! State shared by all partitions: open files, buffers, options, and whether the log accepts writes.

use std::{
    fs::File,
    io::Write as _,
    path::PathBuf,
    sync::{Mutex, OnceLock, PoisonError},
};

use super::{
    Options,
    block::FrameWriter,
    files::{Files, at, remove, sync_dir},
};
use crate::LogError;

/// Name of the file that marks a log after a failed sync.
const MARK: &str = "failed";

/// Maximum capacity of a pooled buffer, in bytes.
const KEPT_BUFFER_BYTES: usize = 4 << 20;
/// Maximum number of pooled buffers.
const KEPT_BUFFERS: usize = 4;

pub(super) struct Disk {
    pub(super) dir: PathBuf,
    pub(super) options: Options,
    pub(super) files: Files,
    buffers: Mutex<Vec<FrameWriter>>,
    /// Reason for refusing writes.
    failed: OnceLock<String>,
}

impl Disk {
    pub(super) fn new(dir: PathBuf, options: Options) -> Self {
        let files = Files::new(options.open_files);
        Self { dir, options, files, buffers: Mutex::default(), failed: OnceLock::new() }
    }

    /// Returns an error once a write has failed: the contents of that file are unknown until the log is opened again.
    pub(super) fn check_writable(&self) -> Result<(), LogError> {
        match self.failed.get() {
            None => Ok(()),
            Some(reason) => Err(LogError::Fatal(format!("{reason}; the log refuses writes until it is opened again"))),
        }
    }

    /// Records the first failed write.
    pub(super) fn fail(&self, error: &LogError) {
        if self.failed.set(error.to_string()).is_ok() {
            tracing::error!(%error, "the log failed; it refuses writes until it is opened again");
        }
    }

    /// Passes on the result of a sync. If it failed, the log refuses writes and is marked: the system may now treat
    /// pages as written that are not on disk, so that they can be read, and a later sync of them succeeds.
    pub(super) fn synced<T>(&self, result: Result<T, LogError>) -> Result<T, LogError> {
        result.inspect_err(|error| {
            self.fail(error);
            let path = self.dir.join(MARK);
            // The file is the mark, even an empty one on a full disk; its content is for the user.
            let marked = File::create(&path)
                .and_then(|mut file| file.write_all(format!("{error}\n").as_bytes()).and_then(|()| file.sync_all()));
            if let Err(error) = marked.map_err(at(&path)).and(sync_dir(&self.dir)) {
                tracing::warn!(%error, "the mark of the failed sync may not be durable");
            }
        })
    }

    /// Returns whether a sync failed since the log was last recovered.
    pub(super) fn is_marked(&self) -> Result<bool, LogError> {
        let path = self.dir.join(MARK);
        path.try_exists().map_err(at(&path))
    }

    /// Removes the mark, once the log is recovered and durable.
    pub(super) fn unmark(&self) -> Result<(), LogError> {
        remove(&self.dir.join(MARK))?;
        sync_dir(&self.dir)
    }

    /// Returns an empty buffer from the pool.
    pub(super) fn buffer(&self) -> FrameWriter {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Returns a buffer to the pool.
    pub(super) fn give_back(&self, mut buffer: FrameWriter) {
        let mut kept = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_BUFFERS && buffer.capacity() <= KEPT_BUFFER_BYTES {
            buffer.clear();
            kept.push(buffer);
        }
    }
}
