//! The indexes of one process: a directory for each partition, locked together.

use std::path::Path;

use orbweaver_index_files::{IndexDir, OpenPartition};
use orbweaver_log::Partition;
use orbweaver_stage::IndexCheckpoint;

use super::{DiskIndex, IndexError, checkpoint::Checkpoint};

/// Format of an index. One of another format is discarded.
const VERSION: &str = "orbweaver-frontier 16\n";
/// Number of changed URLs at which the changes of a partition are written: that of all partitions, and the bounds for one.
/// Tests write soon.
const CHANGES: (usize, usize, usize) = if cfg!(test) { (8, 4, 8) } else { (65_536, 1024, 32_768) };
/// Bounds of the size of the records of changed URLs, in bytes, in the same order: a single one may have a long chain of redirects.
const CHANGES_BYTES: (usize, usize, usize) = (16 << 20, 256 << 10, 4 << 20);

/// The indexes of one process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct FrontierIndex(IndexDir);

impl FrontierIndex {
    /// Opens the indexes in this directory, or creates it. If they are damaged or of another format, everything in the
    /// directory is deleted; it must not contain anything else.
    pub fn open(path: &Path) -> Result<Self, IndexError> {
        Ok(Self(IndexDir::open(path, VERSION)?))
    }

    /// Returns the checkpoint of this partition's index; `None` if there is none, or if it is damaged.
    pub fn position(&self, partition: Partition) -> Result<Option<IndexCheckpoint>, IndexError> {
        let checkpoint = self.0.read(partition, Checkpoint::read)?;
        Ok(checkpoint.map(|checkpoint| checkpoint.position))
    }

    /// Opens the index of this partition at its checkpoint. A damaged one is discarded.
    pub fn partition(&self, partition: Partition) -> Result<DiskIndex, IndexError> {
        Ok(self.0.open_partition(partition, |dir| DiskIndex::open(self, dir))?)
    }

    /// Discards the index of this partition, which must not be open.
    pub fn discard(&self, partition: Partition) -> Result<(), IndexError> {
        Ok(self.0.discard(partition)?)
    }

    /// Marks the indexes as damaged, so that the next [`FrontierIndex::open`] discards them.
    pub fn condemn(&self) {
        self.0.condemn();
    }

    /// Counts a partition as open.
    pub(super) fn count_open(&self) -> OpenPartition {
        self.0.count_open()
    }

    /// Returns the number of changed URLs, and of bytes of their records, at which a partition writes its changes.
    pub(super) fn room(&self) -> (usize, usize) {
        let open = self.0.open_partitions();
        let share = |(all, least, most): (usize, usize, usize)| (all / open).clamp(least, most);
        (share(CHANGES), share(CHANGES_BYTES))
    }
}
