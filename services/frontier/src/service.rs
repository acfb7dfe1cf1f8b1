//! The service in a cluster: its settings, and the components that it runs.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use orbweaver_log::{Log, LogError};
use orbweaver_messages::Millis;
use orbweaver_process::{Deleting, EverySecond, Service, ServiceContext, ServiceError, State, configuration::Settings};
use orbweaver_settings::Rate;
use orbweaver_stage::{NoEffects, NoJobs, retention::Bound};

use crate::{
    EventWriter, FrontierConfig, FrontierIndex, FrontierStage, FrontierView, config::Documents,
    metrics::FrontierMetrics,
};

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

    fn directory(&self) -> Option<&Path> {
        Some(&self.index_dir)
    }

    async fn serve(self, shell: ServiceContext) -> Result<(), ServiceError> {
        let metrics = FrontierMetrics::register(shell.registry()).map_err(ServiceError::start)?;
        let index = FrontierIndex::open(&self.index_dir).map_err(ServiceError::start)?;
        let view = Arc::<FrontierView>::default();
        let stage = FrontierStage::new(self.config, metrics, view.clone()).with_index(index);
        let running = Box::pin(shell.run_and_delete(self.deleting, stage, NoJobs, NoEffects));
        shell.with_every_second(running, Events { writer: EventWriter::default(), view }).await
    }
}

/// Writer of the events of crawls, while the partition of these events is open here.
struct Events {
    writer: EventWriter,
    view: Arc<FrontierView>,
}

impl EverySecond for Events {
    const PURPOSE: &'static str = "events of crawls";

    async fn act(&mut self, log: &dyn Log, now: Millis) -> Result<(), LogError> {
        match self.view.crawls() {
            Some(crawls) => self.writer.step(log, &crawls, now).await,
            None => {
                self.writer.leave();
                Ok(())
            }
        }
    }
}
