//! What can be set.

/// Settings of the frontier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontierConfig {
    /// Least time between requests to a site, in milliseconds; 0: unlimited. Must be the rate-limiter's default interval,
    /// since the number of dispatches outstanding per site follows from it.
    pub default_interval_ms: u64,
    /// Attempts that a URL gets when it fails in passing (DNS, connection, timeout, 5xx).
    pub max_attempts: u8,
    /// Dispatches outstanding in a partition: at least.
    pub min_outstanding: usize,
    /// Dispatches outstanding in a partition: at most, however many outcomes come a second.
    pub max_outstanding: usize,
    /// The span from the lowest waiting record to the end is tolerated up to this many records (rule 8).
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
