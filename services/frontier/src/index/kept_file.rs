//! Files that are kept open as far as their number allows: an instance may hold hundreds of partitions with a dozen files each,
//! and a process has 1,024 by default.

use std::{
    fs::File,
    io,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Maximum number of files of indexes that this process keeps open; others are opened for each access, which costs 2 µs more.
const KEPT_OPEN: usize = if cfg!(test) { 4 } else { 256 };
static OPEN: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug)]
pub(super) struct KeptFile {
    path: PathBuf,
    file: Option<File>,
}

impl KeptFile {
    /// Keeps the file at this path open, unless there are too many.
    pub(super) fn new(path: PathBuf, file: File) -> Self {
        let more = |open: usize| (open < KEPT_OPEN).then_some(open + 1);
        Self { path, file: OPEN.fetch_update(Relaxed, Relaxed, more).is_ok().then_some(file) }
    }

    /// Calls `access` with the file, open for reading and writing.
    pub(super) fn with<T>(&self, access: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        match &self.file {
            Some(file) => access(file),
            None => access(&File::options().read(true).write(true).open(&self.path)?),
        }
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            OPEN.fetch_sub(1, Relaxed);
        }
    }
}
