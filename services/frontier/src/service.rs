//! The service in a cluster: its settings, and the components that it runs.

use std::{path::PathBuf, sync::Arc};

use orbweaver_process::{Deleting, Service, ServiceContext, ServiceError, State, configuration::Settings};
use orbweaver_settings::Rate;
use orbweaver_stage::{NoEffects, NoJobs, retention::Bound};

use crate::{FrontierConfig, FrontierIndex, FrontierStage, config::Documents, metrics::FrontierMetrics};

/// The frontier as a process.
#[derive(Debug)]
pub struct FrontierService {
    config: FrontierConfig,
    index_dir: PathBuf,
    deleting: Deleting,
}

impl Service for FrontierService {
    const NAME: &'static str = "frontier";
    const BINARY: &'static str = env!("CARGO_PKG_NAME");
    const ABOUT: &'static str = "Orders queued URLs and leases them for fetching.";
    const LISTEN: &'static str = "127.0.0.1:9462";

    fn configure(settings: &mut Settings, _: usize) -> Self {
        let State { dir } = settings.section();
        let config: FrontierConfig = settings.section();
        let Documents { retention, retention_bytes } = settings.section();
        let Rate { interval_ms } = settings.one("rate_limiter", "rate");
        let config = FrontierConfig { default_interval_ms: interval_ms, ..config };
        let of_users = Bound { age: retention, bytes: retention_bytes };
        let deleting = Deleting { every: config.delete_interval, of_users };
        Self { config, index_dir: dir.join(Self::NAME), deleting }
    }

    async fn serve(self, shell: ServiceContext) -> Result<(), ServiceError> {
        let metrics = FrontierMetrics::register(shell.registry()).map_err(ServiceError::start)?;
        let index = FrontierIndex::open(&self.index_dir).map_err(ServiceError::start)?;
        let stage = FrontierStage::new(self.config, metrics, Arc::default()).with_index(index);
        shell.run_and_delete(self.deleting, stage, NoJobs, NoEffects).await
    }
}
