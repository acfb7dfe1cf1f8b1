//! Configuration of the fetcher.

use std::{net::SocketAddr, time::Duration};

use orbweaver_log::RECORD_LIMIT;
use orbweaver_messages::{CrawlPurpose, MAX_FETCH_MS, Millis, ProxyUrl};
use orbweaver_politeness::{UserAgent, robots::agent_token};
use orbweaver_scope::RESERVED_HEADERS as RESERVED;
use orbweaver_settings::{
    Conflict, Count, DAY, GIB, Headers, KIB, MIB, MINUTE, Rate, SECOND, Secret, Section, Servers, Size, Time,
};
use orbweaver_url::{Url, WideDomains};
use reqwest::header::{HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::{self, Networks};

/// Settings of the fetcher: the section `fetcher` of the configuration, and settings that it shares with others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FetcherConfig {
    pub user_agent: UserAgent,
    /// Contact for site owners: a URL or `mailto:`, sent in the user agent.
    pub contact: Option<String>,
    /// Additional headers of every request.
    ///
    /// Headers set by the client itself are not allowed.
    #[serde(with = "Headers")]
    pub headers: Vec<(String, String)>,
    /// Maximum number of requests whose outcome is not yet durable. After a crash, up to this many pages are requested
    /// twice.
    #[serde(with = "Count::<1, 1024>")]
    pub concurrency: usize,
    /// Timeout for connection and TLS; at most `request_timeout`.
    #[serde(with = "Time::<1, MINUTE>")]
    pub connect_timeout: Duration,
    /// Timeout until the end of the response headers; at most `request_timeout`.
    #[serde(with = "Time::<1, MINUTE>")]
    pub headers_timeout: Duration,
    /// Timeout per whole request; together with `runtime.frozen_after` and the heartbeat interval at most the session
    /// timeout of the group.
    ///
    /// At most half of `MAX_FETCH_MS`: together with the maximum lifetime of a dispatch, it bounds a lease. A process
    /// that lost a partition has no request in flight when another receives it. A redirect of a dispatch to itself is a
    /// separate request under the same conditions.
    #[serde(with = "Time::<1, { MAX_FETCH_MS.unsigned_abs() / 2 }>")]
    pub request_timeout: Duration,
    /// Maximum number of connections that are kept for further requests to their hosts, for five seconds each; at most half
    /// of the open files that the process may have. Beyond it, connections are closed after their response.
    #[serde(with = "Count::<0, 1_000_000>")]
    pub max_idle_connections: usize,
    /// Least mean rate of a body as it is received, in bytes per second, from its first byte on; 0: none. A slower one fails
    /// once it has taken `body_grace`.
    ///
    /// Early bytes count for later. Time for which reading was paused is not counted.
    #[serde(with = "Size::<0, MIB>")]
    pub min_body_rate: usize,
    /// Time from the first byte of a body on, for which any rate is enough; without effect from `request_timeout` on.
    #[serde(with = "Time::<0, MINUTE>")]
    pub body_grace: Duration,
    /// Decoded bytes that are read of a body; the rest is cut off. At most the extractor's limit, otherwise pages are cut
    /// twice.
    #[serde(with = "Size::<1, { 256 * MIB }>")]
    pub max_body_bytes: usize,
    /// Memory for bodies that are not yet durable.
    ///
    /// One body may exceed it.
    #[serde(with = "Size::<MIB, { 64 * GIB }>")]
    pub body_memory: usize,
    /// Maximum number of headers of a response.
    ///
    /// A response with more fails.
    #[serde(with = "Count::<1, 4096>")]
    pub max_headers: usize,
    /// Bytes of the response headers that are stored with the page.
    #[serde(with = "Size::<0, MAX_HEADER_BYTES>")]
    pub max_header_bytes: usize,
    /// Do not request robots.txt. Only for your own sites.
    pub ignore_robots: bool,
    /// Read the sitemaps of sites: those that robots.txt names, else `/sitemap.xml`.
    pub sitemaps: bool,
    /// Read the feeds that pages declare.
    pub feeds: bool,
    /// Recognize pages that are sent instead of the requested one: challenges that only a browser passes, refusals by
    /// firewalls, messages with status 200 that the page does not exist, and parked domains.
    ///
    /// None of them has a document; reasons of their outcomes are `challenge`, `firewall`, `soft_404` and `parked`.
    pub detect_substitutes: bool,
    /// Write every response to `crawl.pages`, with the data of its request: redirects, errors, all types, and
    /// robots.txt. No outcome changes by it.
    #[serde(skip)]
    pub archive: bool,
    /// Bytes of page records that the archiver has not archived, above which nothing is fetched for archived crawls,
    /// estimated from the sizes of this fetcher's records; 0: no limit.
    ///
    /// Records of files that are open count. Keep it above the pages of `archiver.max_file_age`.
    #[serde(with = "Size::<0, { GIB << 20 }>")]
    pub max_archive_lag: u64,
    /// Maximum number of requisites of each page that are fetched; `None` or 0: none.
    #[serde(skip)]
    pub requisites: Option<u32>,
    /// Purposes of crawls that name none themselves; a page that its site refuses for one of them is not kept.
    #[serde(skip)]
    pub purpose: Vec<CrawlPurpose>,
    /// Longest `Crawl-delay` of a robots.txt that is obeyed: the URLs of a host with a longer one are refused as
    /// `crawl_delay`.
    #[serde(with = "Time::<SECOND, DAY>")]
    pub max_crawl_delay: Duration,
    /// Also fetch from loopback, private and other special addresses. For tests and intranets.
    pub allow_private: bool,
    /// Networks whose addresses are fetched from although they are not public. For intranets.
    ///
    /// An IPv4 address within an IPv6 address (`::ffff:10.0.0.1`) is permitted by the IPv4 network alone. Schemes and
    /// ports are checked all the same.
    pub allow_networks: Networks,
    /// File with certificates (PEM) of authorities that are trusted in addition to those of the operating system, such as
    /// that of an intranet.
    ///
    /// Read at the start, and applied to proxies too; at most 1 MiB.
    pub tls_ca: Option<String>,
    /// Lifetime of a cached robots.txt whose Cache-Control has no `max-age` (a `max-age` applies from ten minutes to
    /// seven days). While its site is unreachable, the cached one applies for seven days.
    ///
    /// RFC 9309 section 2.4 allows at most a day unless the server says otherwise.
    #[serde(with = "Time::<1, { 7 * DAY }>")]
    pub robots_lifetime: Duration,
    /// Lifetime of the finding that a site has no robots.txt, or that its address is private or its host unknown. For an
    /// unreachable robots.txt it is ten minutes.
    #[serde(with = "Time::<1, DAY>")]
    pub robots_error_lifetime: Duration,
    /// Memory for cached robots.txt files.
    #[serde(with = "Size::<KIB, { 64 * GIB }>")]
    pub robots_cache_bytes: usize,
    /// Name servers, each with its port; if none is set, those of the system.
    #[serde(with = "Servers")]
    pub dns_servers: Option<Vec<String>>,
    /// Timeout for the lookup of a name, with all servers and repetitions.
    #[serde(with = "Time::<10, MINUTE>")]
    pub dns_timeout: Duration,
    /// Maximum number of lookups at once; others wait.
    #[serde(with = "Count::<1, 4096>")]
    pub dns_concurrency: usize,
    /// Maximum number of cached answers: one or two per host.
    #[serde(with = "Count::<0, 10_000_000>")]
    pub dns_cache_entries: u64,
    /// Shortest time for which an address is cached, whatever its TTL; in seconds. The address of a host in continuous
    /// use is kept for five minutes.
    #[serde(with = "Time::<0, DAY>")]
    pub dns_min_ttl: Duration,
    /// Longest time for which an address is cached; at least `dns_min_ttl`.
    #[serde(with = "Time::<0, DAY>")]
    pub dns_max_ttl: Duration,
    /// Shortest time for which it is cached that a name has no address; in seconds.
    #[serde(with = "Time::<0, DAY>")]
    pub dns_min_negative_ttl: Duration,
    /// Longest time for which it is cached that a name has no address; at least `dns_min_negative_ttl`.
    #[serde(with = "Time::<0, DAY>")]
    pub dns_max_negative_ttl: Duration,
    /// Maximum number of requests at once to one IP address, whatever their sites; 0: no limit. Of several fetchers each
    /// has its part, by partitions, and at least one.
    #[serde(with = "Count::<0, 1024>")]
    pub max_requests_per_address: usize,
    /// Minimum time between the starts of two requests to one IP address by the same fetcher.
    #[serde(with = "Time::<0, { 10 * SECOND }>")]
    pub address_interval: Duration,
    /// URL of the proxy of all requests, with `http`, `https`, `socks5` or `socks5h` and perhaps `USER:PASSWORD@`; a crawl may
    /// have another one or none. Proxies in environment variables are not used.
    ///
    /// Names are resolved and checked here first; a proxy that resolves them itself may reach another address.
    #[serde(with = "Secret")]
    pub proxy: Option<String>,
    /// Record limit of the log, in bytes; the body of a page whose record would exceed it is cut.
    #[serde(skip)]
    pub record_limit: usize,
    /// Interval of a site to which a robots.txt or a page redirects and which is unknown from dispatches.
    #[serde(skip)]
    pub default_interval_ms: u64,
    /// Domains whose hosts are separate sites; the same for all services of a pipeline.
    #[serde(skip)]
    pub wide_domains: WideDomains,
}

