//! Index over `crawl.seen`: exact on disk, or a Bloom filter in memory.

use std::path::Path;

use orbweaver_messages::{SeenBatch, SeenEntry};
use orbweaver_url::Fingerprint;

use crate::{
    IndexCheckpoint, IndexStats, SeenError,
    bloom::BloomPartition,
    exact::{ExactIndex, ExactPartition},
};

/// Index of one process, for all its partitions.
#[derive(Debug, Clone)]
pub enum SeenIndex {
    /// No URL is ever lost; on disk, which survives a restart.
    Exact(ExactIndex),
    /// One in a million new URLs is lost ([`FALSE_POSITIVES`](crate::FALSE_POSITIVES)), and a lesser depth is not
    /// detected; in memory, rebuilt from the log whenever a partition opens. Holds the number of records of each
    /// partition of `crawl.seen`, by which the filters are sized.
    Bloom(Vec<u64>),
}

impl SeenIndex {
    /// Opens the exact index in this directory, or creates it. An index of another format is discarded, together with
    /// everything else in the directory, which must therefore hold nothing else.
    pub fn open(path: &Path) -> Result<Self, SeenError> {
        ExactIndex::open(path).map(Self::Exact)
    }

    /// Returns the checkpoint of this partition's index; `None` if the log must be replayed from its start.
    pub fn position(&self, partition: u32) -> Result<Option<IndexCheckpoint>, SeenError> {
        match self {
            Self::Exact(index) => index.position(partition),
            Self::Bloom(_) => Ok(None),
        }
    }

    /// Returns the partitions with an index on disk, and their checkpoints.
    pub fn positions(&self) -> Result<Vec<(u32, IndexCheckpoint)>, SeenError> {
        match self {
            Self::Exact(index) => index.positions(),
            Self::Bloom(_) => Ok(vec![]),
        }
    }

    /// Discards the index of this partition. It must not be open.
    pub fn discard(&self, partition: u32) -> Result<(), SeenError> {
        match self {
            Self::Exact(index) => index.discard(partition),
            Self::Bloom(_) => Ok(()),
        }
    }

    /// Opens the index of a partition at its checkpoint. The log must then be replayed from
    /// [`SeenPartition::position`], including that record, or else from its start; then call [`SeenPartition::serve`].
    pub fn partition(&self, partition: u32) -> Result<Box<dyn SeenPartition>, SeenError> {
        Ok(match self {
            Self::Exact(index) => Box::new(ExactPartition::open(index, partition)?),
            Self::Bloom(records) => {
                Box::new(BloomPartition::new(records.get(partition as usize).copied().unwrap_or_default()))
            }
        })
    }
}

/// Index of one partition of `crawl.seen`.
pub trait SeenPartition: Send + std::fmt::Debug {
    /// Returns the last record that was read back.
    fn position(&self) -> Option<IndexCheckpoint>;

    /// Applies a record of the log, in log order. The first one must be the record at the checkpoint.
    ///
    /// # Errors
    /// When the disk fails; or when the index was built from another log, which discards the index.
    fn read_back(&mut self, at: IndexCheckpoint, batch: &SeenBatch) -> Result<(), SeenError>;

    /// Ends the restore: from now on "not found" is final.
    ///
    /// # Errors
    /// When the disk fails; or when the record at the checkpoint was not in the log, which discards the index.
    fn serve(&mut self) -> Result<(), SeenError>;

    /// Applies entries whose record is acknowledged at this offset. Does not move the checkpoint.
    fn acknowledge(&mut self, entries: &[SeenEntry], offset: u64) -> Result<(), SeenError>;

    /// Returns the depth at which this URL was admitted, if it was; a Bloom filter returns 0 for any depth.
    fn depth_of(&mut self, fingerprint: Fingerprint) -> Result<Option<u16>, SeenError>;

    /// Writes the entries read back, with the resulting checkpoint, and waits until they are on disk.
    fn write(&mut self) -> Result<(), SeenError> {
        Ok(())
    }

    /// Starts to write the entries read back; waits only if the disk is far behind. The next lookup reports a failure.
    fn write_soon(&mut self) {}

    /// Returns the look-ups so far, and the size.
    fn stats(&self) -> IndexStats;
}
