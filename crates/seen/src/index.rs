//! The exact index on disk: fingerprint to depth, for all partitions of the process, with the position of each.

use std::{path::Path, path::PathBuf, sync::Arc};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, config::FilterPolicy};
use orbweaver_url::{Fingerprint, SLOTS};

use crate::{Position, SeenError};

/// Block cache and memtables (one that is written, one that is flushed) take so much, whatever the partitions.
const CACHE_BYTES: u64 = 2 << 20;
const MEMTABLE_BYTES: u64 = 2 << 20;
/// The least that the storage engine takes.
const JOURNAL_BYTES: u64 = 64 << 20;
/// Entries that are removed in one write.
const DISCARD_CHUNK: usize = 16_384;

/// First byte of the keys of entries: then partition (2 bytes, big endian) and fingerprint.
const ENTRY: u8 = b'e';
/// First byte of the keys of positions: then partition.
const POSITION: u8 = b'p';

/// The index on disk of one process: one store for all its partitions, so that memory does not grow with their number.
/// It is never synced to the disk: a power failure takes it back to an earlier position, and the log has the rest.
#[derive(Clone)]
pub struct SeenIndex {
    database: Database,
    entries: Keyspace,
    path: Arc<PathBuf>,
}

impl std::fmt::Debug for SeenIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SeenIndex").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SeenIndex {
    /// Opens the index in this directory, or creates it. A damaged one is thrown away, and the directory with it: it must
    /// hold nothing else.
    ///
    /// # Errors
    /// When another process holds it, or the disk fails.
    pub fn open(path: &Path) -> Result<Self, SeenError> {
        match Self::try_open(path) {
            Ok(index) => Ok(index),
            Err(fjall::Error::Locked) => Err(SeenError::InUse { path: path.display().to_string() }),
            Err(fjall::Error::Io(error)) if !is_damage(&error) => Err(failed(path, &error)),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the index is damaged and is built anew");
                std::fs::remove_dir_all(path).map_err(|error| failed(path, &error))?;
                Self::try_open(path).map_err(|error| failed(path, &error))
            }
        }
    }

    fn try_open(path: &Path) -> fjall::Result<Self> {
        let database = Database::builder(path)
            .cache_size(CACHE_BYTES)
            .max_journaling_size(JOURNAL_BYTES)
            .worker_threads(1)
            .open()?;
        // Our own filter comes first, so that nearly every look-up hits; filters of tables would only take memory.
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(MEMTABLE_BYTES)
                .filter_policy(FilterPolicy::disabled())
                .expect_point_read_hits(true)
        };
        let entries = database.keyspace("seen", options)?;
        Ok(Self { database, entries, path: Arc::new(path.to_owned()) })
    }

    /// Where the index of this partition stands; `None` when there is none, or its position is damaged.
    ///
    /// # Errors
    /// When the disk fails, or there can be no such partition.
    pub fn position(&self, partition: u32) -> Result<Option<Position>, SeenError> {
        let stored = self.entries.get(key(POSITION, partition)?).map_err(|error| self.failed(&error))?;
        Ok(stored.and_then(|bytes| Position::from_bytes(&bytes)))
    }

    /// The partitions of which there is an index, with their positions.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn positions(&self) -> Result<Vec<(u32, Position)>, SeenError> {
        let mut positions = vec![];
        for item in self.entries.prefix([POSITION]) {
            let (key, value) = item.into_inner().map_err(|error| self.failed(&error))?;
            let partition = key.get(1..3).map(|bytes| u32::from(u16::from_be_bytes([bytes[0], bytes[1]])));
            if let (Some(partition), Some(position)) = (partition, Position::from_bytes(&value)) {
                positions.push((partition, position));
            }
        }
        Ok(positions)
    }

    /// Throws the index of this partition away.
    ///
    /// # Errors
    /// When the disk fails, or there can be no such partition.
    pub fn discard(&self, partition: u32) -> Result<(), SeenError> {
        // The position goes first: entries without a position are never trusted, so that a crash in between is harmless.
        self.entries.remove(key(POSITION, partition)?).map_err(|error| self.failed(&error))?;
        // One pass over a snapshot: a new look from the start would walk over all that was removed before.
        let mut items = self.entries.prefix(key(ENTRY, partition)?);
        loop {
            let mut batch = self.database.batch();
            for item in items.by_ref().take(DISCARD_CHUNK) {
                batch.remove(&self.entries, item.key().map_err(|error| self.failed(&error))?);
            }
            if batch.is_empty() {
                return Ok(());
            }
            batch.commit().map_err(|error| self.failed(&error))?;
        }
    }

    /// The depth at which this URL was let through, as far as the disk knows.
    pub(crate) fn depth(&self, partition: u32, fingerprint: Fingerprint) -> Result<Option<u16>, SeenError> {
        let stored = self.entries.get(entry_key(partition, fingerprint)?).map_err(|error| self.failed(&error))?;
        Ok(stored.map(|value| depth_of(&value)))
    }

    /// Writes entries, and the position that they bring the index to, at once or not at all.
    pub(crate) fn write(
        &self,
        partition: u32,
        entries: impl Iterator<Item = (Fingerprint, u16)>,
        position: Option<Position>,
    ) -> Result<(), SeenError> {
        let mut batch = self.database.batch();
        for (fingerprint, depth) in entries {
            batch.insert(&self.entries, entry_key(partition, fingerprint)?, depth.to_le_bytes());
        }
        if let Some(position) = position {
            batch.insert(&self.entries, key(POSITION, partition)?, position.to_bytes());
        }
        batch.commit().map_err(|error| self.failed(&error))
    }

    /// Calls `each` with every fingerprint of the partition.
    pub(crate) fn scan(&self, partition: u32, mut each: impl FnMut(Fingerprint)) -> Result<(), SeenError> {
        for item in self.entries.prefix(key(ENTRY, partition)?) {
            let key = item.key().map_err(|error| self.failed(&error))?;
            if let Some(fingerprint) = key.get(3..).and_then(|bytes| bytes.try_into().ok()) {
                each(Fingerprint(fingerprint));
            }
        }
        Ok(())
    }

    fn failed(&self, error: &fjall::Error) -> SeenError {
        failed(&self.path, error)
    }
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> SeenError {
    SeenError::Disk { path: path.display().to_string(), reason: error.to_string() }
}

