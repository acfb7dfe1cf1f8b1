//! Exit codes of a service, as in `sysexits.h`, so that a supervisor can distinguish the reasons.

use std::process::ExitCode;

use orbweaver_stage::StageError;

use crate::service::ServiceError;

/// Exit reason of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// Ended on request, with all started work finished. 0.
    Success,
    /// Invalid command line. 64.
    Usage,
    /// A task panicked, which is a defect. 70.
    Panicked,
    /// The log or the store failed. 74.
    Failed,
    /// Halted, stalled, ended with unfinished work, or prevented from joining by a clock difference; a restart resumes.
    /// 75.
    TempFail,
    /// Invalid configuration. 78.
    Configuration,
}

impl ExitReason {
    #[must_use]
    pub fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Success => 0,
            Self::Usage => 64,
            Self::Panicked => 70,
            Self::Failed => 74,
            Self::TempFail => 75,
            Self::Configuration => 78,
        })
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
