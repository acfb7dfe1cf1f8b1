//! What can go wrong with an index.

/// What can go wrong with an index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// Reading or writing failed.
    #[error("{path}: {reason}; free some space or mend the disk, or delete the directory, which costs only time")]
    Disk {
        /// The index's directory.
        path: String,
        /// What the storage engine said.
        reason: String,
    },
    /// What is in the index cannot be.
    #[error("{path}: the index is damaged ({reason}); start again to build it anew")]
    Damaged {
        /// The index's directory.
        path: String,
        /// What was found.
        reason: String,
    },
    /// A site's queue has less in it than was counted.
    #[error(
        "the queue of the site with id {site:016x} holds less than was counted: the index is damaged; start again to build it anew"
    )]
    Inconsistent {
        /// The id of the site.
        site: u64,
    },
    /// Another process holds the index.
    #[error("{path}: the index is in use by another process")]
    InUse {
        /// The index's directory.
        path: String,
    },
    /// There are fewer partitions than that.
    #[error("partition {0} is out of range; there are 16384 at most")]
    Partition(u32),
}

impl IndexError {
    /// Whether the index is to be thrown away.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Inconsistent { .. })
    }
}
