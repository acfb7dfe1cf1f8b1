//! Configuration of the fetcher.

use std::time::Duration;

use orbweaver_messages::{MAX_FETCH_MS, Millis};
use orbweaver_politeness::robots::agent_token;
use orbweaver_url::WideDomains;

/// An invalid setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("fetcher.{key} = {value}: allowed: {allowed}")]
pub struct ConfigError {
    pub key: &'static str,
    pub value: String,
    pub allowed: String,
}

/// Settings of the fetcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetcherConfig {
    /// User agent of each request; its first word is the agent looked up in robots.txt files.
    pub user_agent: String,
    /// Additional headers of each request. Headers set by the client itself are not allowed.
    pub headers: Vec<(String, String)>,
    /// Maximum number of requests whose outcome is not yet durable. After a crash, up to this many pages are requested
    /// again.
    pub concurrency: usize,
    /// Timeout for name resolution, connection and TLS.
    pub connect_timeout: Duration,
    /// Timeout from the start of a request to the end of the response's headers.
    pub headers_timeout: Duration,
    /// Timeout of a whole request, at most half of `MAX_FETCH_MS`: together with the maximum lifetime of a dispatch, it
    /// bounds a lease. Together with half of the group's session it stays within that session: a process that lost a
    /// partition has no request in flight when another receives it. A redirect of a dispatch to itself is a separate
    /// request under the same conditions.
    pub request_timeout: Duration,
    /// Maximum number of decoded bytes read of a body; the rest is cut off.
    pub max_body_bytes: usize,
    /// Record limit of the log, in bytes; the body of a page whose record would exceed it is cut.
    pub record_limit: usize,
    /// Bytes of bodies in memory, from their first byte until they are durable; one body may exceed it.
    pub body_memory: usize,
    /// Maximum number of headers of a response; a response with more fails.
    pub max_headers: usize,
    /// Maximum size of a response's headers kept with the page, in bytes.
    pub max_header_bytes: usize,
    /// Whether to ignore robots.txt. Only for sites of your own.
    pub ignore_robots: bool,
    /// Whether to dial loopback, private and other special-purpose addresses. Only for tests and intranets.
    pub allow_private: bool,
    /// Lifetime of a robots.txt whose Cache-Control gives none. RFC 9309 section 2.4 allows at most a day unless the
    /// server says otherwise.
    pub robots_lifetime: Duration,
    /// Time for which the absence of a robots.txt or of its host, or a private address, is cached.
    pub robots_error_lifetime: Duration,
    /// Maximum size of the robots.txt files kept in memory, in bytes.
    pub robots_cache_bytes: usize,
    /// Interval of a site to which a robots.txt or a page redirects and which is unknown from dispatches.
    pub default_interval_ms: u64,
    /// Domains whose hosts are separate sites; the same for all services of a pipeline.
    pub wide_domains: WideDomains,
}

impl Default for FetcherConfig {
    fn default() -> Self {
        Self {
            user_agent: concat!("orbweaver/", env!("CARGO_PKG_VERSION")).to_owned(),
            headers: vec![],
            concurrency: 128,
            connect_timeout: Duration::from_secs(10),
            headers_timeout: Duration::from_secs(20),
            request_timeout: Duration::from_secs(20),
            max_body_bytes: 8 << 20,
            record_limit: 16 << 20,
            body_memory: 128 << 20,
            max_headers: 256,
            max_header_bytes: 16 << 10,
            ignore_robots: false,
            allow_private: false,
            robots_lifetime: Duration::from_hours(24),
            robots_error_lifetime: Duration::from_hours(1),
            robots_cache_bytes: 64 << 20,
            default_interval_ms: 1000,
            wide_domains: WideDomains::default(),
        }
    }
}

/// Maximum of [`FetcherConfig::concurrency`].
pub const MAX_CONCURRENCY: usize = 1024;
/// Maximum of [`FetcherConfig::max_body_bytes`].
pub const MAX_BODY_BYTES: usize = 256 << 20;
/// Maximum of [`FetcherConfig::max_header_bytes`]: a page's record must fit the smallest record limit.
pub const MAX_HEADER_BYTES: usize = 32 << 10;
/// Range of [`FetcherConfig::body_memory`], in bytes.
pub(crate) const BODY_MEMORY: std::ops::RangeInclusive<usize> = 1 << 20..=64 << 30;
/// Headers set by the client, or that would change the meaning of a response.
const RESERVED: [&str; 10] = [
    "accept-encoding",
    "connection",
    "content-length",
    "cookie",
    "host",
    "if-modified-since",
    "if-none-match",
    "range",
    "transfer-encoding",
    "user-agent",
];

