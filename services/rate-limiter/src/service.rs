//! The service in a cluster: its configuration and its runtime.

use orbweaver_process::{Service, ServiceContext, ServiceError, configuration::Settings};
use orbweaver_stage::{NoEffects, NoJobs};

use crate::{RateLimiterConfig, RateLimiterMetrics, RateLimiterStage};

/// The rate-limiter as a process.
#[derive(Debug)]
pub struct RateLimiterService(RateLimiterConfig);

impl Service for RateLimiterService {
    const NAME: &'static str = "rate-limiter";
    const BINARY: &'static str = env!("CARGO_PKG_NAME");
    const ABOUT: &'static str = "Assigns a scheduled time to each dispatch.";
    const LISTEN: &'static str = "127.0.0.1:9463";
    /// A record only waits until it is appended.
    const RECORDS: Option<&'static str> = Some("40000");

    fn configure(settings: &mut Settings, _: usize) -> Self {
        Self(settings.section())
    }

    async fn serve(self, shell: ServiceContext) -> Result<(), ServiceError> {
        let metrics = RateLimiterMetrics::register(shell.registry()).map_err(ServiceError::start)?;
        let stage = RateLimiterStage::new(self.0, metrics);
        shell.run(stage, NoJobs, NoEffects).await
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_process::{configuration::Inputs, configure};

    use super::*;

    #[test]
    fn a_rate_above_ten_a_second_must_be_allowed() {
        let configured = |given: &[(&str, &str)]| {
            let environment = given.iter().map(|(name, value)| (name.into(), value.into())).collect();
            let (RateLimiterService(config), _, faults) = configure(&Inputs { environment, ..Inputs::default() });
            (config, faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        };
        let fast = ("ORBWEAVER_RATE_LIMITER__RATE", "20/s");
        let (_, said) = configured(&[fast]);
        let wanted = "rate_limiter.rate = \"20/s\" (from ORBWEAVER_RATE_LIMITER__RATE): allowed: at most 10/s";
        assert!(said.contains(wanted), "{said}");
        let allowed = ("ORBWEAVER_RATE_LIMITER__ALLOW_ABOVE_TEN_PER_SECOND", "true");
        let (config, said) = configured(&[fast, allowed, ("ORBWEAVER_RATE_LIMITER__OVERRIDES__EXAMPLE__COM", "30/m")]);
        assert!(!said.contains("rate_limiter"), "{said}");
        assert_eq!((config.rate.interval_ms, config.terms("example.com").base_ms(0)), (50, 2000));
    }
}
