//! The directory of an index.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use orbweaver_url::SLOTS;

use crate::{IndexFilesError, error::is_damage};

/// File that is locked while the directory is in use.
const LOCK: &str = "lock";
/// File with the format of the index.
const VERSION: &str = "version";
/// File that marks the index as damaged.
const CONDEMNED: &str = "condemned";
/// Name of a partition's directory, before its number.
const PARTITION: &str = "p";

/// Directory of the index of one process, with a directory for each partition. It is locked until the last clone is
/// dropped.
#[derive(Debug, Clone)]
pub struct IndexDir(Arc<Locked>);

#[derive(Debug)]
struct Locked {
    path: PathBuf,
    open: Arc<AtomicUsize>,
    _lock: File,
}

/// An open partition, counted until it is dropped.
#[derive(Debug)]
pub struct OpenPartition(Arc<AtomicUsize>);

impl Drop for OpenPartition {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl IndexDir {
    /// Locks this directory, or creates it. If its index is condemned or of another format, everything in the directory
    /// is deleted; it must not contain anything else.
    ///
    /// # Errors
    /// Fails if another process has locked it, or if the disk fails.
    pub fn open(path: &Path, format: &str) -> Result<Self, IndexFilesError> {
        let failed = |error: io::Error| IndexFilesError::disk(path, &error);
        fs::create_dir_all(path).map_err(failed)?;
        let lock = File::create(path.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(IndexFilesError::InUse { path: path.display().to_string() }),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        prepare(path, format).map_err(failed)?;
        Ok(Self(Arc::new(Locked { path: path.to_owned(), open: Arc::default(), _lock: lock })))
    }

    /// Calls `read` with the directory of a partition, which need not exist.
    ///
    /// # Errors
    /// Fails if there is no such partition, or if `read` fails.
    pub fn read<T>(&self, partition: u32, read: impl FnOnce(&Path) -> io::Result<T>) -> Result<T, IndexFilesError> {
        let dir = self.partition(partition)?;
        read(&dir).map_err(|error| IndexFilesError::disk(&dir, &error))
    }

    /// Opens the files of a partition by `open`. If they are damaged, they are discarded, and opened again.
    ///
    /// # Errors
    /// Fails if there is no such partition, or if the disk fails.
    pub fn open_partition<T>(
        &self,
        partition: u32,
        open: impl Fn(&Path) -> io::Result<T>,
    ) -> Result<T, IndexFilesError> {
        let dir = self.partition(partition)?;
        let opened = match open(&dir) {
            Err(error) if is_damage(&error) => {
                tracing::warn!(partition, %error, "index of a partition discarded; rebuilding it from the log");
                self.discard(partition)?;
                open(&dir)
            }
            opened => opened,
        };
        opened.map_err(|error| IndexFilesError::disk(&dir, &error))
    }

    /// Discards the files of a partition, which must not be open.
    ///
    /// # Errors
    /// Fails if there is no such partition, or if the disk fails.
    pub fn discard(&self, partition: u32) -> Result<(), IndexFilesError> {
        self.read(partition, |dir| match fs::remove_dir_all(dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        })
    }

    /// Returns the partitions that have a directory, in order.
    ///
    /// # Errors
    /// Fails if the disk fails.
    pub fn partitions(&self) -> Result<Vec<u32>, IndexFilesError> {
        let number = |entry: io::Result<fs::DirEntry>| {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(PARTITION)?.parse().ok());
            Ok(number.filter(|number| *number < u32::from(SLOTS)))
        };
        let numbers = fs::read_dir(&self.0.path).and_then(|entries| {
            entries.filter_map(|entry| number(entry).transpose()).collect::<io::Result<Vec<u32>>>()
        });
        let mut numbers = numbers.map_err(|error| IndexFilesError::disk(&self.0.path, &error))?;
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Marks the index as damaged, so that the next [`IndexDir::open`] discards it.
    pub fn condemn(&self) {
        let path = &self.0.path;
        if let Err(error) = fs::write(path.join(CONDEMNED), "") {
            tracing::error!(
                path = %path.display(), %error,
                "damaged index could not be marked for a rebuild: delete its directory before the next start"
            );
        }
    }

    /// Counts a partition as open.
    #[must_use]
    pub fn count_open(&self) -> OpenPartition {
        self.0.open.fetch_add(1, Relaxed);
        OpenPartition(self.0.open.clone())
    }

    /// Returns the number of partitions that are counted as open, 1 at least.
    #[must_use]
    pub fn open_partitions(&self) -> usize {
        self.0.open.load(Relaxed).max(1)
    }

    fn partition(&self, partition: u32) -> Result<PathBuf, IndexFilesError> {
        if partition >= u32::from(SLOTS) {
            return Err(IndexFilesError::Partition(partition));
        }
        Ok(self.0.path.join(format!("{PARTITION}{partition}")))
    }
}

/// Deletes everything in the directory but the lock if the format differs, or if the index is condemned.
fn prepare(path: &Path, format: &str) -> io::Result<()> {
    let version = path.join(VERSION);
    if fs::read(&version).is_ok_and(|text| text == format.as_bytes()) && !path.join(CONDEMNED).exists() {
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == LOCK {
            continue;
        }
        tracing::warn!(path = %entry.path().display(), "damaged, or not an index of this version; rebuilding it from the log");
        if entry.file_type()?.is_dir() { fs::remove_dir_all(entry.path())? } else { fs::remove_file(entry.path())? }
    }
    fs::write(version, format)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "index 1\n";

    /// Opens the directory with a file in partitions 1 and 2.
    fn filled(path: &Path) -> IndexDir {
        let dir = IndexDir::open(path, FORMAT).unwrap();
        for partition in [1, 2] {
            let written = dir.open_partition(partition, |dir| {
                fs::create_dir_all(dir)?;
                fs::write(dir.join("table"), "entries")
            });
            written.unwrap();
        }
        dir
    }

    /// Opens a partition: its table must have all entries.
    fn open(dir: &Path) -> io::Result<String> {
        fs::create_dir_all(dir)?;
        match fs::read_to_string(dir.join("table")) {
            Ok(text) if text == "entries" => Ok(text),
            Ok(_) => Err(crate::damage(dir)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(error),
        }
    }

    #[test]
    fn a_damaged_partition_is_discarded_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let dir = filled(directory.path());
        assert_eq!(dir.partitions().unwrap(), [1, 2]);
        fs::write(directory.path().join("p1/table"), "entr").unwrap();
        assert_eq!(dir.open_partition(1, open).unwrap(), "");
        assert_eq!(dir.open_partition(2, open).unwrap(), "entries");
        dir.discard(2).unwrap();
        dir.discard(2).unwrap();
        assert_eq!(dir.open_partition(2, open).unwrap(), "");
    }

    #[test]
    fn an_index_that_is_condemned_or_of_another_format_is_discarded_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let breaks: [fn(&Path, IndexDir); 3] = [
            |_, dir| dir.condemn(),
            |path, _| fs::write(path.join(VERSION), "index 2\n").unwrap(),
            |path, _| fs::remove_file(path.join(VERSION)).unwrap(),
        ];
        for break_it in breaks {
            let dir = filled(path);
            fs::create_dir_all(path.join("keyspaces/1")).unwrap();
            break_it(path, dir);
            let dir = IndexDir::open(path, FORMAT).unwrap();
            assert_eq!(dir.partitions().unwrap(), Vec::<u32>::new());
            assert!(!path.join("keyspaces").exists());
            drop(dir);
            drop(filled(path));
            assert_eq!(IndexDir::open(path, FORMAT).unwrap().partitions().unwrap(), [1, 2], "across a restart");
        }
    }

    #[test]
    fn a_directory_in_use_is_refused_and_so_is_a_partition_out_of_range() {
        let directory = tempfile::tempdir().unwrap();
        let dir = filled(directory.path());
        let clone = dir.clone();
        drop(dir);
        let in_use = IndexFilesError::InUse { path: directory.path().display().to_string() };
        assert_eq!(IndexDir::open(directory.path(), FORMAT).unwrap_err(), in_use);
        assert_eq!(clone.open_partition(16_384, open).unwrap_err(), IndexFilesError::Partition(16_384));
        assert_eq!(clone.open_partition(16_383, open).unwrap(), "");
        drop(clone);
        IndexDir::open(directory.path(), FORMAT).unwrap();
    }

    #[test]
    fn open_partitions_are_counted_until_they_are_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let dir = filled(directory.path());
        let (first, second) = (dir.count_open(), dir.count_open());
        assert_eq!(dir.open_partitions(), 2);
        drop(first);
        drop(second);
        assert_eq!(dir.open_partitions(), 1);
    }
}
