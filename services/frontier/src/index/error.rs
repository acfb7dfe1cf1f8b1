//! Errors of an index.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// A read or write failed.
    #[error(
        "{path}: {reason}; free disk space or repair the disk, or stop the service and delete the directory: the index \
         is rebuilt from the log"
    )]
    Disk { path: String, reason: String },
    /// The content of the index is invalid.
    #[error("{path}: the index is damaged ({reason}); restart the service to rebuild it from the log")]
    Damaged { path: String, reason: String },
    /// A site's queue has fewer URLs than were counted.
    #[error(
        "the queue of the site with id {site:016x} has fewer URLs than were counted: the index is damaged; restart \
         the service to rebuild it from the log"
    )]
    Inconsistent { site: u64 },
    /// Another process has the index open.
    #[error("{path}: the index is in use by another process")]
    InUse { path: String },
    /// The partition number is out of range.
    #[error("partition {0} is out of range; allowed: 0 to 16383")]
    Partition(u32),
}

impl IndexError {
    /// Returns `true` if the index must be discarded.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Inconsistent { .. })
    }
}
