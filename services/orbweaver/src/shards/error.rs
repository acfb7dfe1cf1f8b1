//! Errors of an export.

use std::{io, path::PathBuf};

use orbweaver_bucket::ConnectError;

use crate::{exit::Failure, results::ResultsError};

/// Error of an export.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShardsError {
    /// The results cannot be read.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The result file is not the one that was exported.
    #[error("{0} is not the file that was exported, or was changed; export it to another destination")]
    Changed(PathBuf),
    /// The export has other options.
    #[error(
        "{output} has an export with `{stored}`, and not with `{given}`; give other options or another destination"
    )]
    Selection {
        /// Destination of the export.
        output: String,
        /// Options of the export.
        stored: String,
        /// Options of the command line.
        given: String,
    },
    /// The destination, or a file or object in it, cannot be used.
    #[error("{output}: {source}")]
    Output {
        /// The destination, file or object.
        output: String,
        /// Cause.
        source: io::Error,
    },
    /// The settings cannot be used, or the manifest in a directory cannot be read or written.
    #[error(transparent)]
    Other(#[from] Failure),
    /// The export was interrupted.
    #[error("stopped; the same command continues the export")]
    Stopped,
}

impl From<ConnectError> for ShardsError {
    fn from(error: ConnectError) -> Self {
        Self::Other(Failure::Usage(error.to_string()))
    }
}

impl From<ShardsError> for Failure {
    fn from(error: ShardsError) -> Self {
        let text = error.to_string();
        match error {
            ShardsError::Results(error) => error.into(),
            ShardsError::Changed(_) => Self::Input(text),
            ShardsError::Selection { .. } => Self::Usage(text),
            ShardsError::Output { .. } => Self::Output(text),
            ShardsError::Other(failure) => failure,
            ShardsError::Stopped => Self::Stopped(text),
        }
    }
}
