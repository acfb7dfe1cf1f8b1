//! Configuration of the frontier.

/// Settings of the frontier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontierConfig {
    /// Minimum time between requests to a site, in milliseconds; 0: unlimited. Must be the rate-limiter's default
    /// interval, since it determines the number of outstanding dispatches per site.
    pub default_interval_ms: u64,
    /// Maximum number of attempts for a URL with transient failures (DNS, connection, timeout, 5xx).
    pub max_attempts: u8,
    /// Lower bound of the limit of outstanding dispatches per partition.
    pub min_outstanding: usize,
    /// Upper bound of that limit, regardless of the outcomes per second.
    pub max_outstanding: usize,
    /// Tolerated span from the lowest queued record to the log end, in records (docs/protocol.md#re-append).
    pub reappend_above: u64,
}

impl Default for FrontierConfig {
    fn default() -> Self {
        Self {
            default_interval_ms: 1000,
            max_attempts: 3,
            min_outstanding: 512,
            max_outstanding: 8192,
            reappend_above: 65_536,
        }
    }
}