impl FetcherConfig {
    /// Returns `true` if the host of a URL is an address that must not be dialled.
    pub(crate) fn refuses(&self, url: &Url) -> bool {
        !self.allow_private && address::is_private(url, &self.allow_networks)
    }

    /// Returns the configured name servers.
    pub(crate) fn name_servers(&self) -> Vec<SocketAddr> {
        self.dns_servers.iter().flatten().filter_map(|server| server.parse().ok()).collect()
    }
}

impl Section for FetcherConfig {
    const NAME: &'static str = "fetcher";

    fn conflicts(&self) -> Vec<Conflict> {
        let mut conflicts = vec![];
        let mut allow = |key: &str, allowed: String| conflicts.push(Conflict::allowed(key, allowed));
        let has_token = !agent_token(&self.user_agent).is_empty();
        if !has_token || HeaderValue::from_str(&agent(&self.user_agent, self.contact.as_deref())).is_err() {
            let allowed = "visible ASCII characters that begin with a product token of letters, digits, `_` and `-`";
            allow("user_agent", allowed.to_owned());
        }
        for (key, time) in [("connect_timeout", self.connect_timeout), ("headers_timeout", self.headers_timeout)] {
            if time > self.request_timeout {
                allow(key, format!("more than 0 and at most {:?}", self.request_timeout));
            }
        }
        if self.dns_servers.iter().flatten().any(|server| server.parse::<SocketAddr>().is_err()) {
            allow("dns_servers", "IP addresses with ports, such as `192.0.2.53:53`".to_owned());
        }
        if let Some(allowed) = self.allow_networks.conflict() {
            allow("allow_networks", allowed);
        }
        if self.proxy.as_ref().is_some_and(|proxy| !ProxyUrl::from(proxy.clone()).is_valid()) {
            allow("proxy", ProxyUrl::ALLOWED.to_owned());
        }
        let ttls = [
            ("dns_max_ttl", self.dns_min_ttl, self.dns_max_ttl),
            ("dns_max_negative_ttl", self.dns_min_negative_ttl, self.dns_max_negative_ttl),
        ];
        for (key, least, _) in ttls.into_iter().filter(|(_, least, most)| least > most) {
            allow(key, format!("at least {least:?}"));
        }
        for (name, value) in &self.headers {
            let known = HeaderName::from_bytes(name.as_bytes()).is_ok();
            if !known || RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
                allow("headers", format!("a valid header name other than {}; {name:?} is not", RESERVED.join(", ")));
            } else if HeaderValue::from_str(value).is_err() {
                allow("headers", format!("visible ASCII characters as the value of {name:?}"));
            }
        }
        conflicts
    }
}

