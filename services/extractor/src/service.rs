//! The service as a process of a cluster: settings and start.

use orbweaver_politeness::robots::agent_token;
use orbweaver_process::{
    Service, ServiceContext, ServiceError, ServiceId,
    configuration::{SettingError, Settings},
};
use tokio::runtime::Handle;

use crate::{BlockingWorker, ExtractOptions, ExtractorConfig, ExtractorMetrics, ExtractorStage};

/// The extractor as a process.
#[derive(Debug)]
pub struct ExtractorService(ExtractorConfig);

impl Service for ExtractorService {
    const ID: ServiceId = ServiceId::Extractor;

    fn configure(settings: &Settings) -> Result<Self, Vec<SettingError>> {
        let config = config(settings).map_err(|fault| vec![fault])?;
        config.validate().map_err(|error| {
            let key =
                if error.key == "agent" { "fetcher.user_agent".to_owned() } else { format!("extractor.{}", error.key) };
            vec![SettingError::allowed(key, error.allowed)]
        })?;
        Ok(Self(config))
    }

    async fn serve(self, shell: ServiceContext) -> Result<(), ServiceError> {
        let Self(config) = self;
        let metrics = ExtractorMetrics::register(shell.registry()).map_err(ServiceError::start)?;
        let worker = BlockingWorker::new(config.clone(), metrics.clone(), Handle::current())
            .with_meter(shell.metrics().cpu("extractor"));
        shell.run(ExtractorStage::new(config, metrics), worker, shell.store_writer()?).await
    }
}

fn config(settings: &Settings) -> Result<ExtractorConfig, SettingError> {
    let options = ExtractOptions {
        agent: agent_token(&settings.text("fetcher.user_agent")?),
        follow_nofollow: settings.switch("extractor.follow_nofollow")?,
        html: settings.switch("extractor.html")?,
        max_body_bytes: settings.size("extractor.max_body_bytes")?,
        max_text_bytes: settings.size("extractor.max_text_bytes")?,
        max_links: settings.count("extractor.max_links")?,
        max_links_bytes: settings.size("extractor.max_links_bytes")?,
        max_link_text_bytes: settings.size("extractor.max_link_text_bytes")?,
        wide_domains: settings.wide_domains()?,
        ..ExtractOptions::default()
    };
    Ok(ExtractorConfig {
        threads: settings.count("extractor.threads")?,
        batch_pages: settings.count("extractor.batch_pages")?,
        batch_bytes: settings.size("extractor.batch_bytes")?,
        memory: settings.size("extractor.memory")?,
        max_discovered_urls: settings.count("extractor.max_discovered_urls")?,
        max_discovered_bytes: settings.size("extractor.max_discovered_bytes")?,
        record_limit: settings.size("kafka.record_limit")?,
        options,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let (settings, _) = Settings::resolve(ServiceId::Extractor, &[]);
        assert_eq!(ExtractorService::configure(&settings).unwrap().0, ExtractorConfig::default());
    }
}
