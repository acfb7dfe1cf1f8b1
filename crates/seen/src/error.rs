//! What can go wrong with an index.

/// What can go wrong with an index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeenError {
    /// Reading or writing failed.
    #[error("{path}: {reason}; free some space or mend the disk, or delete the directory, which costs only time")]
    Disk {
        /// The index's directory.
        path: String,
        /// What the storage engine said.
        reason: String,
    },
    /// Another process holds the index.
    #[error("{path}: the index is in use by another process")]
    InUse {
        /// The index's directory.
        path: String,
    },
    /// The log does not hold the record that the index stands at; the index was thrown away.
    #[error(
        "partition {partition}: the log does not hold the record at offset {offset} that the index stands at; \
         the index was thrown away, start again to build it anew"
    )]
    Foreign {
        /// The partition.
        partition: u32,
        /// Where the index stood.
        offset: u64,
    },
    /// The log does not give back what it acknowledged.
    #[error(
        "partition {partition}: {entries} URLs were acknowledged and not read back; the log's reader is behind, start again \
         to read the log from where the index stands"
    )]
    Behind {
        /// The partition.
        partition: u32,
        /// How many.
        entries: usize,
    },
    /// There are fewer partitions than that.
    #[error("partition {0} is out of range; there are 16384 at most")]
    Partition(u32),
}
