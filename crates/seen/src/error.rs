//! Errors of the index.

/// Error of the index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeenError {
    /// Reading or writing failed.
    #[error("{path}: {reason}; free space, repair the disk, or delete the directory to rebuild the index")]
    Disk { path: String, reason: String },
    /// Another process holds the index.
    #[error("{path}: the index is in use by another process")]
    InUse { path: String },
    /// The log does not hold the record of the index checkpoint; the index was discarded.
    #[error(
        "partition {partition}: the record of the index checkpoint at offset {offset} is not in the log; \
         the index was discarded, restart the process to rebuild it"
    )]
    Foreign {
        partition: u32,
        /// Offset of the index checkpoint.
        offset: u64,
    },
    /// The log does not deliver the records that it acknowledged.
    #[error(
        "partition {partition}: {entries} acknowledged URLs were not read back from the log; restart the process to \
         resume reading at the index checkpoint"
    )]
    Behind { partition: u32, entries: usize },
    /// The partition number is out of range.
    #[error("partition {0} is out of range; there are 16384 at most")]
    Partition(u32),
}