impl Default for FetcherConfig {
    fn default() -> Self {
        Self {
            user_agent: UserAgent::default(),
            contact: None,
            headers: vec![],
            concurrency: 128,
            connect_timeout: Duration::from_secs(10),
            headers_timeout: Duration::from_secs(20),
            request_timeout: Duration::from_secs(20),
            max_idle_connections: 8192,
            min_body_rate: 50,
            body_grace: Duration::from_secs(10),
            max_body_bytes: 8 << 20,
            body_memory: 128 << 20,
            max_headers: 256,
            max_header_bytes: 16 << 10,
            ignore_robots: false,
            sitemaps: false,
            feeds: false,
            detect_substitutes: true,
            archive: false,
            max_archive_lag: 0,
            requisites: None,
            purpose: vec![],
            max_crawl_delay: Duration::from_hours(1),
            allow_private: false,
            allow_networks: Networks::default(),
            tls_ca: None,
            robots_lifetime: Duration::from_hours(24),
            robots_error_lifetime: Duration::from_hours(1),
            robots_cache_bytes: 64 << 20,
            dns_servers: None,
            dns_timeout: Duration::from_secs(10),
            dns_concurrency: 128,
            dns_cache_entries: 32_768,
            dns_min_ttl: Duration::from_mins(1),
            dns_max_ttl: Duration::from_hours(1),
            dns_min_negative_ttl: Duration::from_secs(10),
            dns_max_negative_ttl: Duration::from_mins(10),
            max_requests_per_address: 32,
            address_interval: Duration::ZERO,
            proxy: None,
            record_limit: RECORD_LIMIT,
            default_interval_ms: Rate::default().interval_ms,
            wide_domains: WideDomains::default(),
        }
    }
}

