//! How a service ends: one code a kind of end, as in `sysexits.h`, so that a supervisor can tell them apart.

use std::process::ExitCode;

use orbweaver_stage::StageError;

use crate::service::ServiceError;

/// How a service ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was told to end, and finished what it had begun. 0.
    Told,
    /// The command line is wrong. 64.
    Usage,
    /// A task panicked, which is a defect. 70.
    Panicked,
    /// The log or the store failed. 74.
    Failed,
    /// It halted, stalled, or ended before everything was finished: start it again, and it goes on. 75.
    Again,
    /// The configuration is wrong. 78.
    Configuration,
}

impl End {
    /// The exit code.
    #[must_use]
    pub fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Told => 0,
            Self::Usage => 64,
            Self::Panicked => 70,
            Self::Failed => 74,
            Self::Again => 75,
            Self::Configuration => 78,
        })
    }
}

impl From<&ServiceError> for End {
    fn from(error: &ServiceError) -> Self {
        match error {
            ServiceError::Stage(StageError::Halted { .. } | StageError::Stalled { .. }) => Self::Again,
            ServiceError::Stage(StageError::Panicked { .. }) => Self::Panicked,
            ServiceError::Configuration(_) => Self::Configuration,
            ServiceError::Stage(_) | ServiceError::Start(_) => Self::Failed,
        }
    }
}