/// Whether files are missing or cut short, rather than out of reach.
fn is_damage(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), NotFound | UnexpectedEof | InvalidData)
}

/// A damaged depth counts as the least, which lets nothing through twice.
fn depth_of(value: &[u8]) -> u16 {
    value.try_into().map_or(0, u16::from_le_bytes)
}

fn key(kind: u8, partition: u32) -> Result<[u8; 3], SeenError> {
    let number = u16::try_from(partition).ok().filter(|number| *number < SLOTS);
    let [high, low] = number.ok_or(SeenError::Partition(partition))?.to_be_bytes();
    Ok([kind, high, low])
}

fn entry_key(partition: u32, fingerprint: Fingerprint) -> Result<[u8; 19], SeenError> {
    let mut bytes = [0; 19];
    bytes[..3].copy_from_slice(&key(ENTRY, partition)?);
    bytes[3..].copy_from_slice(&fingerprint.0);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(number: u32) -> Fingerprint {
        Fingerprint::of("test", &number.to_string())
    }

    #[test]
    fn partitions_share_a_store_and_not_their_entries() {
        let directory = tempfile::tempdir().unwrap();
        let index = SeenIndex::open(directory.path()).unwrap();
        let at = |offset| Some(Position::of(offset, 1, b"value"));
        index.write(1, [(fingerprint(1), 4)].into_iter(), at(7)).unwrap();
        index.write(256, [(fingerprint(2), 5)].into_iter(), at(8)).unwrap();
        assert_eq!(index.depth(1, fingerprint(1)).unwrap(), Some(4));
        assert_eq!(index.depth(256, fingerprint(1)).unwrap(), None);
        assert_eq!(index.positions().unwrap().iter().map(|(partition, _)| *partition).collect::<Vec<_>>(), [1, 256]);
        index.discard(1).unwrap();
        assert_eq!(index.depth(1, fingerprint(1)).unwrap(), None);
        assert_eq!(index.position(1).unwrap(), None);
        assert_eq!(index.depth(256, fingerprint(2)).unwrap(), Some(5));
    }

    #[test]
    fn an_index_larger_than_a_chunk_is_discarded_whole() {
        let directory = tempfile::tempdir().unwrap();
        let index = SeenIndex::open(directory.path()).unwrap();
        index.write(0, (0..40_000).map(|number| (fingerprint(number), 0)), None).unwrap();
        index.discard(0).unwrap();
        let mut left = 0;
        index.scan(0, |_| left += 1).unwrap();
        assert_eq!(left, 0);
    }

    #[test]
    fn a_torn_position_is_none_and_does_not_hide_the_others() {
        let directory = tempfile::tempdir().unwrap();
        let index = SeenIndex::open(directory.path()).unwrap();
        index.write(1, [(fingerprint(1), 4)].into_iter(), Some(Position::of(7, 1, b"value"))).unwrap();
        index.write(2, std::iter::empty(), Some(Position::of(8, 1, b"value"))).unwrap();
        index.entries.insert(key(POSITION, 1).unwrap(), [7, 0, 0]).unwrap();
        assert_eq!(index.position(1).unwrap(), None);
        assert_eq!(index.positions().unwrap(), [(2, Position::of(8, 1, b"value"))]);
        let mut partition = crate::SeenPartition::open(&index, 1).unwrap();
        assert_eq!(partition.depth_of(fingerprint(1)).unwrap(), None, "what stands without a position is thrown away");
        assert_eq!(index.depth(1, fingerprint(1)).unwrap(), None);
    }

    #[test]
    fn a_damaged_store_is_built_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("seen");
        let index = SeenIndex::open(&path).unwrap();
        index.write(1, [(fingerprint(1), 4)].into_iter(), Some(Position::of(7, 1, b"value"))).unwrap();
        drop(index);
        std::fs::write(path.join("version"), b"nonsense").unwrap();
        let index = SeenIndex::open(&path).unwrap();
        assert_eq!(index.positions().unwrap(), []);
    }

    #[test]
    fn a_directory_in_use_is_refused_and_so_is_a_partition_out_of_range() {
        let directory = tempfile::tempdir().unwrap();
        let index = SeenIndex::open(directory.path()).unwrap();
        assert!(matches!(SeenIndex::open(directory.path()), Err(SeenError::InUse { .. })));
        assert!(matches!(index.position(16_384), Err(SeenError::Partition(16_384))));
        assert!(index.position(16_383).unwrap().is_none());
    }
}
