//! What can be set.

use std::time::Duration;

use orbweaver_messages::{LONGEST_FETCH_MS, Millis};
use orbweaver_url::WideDomains;

/// A setting is not usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("fetcher.{key} = {value}: {allowed}")]
pub struct ConfigError {
    /// The setting.
    pub key: &'static str,
    /// What was given.
    pub value: String,
    /// What is allowed.
    pub allowed: String,
}

/// Settings of the fetcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetcherConfig {
    /// Who is asking: sent with each request, and its first word is the agent that robots.txt files address.
    pub user_agent: String,
    /// Headers sent with each request besides. Those that the client itself makes are not allowed.
    pub headers: Vec<(String, String)>,
    /// Requests whose outcome is not yet durable, at most. After a crash so many pages are asked for twice.
    pub concurrency: usize,
    /// The time for name, connection and TLS.
    pub connect_timeout: Duration,
    /// The time from the start of a request to the end of the answer's headers.
    pub headers_timeout: Duration,
    /// The time for a whole request. With the longest stay of a dispatch it bounds a lease: below `LONGEST_FETCH_MS`. With
    /// half of the group's session it is within that session: whoever lost a partition has no request in flight when another
    /// is given it. A redirect of a dispatch to itself is a request of its own, begun under the same conditions.
    pub request_timeout: Duration,
    /// Decoded bytes that are read of a body; the rest is cut off.
    pub max_body_bytes: usize,
    /// The largest record that the log takes, in bytes; a page whose record would be larger has its body cut.
    pub record_limit: usize,
    /// Bytes of bodies in memory, from their first byte until they are durable; one body may exceed it.
    pub body_memory: usize,
    /// Headers of an answer, at most; an answer with more fails.
    pub max_headers: usize,
    /// Bytes of an answer's headers that are kept with the page.
    pub max_header_bytes: usize,
    /// Ask without regard to robots.txt. For sites of one's own only.
    pub ignore_robots: bool,
    /// Dial loopback, private and other special-purpose addresses, too. For tests and intranets only.
    pub allow_private: bool,
    /// How long a robots.txt is believed. RFC 9309 section 2.4 asks for a day at most unless the server says otherwise.
    pub robots_lifetime: Duration,
    /// How long "there is none" is believed, and "the site cannot be reached".
    pub robots_error_lifetime: Duration,
    /// Bytes of robots.txt files that are kept in memory, at most.
    pub robots_cache_bytes: usize,
    /// The interval of a site to which a robots.txt redirects and of which no dispatch told.
    pub default_interval_ms: u64,
    /// Domains whose hosts are sites of their own; the same for all services of a pipeline.
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

/// The most requests without a durable outcome that may be asked for.
pub const MAX_CONCURRENCY: usize = 1024;
/// The largest body that may be asked for.
pub const MAX_BODY_BYTES: usize = 256 << 20;
/// The most bytes of headers that may be kept with a page: its record must fit the smallest record limit.
pub const MAX_HEADER_BYTES: usize = 32 << 10;
/// The least and the most memory for bodies that may be configured, in bytes.
pub(crate) const BODY_MEMORY: std::ops::RangeInclusive<usize> = 1 << 20..=64 << 30;
/// Headers that belong to the client, or that would change what an answer means.
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
    /// Names the first setting that is not usable, its value and what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let fail = |key, value: String, allowed: &str| Err(ConfigError { key, value, allowed: allowed.to_owned() });
        if self.user_agent.trim().is_empty() || reqwest::header::HeaderValue::from_str(&self.user_agent).is_err() {
            return fail(
                "user_agent",
                format!("{:?}", self.user_agent),
                "a non-empty text of visible ASCII characters",
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
                    &format!("a header name other than {}", RESERVED.join(", ")),
                );
            }
            if reqwest::header::HeaderValue::from_str(value).is_err() {
                return fail("headers", format!("{name}: {value:?}"), "a value of visible ASCII characters");
            }
        }
        Ok(())
    }

    fn validate_times(&self) -> Result<(), ConfigError> {
        let longest = Duration::from_millis(LONGEST_FETCH_MS.unsigned_abs());
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

    /// The longest that a fetch takes, in milliseconds.
    #[must_use]
    pub fn request_timeout_ms(&self) -> Millis {
        Millis::try_from(self.request_timeout.as_millis()).unwrap_or(LONGEST_FETCH_MS)
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
            (FetcherConfig { user_agent: "a\nb".into(), ..default.clone() }, "user_agent"),
            (FetcherConfig { concurrency: 0, ..default.clone() }, "concurrency"),
            (FetcherConfig { concurrency: 1025, ..default.clone() }, "concurrency"),
            (FetcherConfig { max_body_bytes: 0, ..default.clone() }, "max_body_bytes"),
            (FetcherConfig { body_memory: 1, ..default.clone() }, "body_memory"),
            (FetcherConfig { max_headers: 0, ..default.clone() }, "max_headers"),
            (FetcherConfig { max_header_bytes: 40_000, ..default.clone() }, "max_header_bytes"),
            (FetcherConfig { headers_timeout: Duration::ZERO, ..default.clone() }, "headers_timeout"),
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
