//! Configuration of the frontier.

use std::time::Duration;

use orbweaver_settings::{Conflict, Count, DAY, HOUR, MIB, Rate, SECOND, Section, Size, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the frontier: the section `frontier` of the configuration, and the interval that it shares with others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FrontierConfig {
    /// Maximum number of attempts per URL that fails transiently.
    ///
    /// Transient are failures of DNS and connections, timeouts, and 5xx.
    #[serde(with = "Count::<1, 100>")]
    pub max_attempts: u8,
    /// Minimum limit of dispatches without an outcome, per partition.
    #[serde(with = "Count::<1, 1_000_000>")]
    pub min_outstanding: usize,
    /// Maximum limit of dispatches without an outcome, per partition, at any rate of outcomes.
    #[serde(with = "Count::<1, 1_000_000>")]
    pub max_outstanding: usize,
    /// The oldest queued URLs are appended again when they are further below the log end than this number of records and
    /// than four times the number of queued URLs.
    ///
    /// See docs/protocol.md#re-append.
    #[serde(with = "Count::<1, { 1 << 40 }>")]
    pub reappend_above: u64,
    /// Interval at which records that all services have consumed are deleted from the log, in the assigned partitions.
    #[serde(with = "Time::<100, HOUR>")]
    pub delete_interval: Duration,
    /// Minimum time between requests to a site, in milliseconds; 0: unlimited. Must be the rate-limiter's default
    /// interval, since it determines the number of outstanding dispatches per site.
    #[serde(skip)]
    pub default_interval_ms: u64,
}

impl Section for FrontierConfig {
    const NAME: &'static str = "frontier";

    fn conflicts(&self) -> Vec<Conflict> {
        let most = self.max_outstanding;
        let allowed = format!("at most {most}, the value of `frontier.max_outstanding`");
        let conflict = (self.min_outstanding > most).then(|| Conflict::allowed("min_outstanding", allowed));
        conflict.into_iter().collect()
    }
}

impl Default for FrontierConfig {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            min_outstanding: 512,
            max_outstanding: 8192,
            reappend_above: 65_536,
            delete_interval: Duration::from_secs(10),
            default_interval_ms: Rate::default().interval_ms,
        }
    }
}

/// Retention of documents: the section `documents` of the configuration.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Documents {
    /// Retention time of documents while no consumer group is declared (`orbweaver consumers`). Not set: unlimited.
    #[serde(with = "Time::<SECOND, { 3650 * DAY }>")]
    pub retention: Option<Duration>,
    /// Approximate retention size of documents while no consumer group is declared, over all partitions, before
    /// compression by the brokers. Not set: unlimited.
    #[serde(with = "Size::<MIB, { 1 << 60 }>")]
    pub retention_bytes: Option<u64>,
}

impl Section for Documents {
    const NAME: &'static str = "documents";
}
