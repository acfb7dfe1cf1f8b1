//! `crawl.control`: settings. The last record of a key applies, of a crawl's definition the last that replaces what applies
//! before it; its offset is its version.

use serde::{Deserialize, Serialize};

use crate::Millis;

/// Which URLs belong to a crawl, measured from its seeds; in order, the narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The host and port of a seed, and a path below its directory.
    Path,
    /// The host and port of a seed.
    Host,
    /// The site of a seed.
    Site,
    /// Everything.
    Any,
}

/// What is done about URLs that lead on and on without bringing anything new: endless calendars, mazes of session ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Traps {
    /// Nothing: they are not looked for.
    Off,
    /// They are fetched behind all other URLs of their site, and counted.
    #[default]
    Learn,
    /// The same, and past a hard limit they are refused with the reason `trap`.
    Strict,
}

impl Traps {
    /// Whether it is what applies where nothing is said.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Its name, as it is written.
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
    /// Its name, as it is written.
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

/// What must not change while a crawl lives, since records were placed and named by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pins {
    /// Partitions of every topic of the pipeline.
    pub partitions: u32,
    /// Version of the public suffix list.
    pub suffix_list: String,
    /// The rules of the canonical form, as the text of an `orbweaver_url::Policy`.
    pub canonical_policy: String,
    /// Domains whose hosts are sites of their own, sorted; the same for all crawls of a pipeline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wide_domains: Vec<String>,
}

/// A crawl: key `crawl/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrawlDefinition {
    /// Its name.
    pub name: String,
    /// Which URLs belong to it.
    pub scope: Scope,
    /// Unanchored regular expressions; where there are any, one must match the canonical URL.
    #[serde(default)]
    pub include: Vec<String>,
    /// Unanchored regular expressions; none may match the canonical URL. Exclude wins.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Links followed from a seed at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u16>,
    /// Pages that are fetched at most, in all partitions together; it may become a few more, those that are on their way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pages: Option<u64>,
    /// What is done about traps.
    #[serde(default, skip_serializing_if = "Traps::is_default")]
    pub traps: Traps,
    /// What must not change.
    pub pins: Pins,
    /// When it was created.
    pub created_at_ms: Millis,
    /// The versions in whose place it comes: it applies if one of them applies before it. None: it applies in any case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<u64>,
}

/// A part of the web that a seed, or its redirect, brought into scope: key `scope/NAME/ENTRY`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopeEntry {
    /// The crawl.
    pub crawl: String,
    /// `host[:port]/directory/` for scope path, `host[:port]` for host, the site for site.
    pub entry: String,
}

/// The pages of a crawl in one partition, as its frontier counts them: key `pages/PARTITION/NAME`, in the partition of the same
/// number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageCount {
    /// The crawl.
    pub crawl: String,
    /// The partition.
    pub partition: u32,
    /// The claim of its writer on the partition: of two writers the later one counts.
    pub epoch: u64,
    /// Outcomes `fetched` of the crawl in this partition of `crawl.outcomes`, below `upto`. A page that had to be fetched
    /// twice counts twice.
    pub pages: u64,
    /// Dispatches of the crawl without an outcome.
    pub leased: u64,
    /// The offset in `crawl.outcomes` up to which was counted.
    pub upto: u64,
    /// All that was to be counted below this offset stands in records of this partition that were written before this one,
    /// whatever their crawl.
    pub since: u64,
    /// Nothing of this partition can move: all that waits in it, of whatever crawl, waits for a cap to be raised. This is the
    /// offset in `crawl.frontier` up to which that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_at: Option<u64>,
}

/// A consumer group that keeps records from being deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerGroup {
    /// Its name, without the prefix that a cluster adds.
    pub group: String,
    /// The topics whose records it keeps, without the prefix that a cluster adds.
    pub topics: Vec<String>,
    /// When it was declared.
    pub declared_at_ms: Millis,
}

/// The groups of users, and the collectors that run, which keep records from being deleted: key [`CONSUMERS_KEY`]. All in one
/// record, so that of two changes made at the same time neither is lost unseen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerGroups {
    /// The groups, by name.
    pub groups: Vec<ConsumerGroup>,
    /// The versions in whose place it comes: it applies if one of them applies before it, or none does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<u64>,
}

/// The key of [`ConsumerGroups`].
pub const CONSUMERS_KEY: &str = "consumers";

/// The key of a crawl's definition.
#[must_use]
pub fn crawl_key(name: &str) -> String {
    format!("crawl/{name}")
}

/// The key of the pages of a crawl in a partition.
#[must_use]
pub fn pages_key(crawl: &str, partition: u32) -> String {
    format!("{PAGES_KEY}{partition}/{crawl}")
}

/// What the keys of [`PageCount`]s begin with.
pub const PAGES_KEY: &str = "pages/";

/// The key of a scope entry.
#[must_use]
pub fn scope_key(crawl: &str, entry: &str) -> String {
    format!("scope/{crawl}/{entry}")
}
