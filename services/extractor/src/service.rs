//! The service as a process of a cluster: settings and start.

use orbweaver_politeness::{UserAgent, agent_token};
use orbweaver_process::{Service, ServiceContext, ServiceError, configuration::Settings};
use orbweaver_url::WideDomains;

use crate::{BlockingWorker, ExtractorConfig, ExtractorMetrics, ExtractorStage};

/// The extractor as a process.
#[derive(Debug)]
pub struct ExtractorService(ExtractorConfig);

impl Service for ExtractorService {
    const NAME: &'static str = "extractor";
    const BINARY: &'static str = env!("CARGO_PKG_NAME");
    const ABOUT: &'static str = "Extracts links, text and metadata from pages.";
    const LISTEN: &'static str = "127.0.0.1:9465";
    const HAS_STORE: bool = true;

    fn configure(settings: &mut Settings, record_limit: usize) -> Self {
        let wide_domains = settings.one("normalizer_dedup", "wide_domains");
        let user_agent: UserAgent = settings.one("fetcher", "user_agent");
        let agent = agent_token(&user_agent);
        let config = ExtractorConfig { agent, record_limit, wide_domains, ..settings.section() };
        settings.check("fetcher", config.check_agent().err());
        Self(config)
    }

    fn wide_domains(&self) -> Option<WideDomains> {
        Some(self.0.wide_domains.clone())
    }

    async fn serve(self, shell: ServiceContext) -> Result<(), ServiceError> {
        let Self(config) = self;
        let metrics = ExtractorMetrics::register(shell.registry()).map_err(ServiceError::start)?;
        let worker = BlockingWorker::new(config.clone(), metrics.clone()).with_meter(shell.metrics().cpu("extractor"));
        shell.run(ExtractorStage::new(config, metrics), worker, shell.store_writer()?).await
    }
}
