//! Index over `crawl.seen`: exact on disk, or a Bloom filter in memory.

use std::path::Path;

use orbweaver_messages::{SeenBatch, SeenEntry};
use orbweaver_url::Fingerprint;

use crate::{
    IndexCheckpoint, Lookups, SeenError,
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
}

/// Index of one partition of `crawl.seen`.
#[derive(Debug)]
pub enum SeenPartition {
    /// In memory and SSTables.
    Exact(Box<ExactPartition>),
    /// A Bloom filter.
    Bloom(BloomPartition),
}

/// Calls a method of either kind.
macro_rules! either {
    ($self:ident, $partition:ident => $call:expr) => {
        match $self {
            Self::Exact($partition) => $call,
            Self::Bloom($partition) => $call,
        }
    };
}

impl SeenPartition {
    /// Opens the index of a partition at its checkpoint. The log must then be replayed from [`Self::position`],
    /// including that record, or else from its start; then call [`Self::serve`].
    pub fn open(index: &SeenIndex, partition: u32) -> Result<Self, SeenError> {
        Ok(match index {
            SeenIndex::Exact(index) => Self::Exact(Box::new(ExactPartition::open(index, partition)?)),
            SeenIndex::Bloom(records) => {
                Self::Bloom(BloomPartition::new(records.get(partition as usize).copied().unwrap_or_default()))
            }
        })
    }

    /// Returns the last record that was read back.
    #[must_use]
    pub fn position(&self) -> Option<IndexCheckpoint> {
        either!(self, partition => partition.position())
    }

    /// Applies a record of the log, in log order. The first one must be the record at the checkpoint.
    ///
    /// # Errors
    /// When the disk fails; or when the index was built from another log, which discards the index.
    pub fn read_back(&mut self, at: IndexCheckpoint, batch: &SeenBatch) -> Result<(), SeenError> {
        match self {
            Self::Exact(partition) => partition.read_back(at, batch)?,
            Self::Bloom(partition) => partition.read_back(at, batch),
        }
        Ok(())
    }

    /// Ends the restore: from now on "not found" is final.
    ///
    /// # Errors
    /// When the disk fails; or when the record at the checkpoint was not in the log, which discards the index.
    pub fn serve(&mut self) -> Result<(), SeenError> {
        match self {
            Self::Exact(partition) => partition.serve()?,
            Self::Bloom(partition) => partition.serve(),
        }
        Ok(())
    }

    /// Applies entries whose record is acknowledged at this offset. Does not move the checkpoint.
    pub fn acknowledge(&mut self, entries: &[SeenEntry], offset: u64) -> Result<(), SeenError> {
        match self {
            Self::Exact(partition) => partition.acknowledge(entries, offset)?,
            Self::Bloom(partition) => partition.acknowledge(entries),
        }
        Ok(())
    }

    /// Returns the depth at which this URL was admitted, if it was; a Bloom filter returns 0 for any depth.
    pub fn depth_of(&mut self, fingerprint: Fingerprint) -> Result<Option<u16>, SeenError> {
        match self {
            Self::Exact(partition) => partition.depth_of(fingerprint),
            Self::Bloom(partition) => Ok(partition.depth_of(fingerprint)),
        }
    }

    /// Writes the entries read back, with the resulting checkpoint, and waits until they are on disk.
    pub fn write(&mut self) -> Result<(), SeenError> {
        match self {
            Self::Exact(partition) => partition.write(),
            Self::Bloom(_) => Ok(()),
        }
    }

    /// Starts to write the entries read back; waits only if the disk is far behind. The next lookup reports a failure.
    pub fn write_soon(&mut self) {
        if let Self::Exact(partition) = self {
            partition.write_soon();
        }
    }

    /// Returns the lookup statistics so far.
    #[must_use]
    pub fn lookups(&self) -> Lookups {
        either!(self, partition => partition.lookups())
    }

    /// Returns the number of entries; an entry written again at a lesser depth counts twice until the next compaction.
    #[must_use]
    pub fn len(&self) -> usize {
        either!(self, partition => partition.len())
    }

    /// Returns `true` if no URL was ever admitted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of entries that are only in memory, which have no filter.
    #[must_use]
    pub fn in_memory(&self) -> usize {
        match self {
            Self::Exact(partition) => partition.in_memory(),
            Self::Bloom(_) => 0,
        }
    }

    /// Returns the memory of the filters in bytes.
    #[must_use]
    pub fn filter_bytes(&self) -> u64 {
        match self {
            Self::Exact(partition) => partition.filter_bytes(),
            Self::Bloom(partition) => partition.bytes(),
        }
    }

    /// Returns the number of SSTables on disk, each with its own filter.
    #[must_use]
    pub fn run_count(&self) -> usize {
        match self {
            Self::Exact(partition) => partition.run_count(),
            Self::Bloom(_) => 0,
        }
    }
}
