//! The service as a process of a cluster: settings and start.

use std::sync::Arc;

use orbweaver_process::{
    Service, ServiceContext, ServiceError, ServiceId,
    configuration::{SettingError, Settings},
};
use orbweaver_stage::SystemClock;

use crate::{FetchWorker, FetcherConfig, FetcherMetrics, FetcherStage, HttpClient};

/// The fetcher as a process.
#[derive(Debug)]
pub struct FetcherService(FetcherConfig);

impl Service for FetcherService {
    const ID: ServiceId = ServiceId::Fetcher;

    fn configure(settings: &Settings) -> Result<Self, Vec<SettingError>> {
        let config = config(settings).map_err(|fault| vec![fault])?;
        config
            .validate()
            .map_err(|error| vec![SettingError::allowed(format!("fetcher.{}", error.key), error.allowed)])?;
        Ok(Self(config))
    }

    fn longest_request(&self) -> Option<(&'static str, std::time::Duration)> {
        Some(("fetcher.request_timeout", self.0.request_timeout))
    }

    async fn serve(self, shell: ServiceContext) -> Result<(), ServiceError> {
        let Self(config) = self;
        let metrics = FetcherMetrics::register(shell.registry()).map_err(ServiceError::start)?;
        let clock = Arc::new(SystemClock);
        let client = HttpClient::new(&config, clock.clone()).map_err(ServiceError::start)?;
        let stage = FetcherStage::new(config, metrics, Arc::default());
        let worker = FetchWorker::new(Arc::new(client), shell.store()?, clock, stage.memory());
        let worker = worker.with_meter(shell.metrics().cpu("fetcher"));
        shell.run(stage, worker, shell.store_writer()?).await
    }
}

fn config(settings: &Settings) -> Result<FetcherConfig, SettingError> {
    let contact = settings.optional_text("fetcher.contact")?;
    let contact = contact.map(|contact| format!(" (+{contact})")).unwrap_or_default();
    Ok(FetcherConfig {
        user_agent: format!("{}{contact}", settings.text("fetcher.user_agent")?),
        headers: settings.texts_below("fetcher.headers").collect(),
        concurrency: settings.count("fetcher.concurrency")?,
        connect_timeout: settings.time("fetcher.connect_timeout")?,
        headers_timeout: settings.time("fetcher.headers_timeout")?,
        request_timeout: settings.time("fetcher.request_timeout")?,
        max_body_bytes: settings.size("fetcher.max_body_bytes")?,
        record_limit: settings.size("kafka.record_limit")?,
        body_memory: settings.size("fetcher.body_memory")?,
        max_headers: settings.count("fetcher.max_headers")?,
        max_header_bytes: settings.size("fetcher.max_header_bytes")?,
        ignore_robots: settings.switch("fetcher.ignore_robots")?,
        allow_private: settings.switch("fetcher.allow_private")?,
        robots_lifetime: settings.time("fetcher.robots_lifetime")?,
        robots_error_lifetime: settings.time("fetcher.robots_error_lifetime")?,
        robots_cache_bytes: settings.size("fetcher.robots_cache_bytes")?,
        default_interval_ms: settings.rate("rate_limiter.rate")?.interval_ms,
        wide_domains: settings.wide_domains()?,
    })
}

#[cfg(test)]
mod tests {
    use orbweaver_process::configuration::{Given, Origin, Raw};

    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let (settings, _) = Settings::resolve(ServiceId::Fetcher, &[]);
        let library = FetcherConfig {
            user_agent: concat!("Orbweaver/", env!("CARGO_PKG_VERSION")).to_owned(),
            ..FetcherConfig::default()
        };
        assert_eq!(FetcherService::configure(&settings).unwrap().0, library);
    }

    #[test]
    fn what_was_given_arrives_and_what_depends_on_each_other_is_checked() {
        let given = |path: &str, value: &str| Given {
            path: path.to_owned(),
            raw: Raw::Scalar(value.to_owned()),
            origin: Origin::Flag("--set"),
        };
        let all = [
            given("fetcher.contact", "mailto:a@example.org"),
            given("fetcher.headers.x-team", "crawl"),
            given("rate_limiter.rate", "2/s"),
            given("fetcher.allow_private", "true"),
        ];
        let (settings, faults) = Settings::resolve(ServiceId::Fetcher, &all);
        assert_eq!(faults.len(), 2, "brokers and nodes are missing: {faults:?}");
        let config = FetcherService::configure(&settings).unwrap().0;
        assert!(config.user_agent.ends_with(" (+mailto:a@example.org)"));
        assert_eq!((config.default_interval_ms, config.allow_private), (500, true));
        assert_eq!(config.headers, [("x-team".to_owned(), "crawl".to_owned())]);

        let (settings, _) = Settings::resolve(ServiceId::Fetcher, &[given("fetcher.request_timeout", "5s")]);
        let faults = FetcherService::configure(&settings).unwrap_err();
        assert!(faults[0].to_string().starts_with("fetcher.connect_timeout: allowed:"), "{faults:?}");
    }
}
