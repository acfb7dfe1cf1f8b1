//! Exit codes of a service, as in `sysexits.h`, so that a supervisor can distinguish the reasons.

use std::process::ExitCode;

use orbweaver_stage::StageError;

use crate::service::ServiceError;

/// Exit reason of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Ended on request, with all started work finished. 0.
    Told,
    /// Invalid command line. 64.
    Usage,
    /// A task panicked, which is a defect. 70.
    Panicked,
    /// The log or the store failed. 74.
    Failed,
    /// Halted, stalled, ended with unfinished work, or kept from joining by its clock; a restart resumes. 75.
    Again,
    /// Invalid configuration. 78.
    Configuration,
}

impl End {
    /// Returns the exit code.
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
            ServiceError::Clock(_) => Self::Again,
            ServiceError::Stage(_) | ServiceError::Start(_) => Self::Failed,
        }
    }
}
