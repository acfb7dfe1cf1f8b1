//! Settings.

use std::path::PathBuf;

use orbweaver_messages::{CrawlDefinition, Millis, Pins, Scope, Traps};
use orbweaver_scope::Rules;
use orbweaver_url::{Policy, SUFFIX_LIST_VERSION, WideDomains};

/// Settings of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Kind of the index over `crawl.seen`.
    pub index: IndexKind,
    /// Directory of the exact index. It must contain nothing else, and may be deleted while the service is
    /// stopped. One process per directory.
    pub index_dir: PathBuf,
    /// Entries of the recent cache, 21 bytes each, for all partitions. If there are too few, repeated links are looked
    /// up on disk: 7 microseconds instead of 0.1.
    pub recent_entries: usize,
    /// Crawl of seeds that name none.
    pub default_crawl: String,
    /// Minimum time for which a record of an unknown crawl waits for its definition, which may be written a little
    /// later, in milliseconds. It is rejected only after `crawl.control` was read to a log end queried after the record
    /// arrived.
    pub definition_grace_ms: Millis,
    /// Definition with which the default crawl is created if none arrives while a record of it waits, so that seeds
    /// alone start a crawl; `None` sends such a record to the dead letters, like one of any other unknown crawl.
    pub default_definition: Option<DefaultCrawl>,
    /// Domains whose hosts are separate sites; must be the same in all services of a pipeline, and is pinned by each
    /// crawl.
    pub wide_domains: WideDomains,
    /// Makes index writes synchronous, so that a simulated crash always finds the same state on disk.
    pub waits_for_disk: bool,
}

/// Kind of the index over `crawl.seen`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IndexKind {
    /// On disk: loses no URL, and detects a lesser depth.
    #[default]
    Exact,
    /// Bloom filters in memory: lose one in a million new URLs, and count a known URL as known at any depth.
    Bloom,
}

/// Settings with which the default crawl is created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultCrawl {
    /// Scope, relative to its seeds.
    pub scope: Scope,
    /// Patterns of which at least one must match, if there are any.
    pub include: Vec<String>,
    /// Patterns of which none may match.
    pub exclude: Vec<String>,
    /// Maximum number of links from a seed.
    pub max_depth: Option<u16>,
    /// Maximum number of fetched pages.
    pub max_pages: Option<u64>,
    /// Treatment of traps.
    pub traps: Traps,
    pub canonical: Policy,
}

impl DefaultCrawl {
    /// Creates a default crawl with this scope and no other restrictions.
    #[must_use]
    pub fn new(scope: Scope) -> Self {
        Self {
            scope,
            include: vec![],
            exclude: vec![],
            max_depth: None,
            max_pages: None,
            traps: Traps::default(),
            canonical: Policy::STANDARD,
        }
    }

    /// Returns the definition with the pins of this build.
    pub(crate) fn definition(&self, name: &str, wide: &WideDomains, partitions: u32, now: Millis) -> CrawlDefinition {
        let pins = Pins {
            partitions,
            suffix_list: SUFFIX_LIST_VERSION.to_owned(),
            canonical_policy: self.canonical.to_string(),
            wide_domains: wide.iter().map(str::to_owned).collect(),
        };
        CrawlDefinition {
            name: name.to_owned(),
            scope: self.scope,
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            max_depth: self.max_depth,
            max_pages: self.max_pages,
            traps: self.traps,
            pins,
            created_at_ms: now,
            replaces: vec![],
        }
    }
}

/// Setting out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: `{value}` is out of range; allowed: {allowed}")]
pub struct ConfigError {
    /// Name of the setting.
    pub key: &'static str,
    /// Invalid value.
    pub value: String,
    pub allowed: &'static str,
}

impl Config {
    /// Creates the default settings, with the index in this directory.
    #[must_use]
    pub fn new(index_dir: impl Into<PathBuf>) -> Self {
        Self {
            index: IndexKind::default(),
            index_dir: index_dir.into(),
            recent_entries: 262_144,
            default_crawl: "default".to_owned(),
            definition_grace_ms: 5_000,
            default_definition: None,
            wide_domains: WideDomains::default(),
            waits_for_disk: false,
        }
    }

    /// Checks the settings.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let wrong = |key, value: &dyn ToString, allowed| Err(ConfigError { key, value: value.to_string(), allowed });
        if !(3..=1 << 30).contains(&self.recent_entries) {
            return wrong("recent_entries", &self.recent_entries, "3 to 1073741824");
        }
        if !(0..=600_000).contains(&self.definition_grace_ms) {
            return wrong("definition_grace_ms", &self.definition_grace_ms, "0 to 600000");
        }
        if self.default_crawl.is_empty() {
            return wrong("default_crawl", &self.default_crawl, "a name that is not empty");
        }
        if let Some(default) = &self.default_definition {
            for (key, patterns) in [("default_include", &default.include), ("default_exclude", &default.exclude)] {
                if let Some(pattern) = patterns.iter().find(|pattern| regex::Regex::new(pattern).is_err()) {
                    return wrong(key, pattern, "a regular expression without look-around and back-references");
                }
            }
            if Rules::compile(&default.definition(&self.default_crawl, &self.wide_domains, 1, 0)).is_err() {
                let allowed = "at most 4 MiB of compiled patterns, and as much again in `default_exclude`";
                return wrong("default_include", &"", allowed);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_out_of_range_is_named_with_what_is_allowed() {
        assert_eq!(Config::new("seen").validate(), Ok(()));
        let config = Config { recent_entries: 0, ..Config::new("seen") };
        let error = config.validate().unwrap_err().to_string();
        assert_eq!(error, "recent_entries: `0` is out of range; allowed: 3 to 1073741824");
        assert!(Config { definition_grace_ms: -1, ..Config::new("seen") }.validate().is_err());
        assert!(Config { default_crawl: String::new(), ..Config::new("seen") }.validate().is_err());
        let default =
            |include: &str| DefaultCrawl { include: vec![include.to_owned()], ..DefaultCrawl::new(Scope::Host) };
        let config = |include| Config { default_definition: Some(default(include)), ..Config::new("seen") };
        assert_eq!(config("^https://").validate(), Ok(()));
        assert_eq!(config("(").validate().unwrap_err().key, "default_include");
    }
}
