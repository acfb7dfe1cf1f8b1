//! Errors that end the stage.

use std::{io, path::PathBuf};

use orbweaver_bucket::{AddressError, ConnectError};
use orbweaver_stage::StageError;

use crate::stage::SERVICE;

/// Failure of the archive. Nothing in flight completes; the next start repeats it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// A file or directory cannot be written, such as on a full disk.
    #[error("{path}: cannot {action}: {error}; free space or repair the disk, then start again")]
    Io {
        path: PathBuf,
        /// Attempted operation, such as `write`.
        action: &'static str,
        error: io::Error,
    },
    /// The settings of the store cannot be used.
    #[error(transparent)]
    Settings(#[from] ConnectError),
    /// The address of the store cannot be used.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A request to the store failed, also after its repetitions.
    #[error("{object}: cannot {action}: {reason}; start again once the store is available")]
    Store {
        object: String,
        /// Attempted operation, such as `upload`.
        action: &'static str,
        reason: String,
    },
    /// A file that the stage writes to is not open: a defect.
    #[error("{0}: the file is not open")]
    NotOpen(PathBuf),
    /// A job panicked: a defect.
    #[error("a job panicked: {0}")]
    Panicked(String),
}

impl ArchiveError {
    /// Returns a function that names the path and the operation of an error.
    pub(crate) fn io(path: impl Into<PathBuf>, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::Io { path, action, error }
    }
}

impl From<ArchiveError> for StageError {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::Panicked(reason) => Self::Panicked { service: SERVICE, reason },
            error => Self::Halted { service: SERVICE, reason: error.to_string() },
        }
    }
}
