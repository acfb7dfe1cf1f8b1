//! Exit codes of a service, as in `sysexits.h`, so that a supervisor can distinguish the reasons.

use std::process::ExitCode;

use orbweaver_stage::StageError;

use crate::service::ServiceError;

/// Exit reason of a service, with its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitReason {
    /// Ended on request, with all started work finished.
    Success = 0,
    /// Invalid command line.
    Usage = 64,
    /// A task panicked, which is a defect.
    Panicked = 70,
    /// The log or the store failed.
    Failed = 74,
    /// Halted, stalled, ended with unfinished work, or prevented from joining by a clock difference; a restart resumes.
    TempFail = 75,
    /// Invalid configuration.
    Configuration = 78,
}

impl ExitReason {
    #[must_use]
    pub fn code(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

impl From<&ServiceError> for ExitReason {
    fn from(error: &ServiceError) -> Self {
        match error {
            ServiceError::Stage(StageError::Halted { .. } | StageError::Stalled { .. }) => Self::TempFail,
            ServiceError::Stage(StageError::Panicked { .. }) => Self::Panicked,
            ServiceError::Configuration(_) => Self::Configuration,
            ServiceError::Clock(_) => Self::TempFail,
            ServiceError::Stage(_) | ServiceError::Start(_) => Self::Failed,
        }
    }
}
