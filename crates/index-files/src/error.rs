//! Errors of the files of an index.

use std::{fmt::Display, io, path::Path};

/// Error of the files of an index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexFilesError {
    /// A read or write failed.
    #[error(
        "{path}: {reason}; free disk space or repair the disk, or stop the service and delete the directory: the index \
         is rebuilt from the log"
    )]
    Disk { path: String, reason: String },
    /// Another process has the index open.
    #[error("{path}: the index is in use by another process")]
    InUse { path: String },
    /// The partition number is out of range.
    #[error("partition {0} is out of range; allowed: 0 to 16383")]
    Partition(u32),
}

impl IndexFilesError {
    /// Returns the error of a failed read or write.
    #[must_use]
    pub fn disk(path: &Path, reason: &dyn Display) -> Self {
        Self::Disk { path: path.display().to_string(), reason: reason.to_string() }
    }
}

/// Returns the error of a file whose content is invalid.
#[must_use]
pub fn damage(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged", path.display()))
}

/// Returns `true` if files are missing, truncated or invalid, rather than inaccessible.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
}