impl FetcherConfig {
    /// Checks every setting.
    ///
    /// # Errors
    /// Returns the first invalid setting, its value and the allowed values.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let fail = |key, value: String, allowed: &str| Err(ConfigError { key, value, allowed: allowed.to_owned() });
        let has_token = !agent_token(&self.user_agent).is_empty();
        if !has_token || reqwest::header::HeaderValue::from_str(&self.user_agent).is_err() {
            return fail(
                "user_agent",
                format!("{:?}", self.user_agent),
                "visible ASCII characters that begin with a product token of letters, digits, `_` and `-`",
            );
        }
        if !(1..=MAX_CONCURRENCY).contains(&self.concurrency) {
            return fail("concurrency", self.concurrency.to_string(), &format!("1 to {MAX_CONCURRENCY}"));
        }
        if !(1..=MAX_BODY_BYTES).contains(&self.max_body_bytes) {
            return fail("max_body_bytes", self.max_body_bytes.to_string(), &format!("1 to {MAX_BODY_BYTES}"));
        }
        if !BODY_MEMORY.contains(&self.body_memory) {
            let allowed = format!("{} (1 MiB) to {} (64 GiB)", BODY_MEMORY.start(), BODY_MEMORY.end());
            return fail("body_memory", self.body_memory.to_string(), &allowed);
        }
        if !(1..=4096).contains(&self.max_headers) {
            return fail("max_headers", self.max_headers.to_string(), "1 to 4096");
        }
        if self.max_header_bytes > MAX_HEADER_BYTES {
            let allowed = format!("0 to {MAX_HEADER_BYTES}");
            return fail("max_header_bytes", self.max_header_bytes.to_string(), &allowed);
        }
        self.validate_times()?;
        for (name, value) in &self.headers {
            let known = reqwest::header::HeaderName::from_bytes(name.as_bytes()).is_ok();
            if !known || RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
                return fail(
                    "headers",
                    format!("{name:?}"),
                    &format!("a valid header name other than {}; {name:?} is not", RESERVED.join(", ")),
                );
            }
            if reqwest::header::HeaderValue::from_str(value).is_err() {
                let allowed = format!("visible ASCII characters as the value of {name:?}");
                return fail("headers", format!("{name}: {value:?}"), &allowed);
            }
        }
        Ok(())
    }

    fn validate_times(&self) -> Result<(), ConfigError> {
        let longest = Duration::from_millis(MAX_FETCH_MS.unsigned_abs());
        let times = [
            ("connect_timeout", self.connect_timeout, self.request_timeout),
            ("headers_timeout", self.headers_timeout, self.request_timeout),
            ("request_timeout", self.request_timeout, longest / 2),
            ("robots_lifetime", self.robots_lifetime, Duration::from_hours(7 * 24)),
            ("robots_error_lifetime", self.robots_error_lifetime, Duration::from_hours(24)),
        ];
        for (key, value, most) in times {
            if value.is_zero() || value > most {
                let allowed = format!("more than 0 and at most {most:?}");
                return Err(ConfigError { key, value: format!("{value:?}"), allowed });
            }
        }
        Ok(())
    }

    /// Returns the timeout of a request, in milliseconds.
    #[must_use]
    pub fn request_timeout_ms(&self) -> Millis {
        Millis::try_from(self.request_timeout.as_millis()).unwrap_or(MAX_FETCH_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_usable() {
        assert_eq!(FetcherConfig::default().validate(), Ok(()));
    }

    #[test]
    fn an_unusable_setting_is_named_with_its_value_and_what_is_allowed() {
        let default = FetcherConfig::default();
        let header = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let cases = [
            (FetcherConfig { user_agent: " ".into(), ..default.clone() }, "user_agent"),
            (FetcherConfig { user_agent: "/1.0".into(), ..default.clone() }, "user_agent"),
            (FetcherConfig { user_agent: "a\nb".into(), ..default.clone() }, "user_agent"),
            (FetcherConfig { concurrency: 0, ..default.clone() }, "concurrency"),
            (FetcherConfig { concurrency: 1025, ..default.clone() }, "concurrency"),
            (FetcherConfig { max_body_bytes: 0, ..default.clone() }, "max_body_bytes"),
            (FetcherConfig { body_memory: 1, ..default.clone() }, "body_memory"),
            (FetcherConfig { max_headers: 0, ..default.clone() }, "max_headers"),
            (FetcherConfig { max_header_bytes: 40_000, ..default.clone() }, "max_header_bytes"),
            (FetcherConfig { headers_timeout: Duration::ZERO, ..default.clone() }, "headers_timeout"),
            (FetcherConfig { robots_lifetime: Duration::from_hours(7 * 24 + 1), ..default.clone() }, "robots_lifetime"),
            (FetcherConfig { request_timeout: Duration::from_secs(31), ..default.clone() }, "request_timeout"),
            (FetcherConfig { headers: header("Host", "x"), ..default.clone() }, "headers"),
            (FetcherConfig { headers: header("a b", "x"), ..default.clone() }, "headers"),
            (FetcherConfig { headers: header("x", "a\r\nb: c"), ..default }, "headers"),
        ];
        for (config, key) in cases {
            let error = config.validate().unwrap_err();
            assert_eq!(error.key, key);
            assert!(!error.allowed.is_empty());
        }
    }
}
