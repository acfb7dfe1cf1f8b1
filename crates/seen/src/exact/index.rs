//! The exact index on disk: fingerprint to depth, in SSTables, one directory per partition.

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

use super::{compaction::Workers, manifest::Manifest, table_set::TableSet};
use crate::{IndexCheckpoint, SeenError};

/// Format marker of an index directory; an index of another format is discarded.
const VERSION: &str = "orbweaver-seen 2\n";
/// Entries that are collected in memory before they are written, over all partitions; about 40 bytes each.
const GATHERED: usize = 1 << 19;
/// Minimum and maximum of these entries for one partition.
const GATHERED_OF_ONE: (usize, usize) = (4096, 1 << 17);

/// The index on disk of one process, for all its partitions. It is never synced to disk: after a power failure each
/// part is either intact or discarded, since every file reveals whether it is complete, and the log has the rest.
#[derive(Debug, Clone)]
pub struct ExactIndex(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    // The first field is dropped first: the threads end while the directory is still locked.
    workers: Workers,
    path: PathBuf,
    /// Number of open partitions.
    open: AtomicUsize,
    _lock: File,
}

impl ExactIndex {
    /// Opens the index in this directory, or creates it. An index of another format is discarded, together with
    /// everything else in the directory, which must therefore hold nothing else.
    pub fn open(path: &Path) -> Result<Self, SeenError> {
        fs::create_dir_all(path).map_err(|error| failed(path, &error))?;
        // Next to the directories of the partitions, so that it survives their removal.
        let lock = File::create(path.join("lock")).map_err(|error| failed(path, &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SeenError::InUse { path: path.display().to_string() }),
            Err(TryLockError::Error(error)) => return Err(failed(path, &error)),
        }
        prepare(path).map_err(|error| failed(path, &error))?;
        let workers = Workers::start().map_err(|error| failed(path, &error))?;
        let (path, open) = (path.to_owned(), AtomicUsize::new(0));
        Ok(Self(Arc::new(Opened { workers, path, open, _lock: lock })))
    }

    /// Returns the checkpoint of this partition's index; `None` if there is none, or its manifest is damaged.
    pub fn position(&self, partition: u32) -> Result<Option<IndexCheckpoint>, SeenError> {
        let dir = self.dir(partition)?;
        let manifest = Manifest::read(&dir).map_err(|error| failed(&dir, &error))?;
        Ok(manifest.and_then(|manifest| manifest.position))
    }

    /// Returns the partitions with an index, and their checkpoints.
    pub fn positions(&self) -> Result<Vec<(u32, IndexCheckpoint)>, SeenError> {
        let mut positions = vec![];
        for entry in fs::read_dir(&self.0.path).map_err(|error| failed(&self.0.path, &error))? {
            let name = entry.map_err(|error| failed(&self.0.path, &error))?.file_name();
            let partition = name.to_str().and_then(|name| name.strip_prefix('p')).and_then(|text| text.parse().ok());
            if let Some(partition) = partition.filter(|partition| *partition < u32::from(SLOTS))
                && let Some(position) = self.position(partition)?
            {
                positions.push((partition, position));
            }
        }
        positions.sort_unstable_by_key(|(partition, _)| *partition);
        Ok(positions)
    }

    /// Discards the index of this partition. It must not be open.
    pub fn discard(&self, partition: u32) -> Result<(), SeenError> {
        let dir = self.dir(partition)?;
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&dir, &error)),
            _ => Ok(()),
        }
    }

    /// Opens the tables of a partition. A damaged index is discarded.
    pub(crate) fn table_set(&self, partition: u32) -> Result<Arc<TableSet>, SeenError> {
        let dir = self.dir(partition)?;
        let table_set = match TableSet::open(dir.clone()) {
            Err(error) if is_damage(&error) => {
                tracing::warn!(partition, %error, "the index of a partition is damaged; rebuilding it");
                self.discard(partition)?;
                TableSet::open(dir.clone())
            }
            table_set => table_set,
        };
        let table_set = table_set.map_err(|error| failed(&dir, &error))?;
        self.0.open.fetch_add(1, Relaxed);
        Ok(Arc::new(table_set))
    }

    /// Closes an open partition.
    pub(crate) fn close(&self, table_set: &TableSet) {
        table_set.close();
        self.0.open.fetch_sub(1, Relaxed);
    }

    /// Requests that a table of this set be written.
    pub(crate) fn write(&self, table_set: &Arc<TableSet>) {
        self.0.workers.write(table_set);
    }

    /// Returns the number of entries that a partition collects before it writes them.
    pub(crate) fn gathered_of_one(&self) -> usize {
        let (least, most) = GATHERED_OF_ONE;
        (GATHERED / self.0.open.load(Relaxed).max(1)).clamp(least, most)
    }

    fn dir(&self, partition: u32) -> Result<PathBuf, SeenError> {
        if partition >= u32::from(SLOTS) {
            return Err(SeenError::Partition(partition));
        }
        Ok(self.0.path.join(format!("p{partition}")))
    }
}

