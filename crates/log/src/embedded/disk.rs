//! State shared by all partitions: open files, buffers, options, and whether the log accepts writes.

use std::sync::{Mutex, OnceLock, PoisonError};

use super::{Options, SyncPolicy, files::Files};
use crate::LogError;

/// Maximum capacity of a pooled buffer, in bytes.
const KEPT_BUFFER_BYTES: usize = 4 << 20;
/// Maximum number of pooled buffers.
const KEPT_BUFFERS: usize = 4;

pub(super) struct Disk {
    pub(super) options: Options,
    pub(super) files: Files,
    buffers: Mutex<Vec<Vec<u8>>>,
    /// Reason for refusing writes.
    failed: OnceLock<String>,
}

impl Disk {
    pub(super) fn new(options: Options) -> Self {
        let files = Files::new(options.open_files);
        Self { options, files, buffers: Mutex::default(), failed: OnceLock::new() }
    }

    /// Returns an error once a write has failed: the contents of that file are unknown until the log is opened again.
    pub(super) fn alive(&self) -> Result<(), LogError> {
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

    pub(super) fn syncs_each_append(&self) -> bool {
        self.options.sync == SyncPolicy::EachAppend
    }

    /// Returns an empty buffer from the pool.
    pub(super) fn buffer(&self) -> Vec<u8> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Returns a buffer to the pool.
    pub(super) fn give_back(&self, mut buffer: Vec<u8>) {
        let mut kept = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_BUFFERS && buffer.capacity() <= KEPT_BUFFER_BYTES {
            buffer.clear();
            kept.push(buffer);
        }
    }
}
