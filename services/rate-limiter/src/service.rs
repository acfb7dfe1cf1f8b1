//! The service in a cluster: its configuration and its runtime.

use orbweaver_process::{
    Service, ServiceContext, ServiceError, ServiceId,
    configuration::{SettingError, Settings, Value},
};
use orbweaver_stage::{NoEffects, NoJobs};

use crate::{ConfigError, RateLimiterConfig, RateLimiterMetrics, RateLimiterStage};

/// The rate-limiter as a process.
#[derive(Debug)]
pub struct RateLimiterService(RateLimiterConfig);

impl Service for RateLimiterService {
    const ID: ServiceId = ServiceId::RateLimiter;

    fn configure(settings: &Settings) -> Result<Self, Vec<SettingError>> {
        let config = config(settings).map_err(|fault| vec![fault])?;
        config.validate().map_err(|error| vec![fault(&error)])?;
        Ok(Self(config))
    }

    async fn serve(self, shell: ServiceContext) -> Result<(), ServiceError> {
        let metrics = RateLimiterMetrics::register(shell.registry()).map_err(ServiceError::start)?;
        let stage = RateLimiterStage::new(self.0, metrics).map_err(ServiceError::start)?;
        shell.run(stage, NoJobs, NoEffects).await
    }
}

fn config(settings: &Settings) -> Result<RateLimiterConfig, SettingError> {
    let overrides = settings.below("rate_limiter.overrides").filter_map(|(site, value)| match value {
        Value::Rate(rate) => Some((site.to_owned(), rate.interval_ms)),
        _ => None,
    });
    Ok(RateLimiterConfig {
        default_interval_ms: settings.rate("rate_limiter.rate")?.interval_ms,
        max_delay_ms: settings.time_ms("rate_limiter.max_delay")?,
        overrides: overrides.collect(),
        allow_above_ten_per_second: settings.switch("rate_limiter.allow_above_ten_per_second")?,
    })
}

fn fault(error: &ConfigError) -> SettingError {
    match error {
        ConfigError::Interval { key, .. } => {
            let key = if key == "default_interval_ms" { "rate" } else { key };
            let allowed = "at most 10/s (unless `rate_limiter.allow_above_ten_per_second` is true), or `unlimited`";
            SettingError::allowed(format!("rate_limiter.{key}"), allowed)
        }
        error => SettingError::new("rate_limiter.max_delay", error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_process::configuration::{Given, Origin, Raw};

    use super::*;

    fn configured(given: &[(&str, &str)]) -> Result<RateLimiterConfig, Vec<SettingError>> {
        let given: Vec<Given> = given
            .iter()
            .map(|(path, value)| Given {
                path: (*path).to_owned(),
                raw: Raw::Scalar((*value).to_owned()),
                origin: Origin::Variable("ORBWEAVER_RATE_LIMITER__RATE".to_owned()),
            })
            .collect();
        let (settings, _) = Settings::resolve(ServiceId::RateLimiter, &given);
        let complete = |faults: Vec<SettingError>| faults.into_iter().map(|fault| settings.complete(fault)).collect();
        RateLimiterService::configure(&settings).map(|service| service.0).map_err(complete)
    }

    #[test]
    fn the_defaults_are_those_of_the_library() {
        assert_eq!(configured(&[]).unwrap(), RateLimiterConfig::default());
    }

    #[test]
    fn a_rate_above_ten_a_second_must_be_allowed() {
        let fast = ("rate_limiter.rate", "20/s");
        let said = configured(&[fast]).unwrap_err()[0].to_string();
        assert!(
            said.starts_with("rate_limiter.rate = \"20/s\" (from ORBWEAVER_RATE_LIMITER__RATE): allowed:"),
            "{said}"
        );
        let allowed = ("rate_limiter.allow_above_ten_per_second", "true");
        assert_eq!(configured(&[fast, allowed]).unwrap().default_interval_ms, 50);
        assert_eq!(configured(&[("rate_limiter.rate", "unlimited")]).unwrap().default_interval_ms, 0);
        let of_site = configured(&[("rate_limiter.overrides.example.com", "30/m")]).unwrap();
        assert_eq!(of_site.overrides["example.com"], 2000);
    }
}
