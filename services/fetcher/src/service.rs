//! The service as a process of a cluster: settings and start.

use std::sync::Arc;

use orbweaver_process::{Service, ServiceContext, ServiceError, configuration::Settings};
use orbweaver_settings::Rate;
use orbweaver_stage::SystemClock;
use orbweaver_url::WideDomains;

use crate::{ClientError, FetchWorker, FetcherConfig, FetcherMetrics, FetcherStage, HttpClient, archive_lag::LagWatch};

/// The fetcher as a process.
#[derive(Debug)]
pub struct FetcherService(FetcherConfig);

impl Service for FetcherService {
    const NAME: &'static str = "fetcher";
    const BINARY: &'static str = env!("CARGO_PKG_NAME");
    const ABOUT: &'static str = "Fetches pages, subject to politeness delays and robots.txt.";
    const LISTEN: &'static str = "127.0.0.1:9464";
    const HAS_STORE: bool = true;

    fn configure(settings: &mut Settings, record_limit: usize) -> Self {
        let wide_domains: WideDomains = settings.one("normalizer_dedup", "wide_domains");
        let Rate { interval_ms } = settings.one("rate_limiter", "rate");
        Self(FetcherConfig { record_limit, default_interval_ms: interval_ms, wide_domains, ..settings.section() })
    }

    fn longest_request(&self) -> Option<(&'static str, std::time::Duration)> {
        Some(("fetcher.request_timeout", self.0.request_timeout))
    }

    fn wide_domains(&self) -> Option<WideDomains> {
        Some(self.0.wide_domains.clone())
    }

    async fn serve(self, shell: ServiceContext) -> Result<(), ServiceError> {
        let Self(config) = self;
        let metrics = FetcherMetrics::register(shell.registry()).map_err(ServiceError::start)?;
        let clock = Arc::new(SystemClock);
        let client = HttpClient::new(&config, clock.clone()).map_err(|error| match error {
            ClientError::Authorities(error) => ServiceError::Configuration(format!("`fetcher.tls_ca`: {error}")),
            error => ServiceError::start(error),
        })?;
        let lag_gauge = metrics.archive_lag.clone();
        let stage = FetcherStage::new(config, metrics, Arc::default());
        let lag = LagWatch::new(Arc::clone(&stage.archive_lag), lag_gauge);
        let worker = FetchWorker::new(Arc::new(client), shell.store()?, clock, stage.memory());
        let worker = worker.with_meter(shell.metrics().cpu("fetcher"));
        let running = Box::pin(shell.run(stage, worker, shell.store_writer()?));
        shell.with_every_second(running, lag).await
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_process::{configuration::Inputs, configure};

    use super::*;

    #[test]
    fn what_was_given_arrives_and_what_depends_on_each_other_is_checked() {
        let configured = |given: &[(&str, &str)]| {
            let flags = given.iter().map(|(path, value)| ("--set", (*path).to_owned(), (*value).to_owned())).collect();
            let (FetcherService(config), _, faults) = configure(&Inputs { flags, ..Inputs::default() });
            (config, faults.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let (config, faults) = configured(&[
            ("fetcher.contact", "mailto:a@example.org"),
            ("fetcher.headers.x-team", "crawl"),
            ("rate_limiter.rate", "2/s"),
            ("normalizer_dedup.wide_domains", "example.edu"),
            ("kafka.record_limit", "1MiB"),
            ("fetcher.allow_private", "true"),
        ]);
        assert_eq!(faults.len(), 2, "brokers and nodes are missing: {faults:?}");
        assert_eq!(config.contact.as_deref(), Some("mailto:a@example.org"));
        assert_eq!((config.default_interval_ms, config.allow_private, config.record_limit), (500, true, 1 << 20));
        assert_eq!(config.headers, [("x-team".to_owned(), "crawl".to_owned())]);
        assert_eq!(config.wide_domains.iter().collect::<Vec<_>>(), ["example.edu"]);

        let (_, faults) = configured(&[("fetcher.request_timeout", "5s")]);
        assert!(faults[2].starts_with("fetcher.connect_timeout = \"10s\" (the default): allowed:"), "{faults:?}");
    }
}
