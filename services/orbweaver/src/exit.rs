//! How the command ends: one code a kind of end, so that scripts can tell them apart.

use std::process::ExitCode;

/// Why a command ended without having done what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The command line is wrong (exit code 64).
    #[error("{0}")]
    Usage(String),
    /// All is done but what could not be processed (exit code 65).
    #[error("{0}")]
    Unprocessed(String),
    /// A file that is to be read is not there or cannot be read (exit code 66).
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
    /// Stopped before the end; the same command goes on (exit code 75).
    #[error("{0}")]
    Stopped(String),
}

impl Failure {
    /// The exit code, as in `sysexits.h`.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 64,
            Self::Unprocessed(_) => 65,
            Self::Input(_) => 66,
            Self::NoSeed(_) => 69,
            Self::Output(_) => 73,
            Self::Failed(_) => 74,
            Self::Stopped(_) => 75,
        }
    }

    /// Says on stderr what is wrong, and gives the exit code.
    #[must_use]
    pub fn report(&self) -> ExitCode {
        eprintln!("orbweaver: {self}");
        ExitCode::from(self.code())
    }
}
