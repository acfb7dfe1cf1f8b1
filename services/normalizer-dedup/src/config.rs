//! Settings.

use std::path::PathBuf;

use orbweaver_messages::{CrawlDefinition, Millis, Pins, Scope, Traps};
use orbweaver_scope::Rules;
use orbweaver_url::{Policy, SUFFIX_LIST_VERSION, WideDomains};

/// Settings of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The directory of the index over `crawl.seen`; it holds nothing else, and may be deleted while the service is
    /// stopped. One process a directory.
    pub index_dir: PathBuf,
    /// Places of the recent cache, 21 bytes each, for all partitions together. Too few, and repeated links are answered
    /// by the disk: 7 microseconds instead of 0.1.
    pub recent_entries: usize,
    /// The crawl of seeds that name none.
    pub default_crawl: String,
    /// Least time for which a record of an unknown crawl waits for its definition, which may be written a little later, in
    /// milliseconds. It is rejected no sooner than `crawl.control` was read to an end that was requested after it came.
    pub definition_grace_ms: Millis,
    /// With what the default crawl is created when a record of it has waited in vain for a definition, so that seeds alone
    /// begin a crawl; `None`: such a record goes to the dead letters, as one of any other unknown crawl does.
    pub default_definition: Option<DefaultCrawl>,
    /// Domains whose hosts are sites of their own; the same for all services of a pipeline, and pinned by each crawl.
    pub wide_domains: WideDomains,
    /// Whether the service waits whenever it writes its index, as a simulation wants: what a crash finds on the disk is
    /// the same each time then.
    pub waits_for_disk: bool,
}

/// With what the default crawl is created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultCrawl {
    /// What belongs to it, measured from its seeds.
    pub scope: Scope,
    /// Patterns of which one must match, if there are any.
    pub include: Vec<String>,
    /// Patterns of which none may match.
    pub exclude: Vec<String>,
    /// Links from a seed at most.
    pub max_depth: Option<u16>,
    /// Pages that are fetched at most.
    pub max_pages: Option<u64>,
    /// What is done about traps.
    pub traps: Traps,
    /// The policy of its canonical form.
    pub canonical: Policy,
}

impl DefaultCrawl {
    /// All of this scope.
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

    /// The definition that this build writes.
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

/// A setting is out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: `{value}` is out of range; allowed is {allowed}")]
pub struct ConfigError {
    /// The setting.
    pub key: &'static str,
    /// What it was set to.
    pub value: String,
    /// What is allowed.
    pub allowed: &'static str,
}

impl Config {
    /// The default settings, with the index in this directory.
    #[must_use]
    pub fn new(index_dir: impl Into<PathBuf>) -> Self {
        Self {
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
    ///
    /// # Errors
    /// When one is out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let wrong = |key, value: &dyn ToString, allowed| Err(ConfigError { key, value: value.to_string(), allowed });
        if !(3..=1 << 30).contains(&self.recent_entries) {
            return wrong("recent_entries", &self.recent_entries, "3 to 1073741824");
        }
        if !(0..=600_000).contains(&self.definition_grace_ms) {
            return wrong("definition_grace_ms", &self.definition_grace_ms, "0 to 600000");
        }
        if self.default_crawl.is_empty() {
            return wrong("default_crawl", &self.default_crawl, "a name");
        }
        if let Some(default) = &self.default_definition {
            for (key, patterns) in [("default_include", &default.include), ("default_exclude", &default.exclude)] {
                if let Some(pattern) = patterns.iter().find(|pattern| regex::Regex::new(pattern).is_err()) {
                    return wrong(key, pattern, "regular expressions, without look-around and back-references");
                }
            }
            if Rules::compile(&default.definition(&self.default_crawl, &self.wide_domains, 1, 0)).is_err() {
                return wrong("default_include", &"", "patterns of 4 MiB in all when compiled, with `default_exclude`");
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
        assert_eq!(error, "recent_entries: `0` is out of range; allowed is 3 to 1073741824");
        assert!(Config { definition_grace_ms: -1, ..Config::new("seen") }.validate().is_err());
        assert!(Config { default_crawl: String::new(), ..Config::new("seen") }.validate().is_err());
        let default =
            |include: &str| DefaultCrawl { include: vec![include.to_owned()], ..DefaultCrawl::new(Scope::Host) };
        let config = |include| Config { default_definition: Some(default(include)), ..Config::new("seen") };
        assert_eq!(config("^https://").validate(), Ok(()));
        assert_eq!(config("(").validate().unwrap_err().key, "default_include");
    }
}