/// Maximum of [`FetcherConfig::max_header_bytes`]: a page's record must fit the smallest record limit.
pub const MAX_HEADER_BYTES: u64 = 32 * KIB;

/// Returns the user agent that is sent, with the contact.
pub(crate) fn agent(name: &str, contact: Option<&str>) -> String {
    let contact = contact.map(|contact| format!(" (+{contact})")).unwrap_or_default();
    format!("{name}{contact}")
}

/// Returns a duration in milliseconds.
pub(crate) fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unusable_setting_is_named_with_what_is_allowed() {
        let default = FetcherConfig::default();
        let header = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let cases = [
            (FetcherConfig { user_agent: " ".into(), ..default.clone() }, "user_agent"),
            (FetcherConfig { user_agent: "/1.0".into(), ..default.clone() }, "user_agent"),
            (FetcherConfig { user_agent: "a\nb".into(), ..default.clone() }, "user_agent"),
            (FetcherConfig { request_timeout: Duration::from_secs(5), ..default.clone() }, "connect_timeout"),
            (FetcherConfig { headers_timeout: Duration::from_secs(21), ..default.clone() }, "headers_timeout"),
            (FetcherConfig { dns_servers: Some(vec!["dns.example:53".to_owned()]), ..default.clone() }, "dns_servers"),
            (FetcherConfig { proxy: Some("proxy.example".to_owned()), ..default.clone() }, "proxy"),
            (
                FetcherConfig { allow_networks: vec!["10.0.0.1/8".to_owned()].into(), ..default.clone() },
                "allow_networks",
            ),
            (FetcherConfig { dns_max_ttl: Duration::from_secs(59), ..default.clone() }, "dns_max_ttl"),
            (FetcherConfig { headers: header("Host", "x"), ..default.clone() }, "headers"),
            (FetcherConfig { headers: header("a b", "x"), ..default.clone() }, "headers"),
            (FetcherConfig { headers: header("x", "a\r\nb: c"), ..default }, "headers"),
        ];
        for (config, key) in cases {
            assert_eq!(config.check().unwrap_err().key, key);
        }
    }
}