/// Removes everything if the format differs.
fn prepare(path: &Path) -> io::Result<()> {
    let version = path.join("version");
    if fs::read(&version).is_ok_and(|text| text == VERSION.as_bytes()) {
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == "lock" {
            continue;
        }
        tracing::warn!(path = %entry.path().display(), "not an index of this version; rebuilding it");
        if entry.file_type()?.is_dir() { fs::remove_dir_all(entry.path())? } else { fs::remove_file(entry.path())? }
    }
    fs::write(version, VERSION)
}

fn failed(path: &Path, error: &io::Error) -> SeenError {
    SeenError::Disk { path: path.display().to_string(), reason: error.to_string() }
}

/// Returns `true` if files are missing or truncated, rather than unreadable.
fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), NotFound | UnexpectedEof | InvalidData)
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::{SeenBatch, SeenEntry};
    use orbweaver_url::{CrawlName, Fingerprint};

    use super::*;
    use crate::{SeenPartition, exact::ExactPartition};

    fn fingerprint(number: u32) -> Fingerprint {
        Fingerprint::of(&CrawlName::default(), &number.to_string())
    }

    fn write(index: &ExactIndex, partition: u32, offset: u64, numbers: std::ops::Range<u32>) {
        let entry = |number| SeenEntry { slot: 0, depth: 4, fingerprint: fingerprint(number) };
        let batch = SeenBatch { entries: numbers.map(entry).collect() };
        let mut partition = ExactPartition::open(index, partition).unwrap();
        partition.read_back(IndexCheckpoint::of(offset, 1, b"value"), &batch).unwrap();
        partition.write().unwrap();
    }

    fn depth(index: &ExactIndex, partition: u32, number: u32) -> Option<u16> {
        ExactPartition::open(index, partition).unwrap().depth_of(fingerprint(number)).unwrap()
    }

    #[test]
    fn partitions_share_an_index_and_not_their_entries() {
        let directory = tempfile::tempdir().unwrap();
        let index = ExactIndex::open(directory.path()).unwrap();
        write(&index, 1, 7, 1..2);
        write(&index, 256, 8, 2..3);
        assert_eq!((depth(&index, 1, 1), depth(&index, 256, 1)), (Some(4), None));
        assert_eq!(index.positions().unwrap().iter().map(|(partition, _)| *partition).collect::<Vec<_>>(), [1, 256]);
        index.discard(1).unwrap();
        assert_eq!((depth(&index, 1, 1), index.position(1).unwrap()), (None, None));
        assert_eq!(depth(&index, 256, 2), Some(4));
    }

    #[test]
    fn a_damaged_run_or_manifest_throws_its_partition_away_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        for (damage, name) in [("cut", "run-"), ("flip", "run-"), ("remove", "run-"), ("cut", "manifest")] {
            let index = ExactIndex::open(directory.path()).unwrap();
            index.discard(1).unwrap();
            write(&index, 1, 7, 0..1000);
            write(&index, 2, 9, 0..1000);
            drop(index);
            let files = fs::read_dir(directory.path().join("p1")).unwrap().map(|entry| entry.unwrap().path());
            let mut named = files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(name));
            let path = named.next().unwrap();
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            match damage {
                "cut" => fs::write(&path, &bytes[..middle]).unwrap(),
                "flip" => {
                    bytes[middle] ^= 1;
                    fs::write(&path, &bytes).unwrap();
                }
                _ => fs::remove_file(&path).unwrap(),
            }
            let index = ExactIndex::open(directory.path()).unwrap();
            assert_eq!((depth(&index, 1, 5), depth(&index, 2, 5)), (None, Some(4)), "{damage} {name}");
            assert_eq!(index.position(1).unwrap(), None);
            index.discard(2).unwrap();
        }
    }

    #[test]
    fn an_index_of_another_format_is_thrown_away() {
        let directory = tempfile::tempdir().unwrap();
        drop(ExactIndex::open(directory.path()).unwrap());
        fs::write(directory.path().join("version"), b"nonsense").unwrap();
        fs::create_dir(directory.path().join("keyspaces")).unwrap();
        let index = ExactIndex::open(directory.path()).unwrap();
        assert_eq!(index.positions().unwrap(), []);
        assert!(!directory.path().join("keyspaces").exists());
    }

    #[test]
    fn a_directory_in_use_is_refused_and_so_is_a_partition_out_of_range() {
        let directory = tempfile::tempdir().unwrap();
        let index = ExactIndex::open(directory.path()).unwrap();
        assert!(matches!(ExactIndex::open(directory.path()), Err(SeenError::InUse { .. })));
        assert!(matches!(index.position(16_384), Err(SeenError::Partition(16_384))));
        assert!(index.position(16_383).unwrap().is_none());
    }
}
