//! Reasons why results could not be written.

use std::{io, path::PathBuf};

use orbweaver_log::{LogError, Offset, TopicPartition};
use orbweaver_stage::StageError;

use super::GROUP;
use crate::exit::Failure;

/// Reason why the files could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A file cannot be written.
    #[error("{path}: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The index failed.
    #[error("the index of the exported lines failed: {0}")]
    Index(#[from] fjall::Error),
    /// The checkpoint cannot be written.
    #[error("{0}")]
    Checkpoint(String),
    /// The log no longer holds all records that these files lack.
    #[error(
        "{tp}: the records from {position} to {start} were deleted before they were collected, and may have been \
         results of this crawl: records are retained for a directory only until its crawl is complete or at its cap; \
         the files are unchanged; give another --out to collect the remaining and all future records"
    )]
    FellBehind {
        /// Partition of the missing records.
        tp: TopicPartition,
        /// Next offset to read.
        position: Offset,
        /// First offset that the log holds.
        start: Offset,
    },
}

impl From<Failure> for ExportError {
    fn from(failure: Failure) -> Self {
        Self::Checkpoint(failure.to_string())
    }
}

impl From<ExportError> for StageError {
    fn from(error: ExportError) -> Self {
        Self::Halted { service: GROUP, reason: error.to_string() }
    }
}
