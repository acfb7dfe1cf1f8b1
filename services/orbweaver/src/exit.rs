//! Exit codes of the command: one per kind of end, so that scripts can distinguish them.

use std::process::ExitCode;

/// Reason why a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The command did its work, and found what it looks for (exit code 1).
    #[error("{0}")]
    Found(String),
    /// The command line is wrong (exit code 64).
    #[error("{0}")]
    Usage(String),
    /// Everything is done except records that could not be processed (exit code 65).
    #[error("{0}")]
    Unprocessed(String),
    /// An input file does not exist or cannot be read (exit code 66).
    #[error("{0}")]
    Input(String),
    /// No seed could be fetched (exit code 69).
    #[error("{0}")]
    NoSeed(String),
    /// The output cannot be used (exit code 73).
    #[error("{0}")]
    Output(String),
    /// The log or the store failed (exit code 74).
    #[error("{0}")]
    Failed(String),
    /// Stopped before the end; the same command resumes (exit code 75).
    #[error("{0}")]
    Stopped(String),
}

/// Creates the failure of the log or the store.
pub fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

impl Failure {
    /// Returns the exit code: 1, or one of `sysexits.h`.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Found(_) => 1,
            Self::Usage(_) => 64,
            Self::Unprocessed(_) => 65,
            Self::Input(_) => 66,
            Self::NoSeed(_) => 69,
            Self::Output(_) => 73,
            Self::Failed(_) => 74,
            Self::Stopped(_) => 75,
        }
    }

    /// Returns the failure with another text, and the same exit code.
    #[must_use]
    pub fn with(self, text: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Found(was) => Self::Found(text(was)),
            Self::Usage(was) => Self::Usage(text(was)),
            Self::Unprocessed(was) => Self::Unprocessed(text(was)),
            Self::Input(was) => Self::Input(text(was)),
            Self::NoSeed(was) => Self::NoSeed(text(was)),
            Self::Output(was) => Self::Output(text(was)),
            Self::Failed(was) => Self::Failed(text(was)),
            Self::Stopped(was) => Self::Stopped(text(was)),
        }
    }

    /// Prints the error to stderr, and returns the exit code.
    #[must_use]
    pub fn report(&self) -> ExitCode {
        notice!("orbweaver: {self}");
        ExitCode::from(self.code())
    }
}
