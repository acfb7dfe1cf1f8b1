//! Errors of an index.

use orbweaver_index_files::IndexFilesError;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The files of the index are in use, or cannot be read or written.
    #[error(transparent)]
    Files(#[from] IndexFilesError),
    /// The content of the index is invalid.
    #[error("{path}: the index is damaged ({reason}); restart the service to rebuild it from the log")]
    Damaged { path: String, reason: String },
    /// A site's queue has fewer URLs than were counted.
    #[error(
        "the queue of the site with id {site:016x} has fewer URLs than were counted: the index is damaged; restart \
         the service to rebuild it from the log"
    )]
    Inconsistent { site: u64 },
}

impl IndexError {
    /// Returns `true` if the index must be discarded.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Inconsistent { .. })
    }
}
