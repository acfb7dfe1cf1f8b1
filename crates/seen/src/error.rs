//! Errors of the index.

/// Error of the index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeenError {
    /// Reading or writing failed.
    #[error("{path}: {reason}; free some space or mend the disk, or delete the directory, which costs only time")]
    Disk {
        /// Directory of the index.
        path: String,
        /// Reason of the failure.
        reason: String,
    },
    /// Another process holds the index.
    #[error("{path}: the index is in use by another process")]
    InUse {
        /// Directory of the index.
        path: String,
    },
    /// The log does not hold the record of the index checkpoint; the index was discarded.
    #[error(
        "partition {partition}: the log does not hold the record at offset {offset} that the index stands at; \
         the index was thrown away, start again to build it anew"
    )]
    Foreign {
        /// Partition number.
        partition: u32,
        /// Offset of the index checkpoint.
        offset: u64,
    },
    /// The log does not deliver the records that it acknowledged.
    #[error(
        "partition {partition}: {entries} URLs were acknowledged and not read back; the log's reader is behind, start again \
         to read the log from where the index stands"
    )]
    Behind {
        /// Partition number.
        partition: u32,
        /// Number of entries not read back.
        entries: usize,
    },
    /// The partition number is out of range.
    #[error("partition {0} is out of range; there are 16384 at most")]
    Partition(u32),
}
