//! `crawl.control`: settings. The last record of a key applies; a crawl definition or the list of consumer groups
//! applies only if it replaces the version in force. A record's offset is its version.

use orbweaver_url::{CrawlName, SiteName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CrawlOrder, FetchProfile, Millis, RevisitPolicy, is_default};

/// Set of URLs that belong to a crawl, relative to its seeds; variants from narrowest to widest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The host and port of a seed, and paths below its directory.
    Path,
    /// The host and port of a seed.
    Host,
    /// The site of a seed.
    Site,
    /// All URLs.
    Any,
}

/// Handling of traps: URLs that lead ever deeper without new content, such as endless calendars and session ID mazes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Traps {
    /// No detection.
    Off,
    /// Trap URLs are fetched after all other URLs of their site, and counted.
    #[default]
    Learn,
    /// As `Learn`; beyond a hard limit, trap URLs are refused with the reason `trap`.
    Strict,
}

impl Traps {
    /// Returns the name, as it is serialized.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Learn => "learn",
            Self::Strict => "strict",
        }
    }
}

impl Scope {
    /// Returns the name, as it is serialized.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Host => "host",
            Self::Site => "site",
            Self::Any => "any",
        }
    }
}

/// Settings that must not change during a crawl, since the keys and partitions of its records depend on them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pins {
    /// Partitions of each topic of the pipeline.
    pub partitions: u32,
    /// Version of the public suffix list.
    pub suffix_list: String,
    /// Rules of the canonical form, as the text of an `orbweaver_url::Policy`.
    pub canonical_policy: String,
    /// Domains whose hosts are separate sites, sorted; the same for all crawls of a pipeline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wide_domains: Vec<String>,
}

/// Definition of a crawl: key `crawl/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrawlDefinition {
    pub name: CrawlName,
    pub scope: Scope,
    /// Unanchored regular expressions; if there are any, one must match the canonical URL.
    #[serde(default)]
    pub include: Vec<String>,
    /// Unanchored regular expressions; none may match the canonical URL. Takes precedence over `include`.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Maximum link depth from a seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u16>,
    /// Whether links that lead out of the crawl are requested once, without their bodies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub check_external: bool,
    /// Maximum number of pages to fetch, over all partitions. Dispatches in flight may exceed it by a few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pages: Option<u64>,
    /// Maximum number of pages to fetch of each site. Its URLs beyond it end as refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pages_per_site: Option<u64>,
    /// Maximum number of decoded bytes of bodies to read, over all partitions. Dispatches in flight may exceed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Time from which nothing is dispatched for the crawl, in milliseconds since the Unix epoch; its URLs stay queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at_ms: Option<Millis>,
    /// Handling of traps.
    #[serde(default, skip_serializing_if = "is_default")]
    pub traps: Traps,
    /// Whether no request may be sent for the crawl; its URLs stay queued.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
    /// Whether the crawl has been stopped for good: no request may be sent for it, and its queued URLs end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stopped: bool,
    /// Whether the crawl has been deleted, after it was stopped. The record stays, so that another crawl with this name is
    /// known to be another one ([`CrawlName::incarnation`]).
    #[serde(default, skip_serializing_if = "is_default")]
    pub deleted: bool,
    /// Settings of its requests.
    #[serde(default, skip_serializing_if = "is_default")]
    pub profile: FetchProfile,
    /// Order of its URLs, for those that are admitted from now on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub order: CrawlOrder,
    /// Share of dispatches, fetch slots and the rate of shared sites, relative to the other crawls that have any to do.
    #[serde(default = "equal_share", skip_serializing_if = "is_equal_share")]
    pub share: u32,
    /// Revisits of its URLs; absent: each is visited once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revisit: Option<RevisitPolicy>,
    /// Settings that must not change.
    pub pins: Pins,
    /// Creation time.
    pub created_at_ms: Millis,
    /// Versions that this one replaces: it applies if the version in force is one of them, or if none is in force.
    /// Empty: it always applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<u64>,
}

impl CrawlDefinition {
    /// Share of a crawl that has no other one.
    pub const EQUAL_SHARE: u32 = 100;
}

fn equal_share() -> u32 {
    CrawlDefinition::EQUAL_SHARE
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_equal_share(share: &u32) -> bool {
    *share == equal_share()
}

/// Part of the web that a seed, or its redirect, brought into scope: key `scope/NAME/ENTRY`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopeEntry {
    pub crawl: CrawlName,
    /// `host[:port]/directory/` for scope path, `host[:port]` for host, the site for site.
    pub entry: String,
}

/// Number of pages of a crawl in one partition, as counted by its frontier: key `pages/PARTITION/NAME`, in the
/// partition of the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageCount {
    pub crawl: CrawlName,
    pub partition: u32,
    /// Owner epoch of the writer: the offset of its claim on the partition. The later writer wins.
    pub epoch: u64,
    /// `fetched` outcomes of the crawl in this partition of `crawl.outcomes`, below `upto`. A page that had to be
    /// fetched twice counts twice.
    pub pages: u64,
    /// Decoded bytes of the bodies in outcomes of the crawl in this partition of `crawl.outcomes`, below `upto`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bytes: u64,
    /// Dispatches of the crawl without an outcome.
    pub leased: u64,
    /// URLs of the crawl in `crawl.frontier`, leased ones included, without those that sleep until their next visit.
    #[serde(default)]
    pub live: u64,
    /// URLs of the crawl that sleep until their next visit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub asleep: u64,
    /// Offset in `crawl.outcomes` up to which outcomes are counted.
    pub upto: u64,
    /// Offset in `crawl.outcomes` below which all outcomes, of any crawl, are counted in earlier records of this
    /// partition.
    pub since: u64,
    /// Offset in `crawl.frontier` up to which the partition is known to be blocked: every queued URL, of any crawl,
    /// waits for a page cap to be raised or its crawl to be resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_at: Option<u64>,
}

