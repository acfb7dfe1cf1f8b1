//! Files: a cache of open segment files, and errors with paths.
//!
//! System calls are made in place, on the caller's thread: an append is a copy into the page cache, which takes
//! microseconds. Reads that may reach the disk are sent to the blocking pool by `consumer` and `reader`.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{LogError, Offset};

/// Size of a write when a file is written again.
const PIECE_BYTES: usize = 128 << 10;

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

/// Writes a file again from `from` on, so that its pages are synced again.
pub(super) fn rewrite(path: &Path, file: &File, from: u64) -> Result<(), LogError> {
    let len = file.metadata().map_err(at(path))?.len();
    let mut buffer = vec![0; PIECE_BYTES];
    let mut position = from;
    while position < len {
        let count = usize::try_from(len - position).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let piece = buffer.get_mut(..count).unwrap_or_default();
        file.read_exact_at(piece, position).map_err(at(path))?;
        file.write_all_at(piece, position).map_err(at(path))?;
        position += count as u64;
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

/// The most recently used segment files, kept open up to a limit, so that neither a long backlog nor many partitions
/// exhaust file descriptors.
pub(super) struct Files {
    capacity: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    files: HashMap<FileKey, (Arc<File>, u64)>,
    uses: u64,
}

impl Files {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, open: Mutex::default() }
    }

    /// Returns the file, opening it if necessary.
    pub(super) fn get(&self, key: FileKey, path: impl FnOnce() -> std::path::PathBuf) -> Result<Arc<File>, LogError> {
        if let Some(file) = self.find(key) {
            return Ok(file);
        }
        Ok(self.keep(key, open(&path())?))
    }

    /// Caches an opened file, and evicts the least recently used one at capacity.
    pub(super) fn keep(&self, key: FileKey, file: File) -> Arc<File> {
        let file = Arc::new(file);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.uses += 1;
        let now = open.uses;
        open.files.insert(key, (Arc::clone(&file), now));
        if open.files.len() > self.capacity {
            let oldest = open.files.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| *key);
            oldest.and_then(|oldest| open.files.remove(&oldest));
        }
        file
    }

    /// Evicts a file that is replaced or removed.
    pub(super) fn forget(&self, key: FileKey) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).files.remove(&key);
    }

    fn find(&self, key: FileKey) -> Option<Arc<File>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.uses += 1;
        let now = open.uses;
        let (file, used) = open.files.get_mut(&key)?;
        *used = now;
        Some(Arc::clone(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_files_stay_open_than_allowed_and_the_used_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::new(2);
        let key = |base| FileKey { partition: 0, base, generation: 0 };
        for base in 0..10 {
            let path = dir.path().join(base.to_string());
            drop(create(&path).unwrap());
            files.get(key(base), || path).unwrap();
            files.get(key(0), || unreachable!("the file in use stays open")).unwrap();
        }
        assert_eq!(files.open.lock().unwrap().files.len(), 2);
        let error = files.get(key(99), || dir.path().join("absent")).unwrap_err();
        assert!(error.to_string().contains("absent"), "{error}");
    }

    #[test]
    fn a_file_is_written_again_with_the_same_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let content: Vec<u8> = (0..3 * PIECE_BYTES + 7).map(|at| (at % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let file = open(&path).unwrap();
        let written_again = |from| {
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
            rewrite(&path, &file, from).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), content);
            file.metadata().unwrap().modified().unwrap() != std::time::UNIX_EPOCH
        };
        assert!(written_again(0));
        assert!(written_again(content.len() as u64 - 1));
        assert!(!written_again(content.len() as u64), "nothing is behind the end");
    }
}
