//! Errors of a report.

use std::{io, path::PathBuf};

use crate::{exit::Failure, results::ResultsError};

/// Error of a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The results cannot be read.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The policy of the command line is not that of the crawl.
    #[error("--canonical: the crawl has the policy `{0}`")]
    Policy(String),
    /// The temporary files cannot be used.
    #[error("{path}: {source}; --temp DIR puts the temporary files elsewhere")]
    Temporary {
        /// Directory of the temporary files.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The temporary tables failed.
    #[error("the temporary files failed: {0}")]
    Table(#[from] fjall::Error),
    /// A temporary table has a damaged entry.
    #[error("the temporary files have a damaged entry: {0}")]
    Entry(#[from] serde_json::Error),
    /// The report cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// A file of the report cannot be written.
    #[error("{path}: {source}")]
    Output {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The report was interrupted.
    #[error("stopped; the report is incomplete, and its temporary files are removed")]
    Stopped,
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        let text = error.to_string();
        match error {
            ReportError::Results(error) => error.into(),
            ReportError::Policy(_) => Self::Usage(text),
            ReportError::Temporary { .. } | ReportError::Table(_) | ReportError::Entry(_) => Self::Failed(text),
            ReportError::Write(_) | ReportError::Output { .. } => Self::Output(text),
            ReportError::Stopped => Self::Stopped(text),
        }
    }
}