/// Request for the number of live URLs of a crawl in each partition: key `probe/NAME`, in partition 0. A later one of the
/// same crawl takes its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletionProbe {
    pub crawl: CrawlName,
    /// Log ends of `crawl.frontier`, by partition, up to which the answer must count.
    pub ends: Vec<u64>,
    /// Time of the request.
    pub asked_at_ms: Millis,
}

/// Answer of the frontier that owns a partition, once it has no dispatch of the crawl that is not durable: key
/// `answer/PARTITION/NAME`, in the partition of the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletionAnswer {
    pub crawl: CrawlName,
    pub partition: u32,
    /// Offset of the probe.
    pub probe: u64,
    /// Owner epoch of the writer: the offset of its claim on the partition.
    pub epoch: u64,
    /// Time since the writer opened the partition, in milliseconds, at least.
    pub open_for_ms: Millis,
    /// Offset up to which the writer has read `crawl.frontier`.
    pub end: u64,
    /// URLs whose last record in `crawl.frontier` is not a tombstone, without those that sleep until their next visit.
    pub live: u64,
    /// URLs that sleep until their next visit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub asleep: u64,
    /// Dispatches without an outcome.
    pub leased: u64,
    /// Pages of the crawl in this partition, and decoded bytes of bodies; see [`PageCount`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub pages: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub bytes: u64,
    /// Offset in `crawl.frontier` up to which the last URL of the crawl that became live, or ceased to be, is contained.
    pub moved: u64,
}

/// Consumer group that keeps records from being deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerGroup {
    /// Name, without the cluster's prefix.
    pub group: String,
    /// Topics whose records the group retains, without the cluster's prefix.
    pub topics: Vec<String>,
    /// Declaration time.
    pub declared_at_ms: Millis,
}

/// User groups and running collectors, which keep records from being deleted: key [`CONSUMERS_KEY`]. A single record
/// holds them all, so that neither of two concurrent changes is lost unnoticed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerGroups {
    /// Groups, by name.
    pub groups: Vec<ConsumerGroup>,
    /// Versions that this one replaces: it applies if the version in force is one of them, or if none is in force.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<u64>,
}

pub const CONSUMERS_KEY: &str = "consumers";

/// Settings of a site, for all crawls: key `site/SITE`. A record applies if it names the version in force, or if none is
/// in force; a tombstone ends them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteSettings {
    pub site: SiteName,
    /// Whether no request may be sent to the site.
    #[serde(default, skip_serializing_if = "is_default")]
    pub frozen: bool,
    /// Politeness delay instead of the configured one, in milliseconds; below 100 counts as 100. A crawl-delay and refusals
    /// still slow the site down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<u64>,
    /// Factor of the weight of its URLs compared with those of other sites, in percent; absent: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_percent: Option<u32>,
    /// Time of the change.
    pub set_at_ms: Millis,
    /// Versions that this one replaces: it applies if the version in force is one of them, or if none is in force.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<u64>,
}

impl SiteSettings {
    /// Returns settings that change nothing.
    #[must_use]
    pub fn of(site: SiteName, now: Millis) -> Self {
        Self { site, frozen: false, interval_ms: None, weight_percent: None, set_at_ms: now, replaces: vec![] }
    }
}

/// Prefix of the keys of [`SiteSettings`].
pub const SITE_KEY: &str = "site/";

/// Returns the key of the settings of a site.
#[must_use]
pub fn site_key(site: &str) -> String {
    format!("{SITE_KEY}{site}")
}

/// Returns the key of a crawl definition.
#[must_use]
pub fn crawl_key(name: &CrawlName) -> String {
    format!("crawl/{name}")
}

/// Returns the key of the page count of a crawl in a partition.
#[must_use]
pub fn pages_key(crawl: &CrawlName, partition: u32) -> String {
    format!("{PAGES_KEY}{partition}/{crawl}")
}

/// Prefix of the keys of [`CompletionProbe`]s.
pub const PROBE_KEY: &str = "probe/";
/// Prefix of the keys of [`CompletionAnswer`]s.
pub const ANSWER_KEY: &str = "answer/";

/// Returns the key of the completion probe of a crawl.
#[must_use]
pub fn probe_key(crawl: &CrawlName) -> String {
    format!("{PROBE_KEY}{crawl}")
}

/// Returns the key of the answer of a partition to the completion probe of a crawl.
#[must_use]
pub fn answer_key(crawl: &CrawlName, partition: u32) -> String {
    format!("{ANSWER_KEY}{partition}/{crawl}")
}

/// Prefix of the keys of [`PageCount`]s.
pub const PAGES_KEY: &str = "pages/";

/// Prefix of the keys of [`ScopeEntry`]s.
pub const SCOPE_KEY: &str = "scope/";

#[must_use]
pub fn scope_key(crawl: &CrawlName, entry: &str) -> String {
    format!("{SCOPE_KEY}{crawl}/{entry}")
}
