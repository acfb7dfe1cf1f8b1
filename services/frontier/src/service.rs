//! The service in a cluster: its settings, and the components that it runs.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use orbweaver_process::{
    Deleting, Service, ServiceContext, ServiceError, ServiceId,
    configuration::{SettingError, Settings},
};
use orbweaver_stage::{NoEffects, NoJobs, retention::Bound};

use crate::{FrontierConfig, FrontierIndex, FrontierStage, metrics::FrontierMetrics};

/// The frontier as a process.
#[derive(Debug)]
pub struct FrontierService {
    config: FrontierConfig,
    index_dir: PathBuf,
    deleting: Deleting,
}

impl Service for FrontierService {
    const ID: ServiceId = ServiceId::Frontier;

    fn configure(settings: &Settings) -> Result<Self, Vec<SettingError>> {
        let config = config(settings).map_err(|fault| vec![fault])?;
        if config.min_outstanding > config.max_outstanding {
            let allowed = format!("at most {}, the value of `frontier.max_outstanding`", config.max_outstanding);
            return Err(vec![SettingError::allowed("frontier.min_outstanding", allowed)]);
        }
        let deleting = deleting(settings).map_err(|fault| vec![fault])?;
        let state = settings.text("state.dir").map_err(|fault| vec![fault])?;
        let index_dir = Path::new(&state).join(ServiceId::Frontier.name());
        Ok(Self { config, index_dir, deleting })
    }

    async fn serve(self, shell: ServiceContext) -> Result<(), ServiceError> {
        let metrics = FrontierMetrics::register(shell.registry()).map_err(ServiceError::start)?;
        let index = FrontierIndex::open(&self.index_dir).map_err(ServiceError::start)?;
        let stage = FrontierStage::new(self.config, metrics, Arc::default()).with_index(index);
        shell.run_and_delete(self.deleting, stage, NoJobs, NoEffects).await
    }
}

fn deleting(settings: &Settings) -> Result<Deleting, SettingError> {
    let of_users = Bound {
        age: settings.optional_time("documents.retention")?,
        bytes: settings.optional_count("documents.retention_bytes")?,
    };
    Ok(Deleting { every: settings.time("frontier.delete_interval")?, of_users })
}

fn config(settings: &Settings) -> Result<FrontierConfig, SettingError> {
    Ok(FrontierConfig {
        default_interval_ms: settings.rate("rate_limiter.rate")?.interval_ms,
        max_attempts: settings.count("frontier.max_attempts")?,
        min_outstanding: settings.count("frontier.min_outstanding")?,
        max_outstanding: settings.count("frontier.max_outstanding")?,
        reappend_above: settings.count("frontier.reappend_above")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let (settings, _) = Settings::resolve(ServiceId::Frontier, &[]);
        assert_eq!(FrontierService::configure(&settings).unwrap().config, FrontierConfig::default());
    }
}
