//! Settings of the rate-limiter.

use std::collections::BTreeMap;

/// Shortest interval unless faster rates are allowed explicitly, in milliseconds: ten requests per second.
const FASTEST_MS: u64 = 100;
/// Longest interval that can be configured, in milliseconds: a day.
const SLOWEST_MS: u64 = 24 * 3_600_000;
/// Upper limit of the planning horizon, in milliseconds: well below the age at which a dispatch is deferred without a
/// request ([`orbweaver_messages::SEND_WINDOW_MS`]).
pub(crate) const MAX_HORIZON_MS: u64 = 10_000;

/// Settings of the rate-limiter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimiterConfig {
    /// Minimum time from a response of a site to its next request, in milliseconds; 0: unlimited. The frontier needs
    /// the same value, since it derives the number of outstanding dispatches per site from it.
    pub default_interval_ms: u64,
    /// Minimum planning horizon: how far ahead a dispatch may be scheduled, in milliseconds; see [`Self::horizon_ms`].
    /// A change takes effect only after a restart. Change it only while no instance runs: a new owner assumes that
    /// the previous one used the same value.
    pub max_delay_ms: u64,
    /// Intervals of individual sites in place of the default, in milliseconds; 0: unlimited. A crawl-delay and refusals
    /// still slow these sites down.
    pub overrides: BTreeMap<String, u64>,
    /// Allows intervals below 100 ms (more than ten requests per second).
    pub allow_above_ten_per_second: bool,
}

/// A setting is out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// An interval is out of range.
    #[error(
        "{key} is {value} ms; allowed: {FASTEST_MS} to {SLOWEST_MS} ms (at most ten requests per second, unless \
         `allow_above_ten_per_second` is set), or 0 for unlimited"
    )]
    Interval {
        /// Name of the setting.
        key: String,
        /// Configured value, in milliseconds.
        value: u64,
    },
    /// The planning horizon is out of range.
    #[error("max_delay_ms is {0} ms; allowed: 1 to {MAX_HORIZON_MS} ms")]
    MaxDelay(u64),
}

impl Default for RateLimiterConfig {
    fn default() -> Self {
        Self {
            default_interval_ms: 1000,
            max_delay_ms: 1000,
            overrides: BTreeMap::new(),
            allow_above_ten_per_second: false,
        }
    }
}

impl RateLimiterConfig {
    /// Checks all settings.
    ///
    /// # Errors
    /// Returns the setting, its value and the allowed range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let fastest = if self.allow_above_ten_per_second { 1 } else { FASTEST_MS };
        let overrides = self.overrides.iter().map(|(site, value)| (format!("overrides.{site}"), *value));
        for (key, value) in overrides.chain([("default_interval_ms".to_owned(), self.default_interval_ms)]) {
            if value != 0 && !(fastest..=SLOWEST_MS).contains(&value) {
                return Err(ConfigError::Interval { key, value });
            }
        }
        if !(1..=MAX_HORIZON_MS).contains(&self.max_delay_ms) {
            return Err(ConfigError::MaxDelay(self.max_delay_ms));
        }
        Ok(())
    }

    /// Returns the configured interval of a site, in milliseconds; 0: unlimited.
    #[must_use]
    pub fn base_interval_ms(&self, site: &str) -> u64 {
        self.overrides.get(site).copied().unwrap_or(self.default_interval_ms)
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
        let mut config = RateLimiterConfig { default_interval_ms: 50, ..RateLimiterConfig::default() };
        let error = config.validate().unwrap_err().to_string();
        assert!(error.starts_with("default_interval_ms is 50 ms; allowed: 100 to"), "{error}");
        config.allow_above_ten_per_second = true;
        assert_eq!(config.validate(), Ok(()));
        config = RateLimiterConfig { default_interval_ms: 0, ..RateLimiterConfig::default() };
        assert_eq!(config.validate(), Ok(()));
    }

    #[test]
    fn a_setting_out_of_range_is_named() {
        let overrides = BTreeMap::from([("example.com".to_owned(), u64::MAX)]);
        let config = RateLimiterConfig { overrides, ..RateLimiterConfig::default() };
        assert!(config.validate().unwrap_err().to_string().starts_with("overrides.example.com is "));
        let config = RateLimiterConfig { max_delay_ms: 60_000, ..RateLimiterConfig::default() };
        assert_eq!(config.validate(), Err(ConfigError::MaxDelay(60_000)));
    }

    #[test]
    fn the_horizon_covers_two_intervals_up_to_its_limit() {
        let config = RateLimiterConfig::default();
        assert_eq!([0, 100, 1000, 3000, 86_400_000].map(|ms| config.horizon_ms(ms)), [1000, 1000, 2000, 6000, 10_000]);
    }
}
