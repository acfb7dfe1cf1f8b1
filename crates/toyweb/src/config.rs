//! Configuration of a generated web.

use std::collections::BTreeMap;

use crate::special::Kind;

/// Maximum number of address hosts of one web; each has its own socket.
const MAX_ADDRESS_HOSTS: u32 = 2_000;
/// Maximum number of special places per kind.
const MAX_SPECIALS: u32 = 250;

/// Configuration of a generated web. The same configuration and port always produce the same web.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebConfig {
    /// Seed of every choice.
    pub seed: u64,
    /// Number of pages, all reachable from page 0.
    pub pages: u64,
    /// Links per page (2 to 1000).
    pub links: u32,
    /// Size of a page in bytes; a page whose links need more is larger.
    pub bytes: u32,
    /// Number of hosts that are IP literals (`127.0.1.1` and up), each its own site.
    pub address_hosts: u32,
    /// Number of named hosts (`h0.toyweb0.localhost` and up), distinguished by the Host header.
    pub named_hosts: u32,
    /// Number of registrable domains among which the named hosts are spread.
    pub named_sites: u32,
    /// Number of special places per kind.
    pub specials: BTreeMap<Kind, u32>,
    /// Response time of a slow page, in milliseconds.
    pub slow_ms: u64,
    /// Number of failures of a flaky page, and of 429 responses of a busy one, before it is served.
    pub failures: u32,
    /// Retry-After of a 429, in seconds.
    pub retry_after_s: u32,
    /// Crawl-delay of the hosts that have one, in seconds.
    pub crawl_delay_s: u32,
    /// Size of a large page in bytes.
    pub large_bytes: u32,
    /// `true` if ordinary pages differ only in numbers, both in their URLs and in their text.
    pub alike: bool,
    /// Time after which every fourth page changes, in milliseconds; the others change after 4, 16 and 64 times as long.
    /// 0: no page changes.
    pub version_ms: u64,
}

impl Default for WebConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            pages: 1_000,
            links: 30,
            bytes: 16_384,
            address_hosts: 1,
            named_hosts: 0,
            named_sites: 1,
            specials: BTreeMap::new(),
            slow_ms: 500,
            failures: 1,
            retry_after_s: 1,
            crawl_delay_s: 1,
            large_bytes: 2 << 20,
            alike: false,
            version_ms: 0,
        }
    }
}

/// Invalid configuration of a web.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {value}; allowed: {allowed}")]
pub struct ConfigError {
    pub key: &'static str,
    pub value: String,
    pub allowed: String,
}

impl WebConfig {
    /// Returns the number of hosts of ordinary pages.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        self.address_hosts.saturating_add(self.named_hosts)
    }

    /// Returns the configuration with `count` special places of every kind, except traps and large ones.
    #[must_use]
    pub fn with_every_special(mut self, count: u32) -> Self {
        let kinds = Kind::ALL.iter().filter(|kind| !kind.is_of_traps() && !kind.is_bulky());
        self.specials = kinds.map(|kind| (*kind, count)).collect();
        self
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// The first setting that is out of range, with its value and the allowed range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        within("pages", self.pages, 1, 1 << 40)?;
        within("links", self.links.into(), 2, 1_000)?;
        within("bytes", self.bytes.into(), 0, 64 << 20)?;
        within("large_bytes", self.large_bytes.into(), 0, 1 << 30)?;
        within("address_hosts", self.address_hosts.into(), 0, MAX_ADDRESS_HOSTS.into())?;
        within("named_hosts", self.named_hosts.into(), 0, 1 << 24)?;
        within("hosts", self.hosts().into(), 1, u32::MAX.into())?;
        within("named_sites", self.named_sites.into(), 1, u64::from(self.named_hosts).max(1))?;
        within("slow_ms", self.slow_ms, 0, 600_000)?;
        within("failures", self.failures.into(), 0, 100)?;
        self.specials.values().try_for_each(|count| within("specials", (*count).into(), 0, MAX_SPECIALS.into()))
    }
}

fn within(key: &'static str, value: u64, least: u64, most: u64) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ConfigError { key, value: value.to_string(), allowed: format!("{least} to {most}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_out_of_range_is_refused_by_name() {
        let error = WebConfig { links: 1, ..WebConfig::default() }.validate().unwrap_err();
        assert_eq!(error.to_string(), "links is 1; allowed: 2 to 1000");
        assert_eq!(WebConfig { address_hosts: 0, ..WebConfig::default() }.validate().unwrap_err().key, "hosts");
        assert_eq!(WebConfig::default().validate(), Ok(()));
    }
}
