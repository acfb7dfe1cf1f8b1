//! The service as a process of a cluster: settings and start.

use std::path::Path;

use orbweaver_messages::topic;
use orbweaver_process::{Service, ServiceContext, ServiceError, configuration::Settings};

use crate::{ArchiverConfig, ArchiverMetrics, ArchiverStage, FileWorker, leftovers::Leftovers};

/// The archiver as a process.
#[derive(Debug)]
pub struct ArchiverService(ArchiverConfig);

impl Service for ArchiverService {
    const NAME: &'static str = crate::SERVICE;
    const BINARY: &'static str = env!("CARGO_PKG_NAME");
    const ABOUT: &'static str = "Writes the responses of archived crawls as WARC files.";
    const LISTEN: &'static str = "127.0.0.1:9466";
    const HAS_STORE: bool = true;

    fn configure(settings: &mut Settings, _: usize) -> Self {
        Self(settings.section())
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.0.directory)
    }

    async fn serve(self, shell: ServiceContext) -> Result<(), ServiceError> {
        let Self(config) = self;
        let metrics = ArchiverMetrics::register(shell.registry()).map_err(ServiceError::start)?;
        let worker = FileWorker::open(&config, metrics.clone()).map_err(ServiceError::start)?;
        let worker = worker.with_meter(shell.metrics().cpu(Self::NAME));
        shell.retain(Self::NAME, &[topic::PAGES]).await?;
        // Before the group is joined: later files belong to this process.
        let leftovers = Leftovers::find(&config.directory, worker.remote()).map_err(ServiceError::start)?;
        let writer = shell.store_writer()?;
        let running = Box::pin(shell.run(ArchiverStage::new(&config, metrics), worker, writer));
        shell.with_every_second(running, leftovers).await
    }
}
