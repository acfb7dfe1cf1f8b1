//! Files: a cache of open segment files, and errors with paths.
//!
//! System calls are made in place, on the caller's thread: an append is a copy into the page cache, which takes
//! microseconds. Reads that may reach the disk are sent to the blocking pool by `consumer` and `reader`.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{LogError, Offset};

/// Returns a function that adds the path to an I/O error.
pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> LogError {
    let path = path.display().to_string();
    move |source| LogError::Io { path, source }
}

/// Returns an error with the file and the byte position.
pub(super) fn corrupt(path: &Path, position: u64, reason: &str) -> LogError {
    LogError::Corrupt { file: path.display().to_string(), position, reason: reason.to_owned() }
}

/// Opens an existing file.
pub(super) fn open(path: &Path) -> Result<File, LogError> {
    OpenOptions::new().read(true).write(true).open(path).map_err(at(path))
}

/// Creates an empty file.
pub(super) fn create(path: &Path) -> Result<File, LogError> {
    OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).map_err(at(path))
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(path: &Path) -> Result<(), LogError> {
    File::open(path).and_then(|dir| dir.sync_all()).map_err(at(path))
}

/// Creates a directory and its missing parents, and makes their names durable.
pub(super) fn create_dir(path: &Path) -> Result<(), LogError> {
    let missing = path.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).count();
    std::fs::create_dir_all(path).map_err(at(path))?;
    // At least the parent: an earlier process may have been killed between creating the directory and syncing its name.
    for dir in path.ancestors().take(missing.max(1)) {
        sync_dir(match dir.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        })?;
    }
    Ok(())
}

/// Removes a file; a missing file is not an error.
pub(super) fn remove(path: &Path) -> Result<(), LogError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}

/// Key of a segment file: partition (by its number in this log), base offset, and number of compactions since opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FileKey {
    pub(super) partition: usize,
    pub(super) base: Offset,
    pub(super) generation: u32,
}

/// Segment files kept open up to a limit, so that neither a long backlog nor many partitions exhaust file descriptors.
pub(super) struct Files {
    capacity: usize,
    open: Mutex<HashMap<FileKey, Arc<File>>>,
}

impl Files {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<FileKey, Arc<File>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the file, opening it if necessary.
    pub(super) fn get(&self, key: FileKey, path: impl FnOnce() -> std::path::PathBuf) -> Result<Arc<File>, LogError> {
        if let Some(file) = self.open().get(&key) {
            return Ok(Arc::clone(file));
        }
        Ok(self.keep(key, open(&path())?))
    }

    /// Caches an opened file. At capacity all others are closed; those in use are opened again.
    pub(super) fn keep(&self, key: FileKey, file: File) -> Arc<File> {
        let (mut open, file) = (self.open(), Arc::new(file));
        if open.len() >= self.capacity {
            open.clear();
        }
        open.insert(key, Arc::clone(&file));
        file
    }

    /// Evicts a file that is replaced or removed.
    pub(super) fn forget(&self, key: FileKey) {
        self.open().remove(&key);
    }
}
