//! Settings of the rate-limiter.

use std::collections::BTreeMap;

use orbweaver_messages::CrawlDefinition;
use orbweaver_settings::{Conflict, Rate, Section, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::site::Terms;

/// Shortest interval unless faster rates are allowed explicitly, in milliseconds: ten requests per second.
pub(crate) const FASTEST_MS: u64 = 100;
/// Upper limit of the planning horizon, in milliseconds: well below the age at which a dispatch is deferred without a
/// request ([`orbweaver_messages::SEND_WINDOW_MS`]).
pub(crate) const MAX_HORIZON_MS: u64 = 10_000;

/// Settings of the rate-limiter: the section `rate_limiter` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RateLimiterConfig {
    pub rate: Rate,
    /// Allow limited rates above 10/s. Only for your own sites.
    pub allow_above_ten_per_second: bool,
    /// Rate of one site instead of `rate`, such as `overrides."example.com" = "2/s"`.
    ///
    /// A crawl-delay and refusals still slow these sites down.
    pub overrides: BTreeMap<String, Rate>,
    /// Minimum planning horizon: dispatches are scheduled at most this far ahead, or two intervals (at most 10 s) if that
    /// is longer.
    ///
    /// In milliseconds; see [`Self::horizon_ms`]. Change it only while no instance runs: a new owner assumes that the
    /// previous one used the same value.
    #[serde(rename = "max_delay", with = "Time::<1, MAX_HORIZON_MS>")]
    pub max_delay_ms: u64,
}

impl Section for RateLimiterConfig {
    const NAME: &'static str = "rate_limiter";

    fn conflicts(&self) -> Vec<Conflict> {
        let overrides = self.overrides.iter().map(|(site, rate)| (format!("overrides.{site}"), rate));
        let rates = overrides.chain([("rate".to_owned(), &self.rate)]);
        let too_fast =
            rates.filter(|(_, rate)| !self.allow_above_ten_per_second && (1..FASTEST_MS).contains(&rate.interval_ms));
        let allowed = "at most 10/s (unless `rate_limiter.allow_above_ten_per_second` is true), or `unlimited`";
        too_fast.map(|(key, _)| Conflict::allowed(key, allowed)).collect()
    }
}

impl Default for RateLimiterConfig {
    fn default() -> Self {
        Self {
            rate: Rate::default(),
            allow_above_ten_per_second: false,
            overrides: BTreeMap::new(),
            max_delay_ms: 1000,
        }
    }
}

impl RateLimiterConfig {
    /// Returns the settings that apply to a site.
    pub(crate) fn terms(&self, site: &str) -> Terms {
        let site_ms = self.overrides.get(site).map(|rate| rate.interval_ms);
        let rate_ms = self.rate.interval_ms;
        Terms {
            site_ms,
            rate_ms,
            own_ms: 0,
            horizon_ms: self.horizon_ms(site_ms.unwrap_or(rate_ms)),
            share: CrawlDefinition::EQUAL_SHARE,
        }
    }

    /// Returns how far ahead dispatches of a site with this base interval may be scheduled, in milliseconds:
    /// `max_delay_ms`, or two intervals (at most ten seconds) if that is longer. With less than two intervals the next
    /// request of a site could never be scheduled while one is in flight. The result depends only on settings, so that
    /// a new owner knows how far ahead the previous one may have scheduled (docs/protocol.md#delays-restart).
    #[must_use]
    pub fn horizon_ms(&self, base_interval_ms: u64) -> u64 {
        self.max_delay_ms.max(base_interval_ms.saturating_mul(2).min(MAX_HORIZON_MS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_ten_requests_a_second_must_be_allowed_explicitly() {
        let with = |interval_ms| RateLimiterConfig { rate: Rate { interval_ms }, ..RateLimiterConfig::default() };
        assert_eq!(with(50).check().unwrap_err().key, "rate");
        assert_eq!(RateLimiterConfig { allow_above_ten_per_second: true, ..with(50) }.check(), Ok(()));
        assert_eq!(with(0).check(), Ok(()), "unlimited");
        let overrides = BTreeMap::from([("example.com".to_owned(), Rate { interval_ms: 99 })]);
        let config = RateLimiterConfig { overrides, ..RateLimiterConfig::default() };
        assert_eq!(config.check().unwrap_err().key, "overrides.example.com");
    }

    #[test]
    fn the_horizon_covers_two_intervals_up_to_its_limit() {
        let config = RateLimiterConfig::default();
        assert_eq!([0, 100, 1000, 3000, 86_400_000].map(|ms| config.horizon_ms(ms)), [1000, 1000, 2000, 6000, 10_000]);
    }
}
