//! Settings.

use std::path::PathBuf;

use orbweaver_messages::{CrawlDefinition, CrawlOrder, FetchProfile, Millis, Pins, Scope, Traps};
use orbweaver_scope::Rules;
use orbweaver_settings::{Conflict, Count, MINUTE, Section, Time};
use orbweaver_url::{CrawlName, Policy, SUFFIX_LIST_VERSION, WideDomains};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the service: the section `normalizer_dedup` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub wide_domains: WideDomains,
    /// Entries of the recent cache, 21 bytes each.
    ///
    /// For all partitions. If there are too few, repeated links are looked up on disk: 7 microseconds instead of 0.1.
    #[serde(with = "Count::<3, { 1 << 30 }>")]
    pub recent_entries: usize,
    /// Index of known URLs. `exact`: on disk, 18 bytes per URL, and 1.5 in memory; loses no URL. `bloom`: growable Bloom
    /// filters in memory, about 5 bytes per URL, rebuilt from `crawl.seen` whenever a partition opens, so that an
    /// instance needs no volume; loses at most one new URL in a million, and the smaller depth of a known one.
    pub index: IndexKind,
    /// Crawl of seeds that name none.
    pub default_crawl: CrawlName,
    /// Scope of the default crawl, relative to its seeds. The `default_…` settings apply if the crawl does not exist when
    /// its first seed arrives.
    pub default_scope: Scope,
    /// Default crawl: regular expressions of which at least one must match a URL. (An expression with a comma must be in
    /// the file, as an array.)
    pub default_include: Vec<String>,
    /// Default crawl: regular expressions of which none may match a URL.
    pub default_exclude: Vec<String>,
    /// Default crawl: maximum link depth from a seed.
    #[serde(with = "Count::<0, 65_535>")]
    pub default_max_depth: Option<u16>,
    /// Default crawl: maximum number of pages; may be exceeded slightly.
    #[serde(with = "Count::<1, { u64::MAX }>")]
    pub default_max_pages: Option<u64>,
    /// Default crawl: treatment of crawler traps, which are endless URLs without new content.
    pub default_traps: Traps,
    /// Default crawl: policy of the canonical form: `standard`, `aggressive` or `raw`, and rules after commas
    /// (`standard,sort-query`).
    #[schemars(with = "String", extend("default_text" = "standard"))]
    pub default_canonical: Policy,
    /// Minimum time for which a record of an unknown crawl waits for the definition of the crawl. It is rejected only
    /// after `crawl.control` has been read to a log end that was requested after the record arrived.
    #[serde(rename = "definition_grace", with = "Time::<0, { 10 * MINUTE }>")]
    pub definition_grace_ms: Millis,
    /// Creates the default crawl if no definition arrives while a record of it waits, so that seeds alone start a crawl;
    /// otherwise such a record is sent to the dead letters, like one of any other unknown crawl.
    #[serde(skip)]
    pub creates_default_crawl: bool,
    /// Directory of the exact index. It must contain nothing else, and may be deleted while the service is stopped. One
    /// process per directory.
    #[serde(skip)]
    pub index_dir: PathBuf,
    /// Makes index writes synchronous, so that a simulated crash always finds the same state on disk.
    #[serde(skip)]
    pub waits_for_disk: bool,
}

/// Kind of the index over `crawl.seen`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IndexKind {
    /// On disk: loses no URL, and detects a lesser depth.
    #[default]
    Exact,
    /// Bloom filters in memory: lose one in a million new URLs, and count a known URL as known at any depth.
    Bloom,
}

impl Section for Config {
    const NAME: &'static str = "normalizer_dedup";

    fn conflicts(&self) -> Vec<Conflict> {
        let mut conflicts = vec![];
        for (key, patterns) in [("default_include", &self.default_include), ("default_exclude", &self.default_exclude)]
        {
            if patterns.iter().any(|pattern| regex::Regex::new(pattern).is_err()) {
                let allowed = "a regular expression without look-around and back-references";
                conflicts.push(Conflict::allowed(key, allowed));
            }
        }
        if conflicts.is_empty() && Rules::compile(&self.definition(1, 0)).is_err() {
            let allowed = "at most 4 MiB of compiled patterns, and as much again in `default_exclude`";
            conflicts.push(Conflict::allowed("default_include", allowed));
        }
        conflicts
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            wide_domains: WideDomains::default(),
            recent_entries: 262_144,
            index: IndexKind::default(),
            default_crawl: CrawlName::default(),
            default_scope: Scope::Host,
            default_include: vec![],
            default_exclude: vec![],
            default_max_depth: None,
            default_max_pages: None,
            default_traps: Traps::default(),
            default_canonical: Policy::STANDARD,
            definition_grace_ms: 5_000,
            creates_default_crawl: false,
            index_dir: PathBuf::new(),
            waits_for_disk: false,
        }
    }
}

impl Config {
    /// Creates the default settings, with the index in this directory.
    #[must_use]
    pub fn new(index_dir: impl Into<PathBuf>) -> Self {
        Self { index_dir: index_dir.into(), ..Self::default() }
    }

    /// Returns the definition of the default crawl, with the pins of this build.
    pub(crate) fn definition(&self, partitions: u32, now: Millis) -> CrawlDefinition {
        let pins = Pins {
            partitions,
            suffix_list: SUFFIX_LIST_VERSION.to_owned(),
            canonical_policy: self.default_canonical.to_string(),
            wide_domains: self.wide_domains.iter().map(str::to_owned).collect(),
        };
        CrawlDefinition {
            name: self.default_crawl.clone(),
            scope: self.default_scope,
            include: self.default_include.clone(),
            exclude: self.default_exclude.clone(),
            max_depth: self.default_max_depth,
            check_external: false,
            max_pages: self.default_max_pages,
            max_pages_per_site: None,
            max_bytes: None,
            ends_at_ms: None,
            traps: self.default_traps,
            paused: false,
            stopped: false,
            deleted: false,
            profile: FetchProfile::default(),
            order: CrawlOrder::default(),
            share: CrawlDefinition::EQUAL_SHARE,
            revisit: None,
            pins,
            created_at_ms: now,
            replaces: vec![],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_is_named() {
        assert_eq!(Config::new("seen").check(), Ok(()));
        let with = |include: &str| Config { default_include: vec![include.to_owned()], ..Config::new("seen") };
        assert_eq!(with("^https://").check(), Ok(()));
        assert_eq!(with("(").check().unwrap_err().key, "default_include");
    }
}
