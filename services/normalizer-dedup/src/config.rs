//! Settings.

use std::path::PathBuf;

use orbweaver_messages::Millis;

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
    /// How long a record of an unknown crawl waits for its definition, which may still be on its way, in milliseconds.
    /// Must exceed the time in which `crawl.control` reaches all instances.
    pub definition_grace_ms: Millis,
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
    }
}
