//! What `crawl.control` says of crawls: definitions and scope entries.

use std::collections::HashMap;

use bytes::Bytes;
use orbweaver_log::{Delivered, Offset};
use orbweaver_messages::{CrawlDefinition, Pins, ScopeEntry, decode};
use orbweaver_url::{Policy, SUFFIX_LIST_VERSION, WideDomains};

use crate::scope::{Entries, Rules};

/// What is known of one crawl.
#[derive(Debug, Default)]
pub(crate) struct Crawl {
    /// The offset of the last record of its definition, which is its version.
    version: Option<Offset>,
    /// Its rules; why they cannot be used; or none, when it is not defined.
    rules: Option<Result<Rules, String>>,
    pins: Option<Pins>,
    pub(crate) entries: Entries,
}

/// A crawl as a record needs it.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// Its rules, and the parts of the web in its scope.
    Defined(&'a Rules, &'a mut Entries),
    /// Its definition cannot be used, and why.
    Unusable(&'a str),
    /// It is not defined.
    Unknown,
}

/// All crawls.
#[derive(Debug, Default)]
pub(crate) struct Crawls {
    crawls: HashMap<String, Crawl>,
    /// Known once a partition is open.
    partitions: Option<u32>,
    /// The wide domains of the pipeline.
    wide: WideDomains,
}

impl Crawls {
    /// No crawls yet, of a pipeline with these wide domains.
    pub(crate) fn new(wide: WideDomains) -> Self {
        Self { wide, ..Self::default() }
    }

    pub(crate) fn find(&mut self, name: &str) -> Found<'_> {
        match self.crawls.get_mut(name) {
            Some(Crawl { rules: Some(Ok(rules)), entries, .. }) => Found::Defined(rules, entries),
            Some(Crawl { rules: Some(Err(reason)), .. }) => Found::Unusable(reason),
            _ => Found::Unknown,
        }
    }

    /// The entry stands in the log.
    pub(crate) fn entry_is_durable(&mut self, crawl: &str, entry: &str) {
        self.crawls.entry(crawl.to_owned()).or_default().entries.insert(entry, true);
    }

    /// Applies a record of `crawl.control`; of a definition the one with the highest offset counts, so that a log may be
    /// replayed while it is followed. Whether it was about a crawl.
    ///
    /// # Errors
    /// When a crawl was created by another build whose sites or keys differ: going on would scatter what it has stored.
    pub(crate) fn apply(&mut self, record: &Delivered) -> Result<bool, String> {
        let key = record.key.as_deref().and_then(|key| std::str::from_utf8(key).ok()).unwrap_or_default();
        if let Some(name) = key.strip_prefix("crawl/") {
            self.define(name, record)?;
            return Ok(true);
        }
        let Some((name, entry)) = key.strip_prefix("scope/").and_then(|rest| rest.split_once('/')) else {
            return Ok(false);
        };
        match &record.value {
            None => {
                if let Some(crawl) = self.crawls.get_mut(name) {
                    crawl.entries.remove(entry);
                }
            }
            Some(value) => self.add_entry(record, value),
        }
        Ok(true)
    }

    /// The number of partitions of the pipeline.
    ///
    /// # Errors
    /// When a crawl was created with another number.
    pub(crate) fn set_partitions(&mut self, partitions: u32) -> Result<(), String> {
        self.partitions = Some(partitions);
        let mut pinned = self.crawls.iter().filter_map(|(name, crawl)| Some((name, crawl.pins.as_ref()?)));
        pinned.try_for_each(|(name, pins)| check(name, pins, self.partitions, &self.wide))
    }

    fn define(&mut self, name: &str, record: &Delivered) -> Result<(), String> {
        let crawl = self.crawls.entry(name.to_owned()).or_default();
        if crawl.version.is_some_and(|version| version > record.offset) {
            return Ok(());
        }
        crawl.version = Some(record.offset);
        (crawl.rules, crawl.pins) = (None, None);
        if record.value.is_none() {
            return Ok(());
        }
        match decode::<CrawlDefinition>("crawl-definition", record.value.as_ref()) {
            Ok(definition) => {
                check(name, &definition.pins, self.partitions, &self.wide)?;
                crawl.rules = Some(Rules::compile(&definition));
                crawl.pins = Some(definition.pins);
            }
            Err(error) => crawl.rules = Some(Err(error.to_string())),
        }
        if let Some(Err(reason)) = &crawl.rules {
            tracing::error!(crawl = name, offset = record.offset, reason, "the definition of a crawl cannot be used");
        }
        Ok(())
    }

    fn add_entry(&mut self, record: &Delivered, value: &Bytes) {
        match decode::<ScopeEntry>("scope-entry", Some(value)) {
            Ok(entry) => self.entry_is_durable(&entry.crawl, &entry.entry),
            Err(error) => tracing::error!(offset = record.offset, %error, "a scope entry cannot be used"),
        }
    }
}

/// Rule 12: what records were placed and named by must not change.
fn check(crawl: &str, pins: &Pins, partitions: Option<u32>, wide: &WideDomains) -> Result<(), String> {
    let wrong = |what: &str, pinned: &dyn std::fmt::Display, own: &dyn std::fmt::Display| {
        Err(format!(
            "the crawl `{crawl}` was created with {what} {pinned}, and this is {own}: its records would not be found \
             again; use a build with {pinned}, or begin the crawl anew"
        ))
    };
    if pins.suffix_list != SUFFIX_LIST_VERSION {
        return wrong("the suffix list", &pins.suffix_list, &SUFFIX_LIST_VERSION);
    }
    if let Err(error) = pins.canonical_policy.parse::<Policy>() {
        let presets = Policy::PRESETS.map(|policy| policy.to_string()).join(", ");
        return wrong("the canonical policy", &pins.canonical_policy, &format!("a build with {presets} ({error})"));
    }
    if !pins.wide_domains.iter().map(String::as_str).eq(wide.iter()) {
        let shown = |domains: &[&str]| if domains.is_empty() { "none".to_owned() } else { domains.join(" ") };
        let pinned: Vec<&str> = pins.wide_domains.iter().map(String::as_str).collect();
        let own: Vec<&str> = wide.iter().collect();
        return Err(format!(
            "the crawl `{crawl}` was created with the wide domains {}, and this pipeline has {}: its records would not be \
             found again; set `normalizer_dedup.wide_domains` of all services as it was",
            shown(&pinned),
            shown(&own)
        ));
    }
    match partitions {
        Some(partitions) if partitions != pins.partitions => {
            wrong("a number of partitions of", &pins.partitions, &partitions)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_log::TopicPartition;
    use orbweaver_messages::{crawl_key, scope_key, topic};

    use super::*;

    const HOST: &str = include_str!("../../../schemas/examples/crawl-definition/1/host.json");

    fn record(key: &str, offset: Offset, value: Option<&str>) -> Delivered {
        Delivered {
            place: TopicPartition::new(topic::CONTROL, 0),
            offset,
            timestamp_ms: 0,
            key: Some(Bytes::copy_from_slice(key.as_bytes())),
            value: value.map(|value| Bytes::copy_from_slice(value.as_bytes())),
            headers: vec![],
        }
    }

    #[test]
    fn the_last_definition_counts_whatever_is_replayed() {
        let mut crawls = Crawls::default();
        let key = crawl_key("docs");
        assert!(crawls.apply(&record(&key, 7, Some(HOST))).unwrap());
        crawls.apply(&record(&key, 3, None)).unwrap();
        assert!(matches!(crawls.find("docs"), Found::Defined(..)), "an older record does not count");
        crawls.apply(&record(&key, 8, Some("{"))).unwrap();
        let Found::Unusable(reason) = crawls.find("docs") else { panic!("usable") };
        assert!(reason.starts_with("not a valid crawl-definition message"), "{reason}");
        crawls.apply(&record(&key, 9, None)).unwrap();
        assert!(matches!(crawls.find("docs"), Found::Unknown));
        assert!(!crawls.apply(&record("site/example.com", 10, Some("{}"))).unwrap(), "not ours");
    }

    #[test]
    fn entries_may_come_before_their_definition() {
        let mut crawls = Crawls::default();
        let entry = r#"{"crawl":"docs","entry":"example.org"}"#;
        crawls.apply(&record(&scope_key("docs", "example.org"), 1, Some(entry))).unwrap();
        assert!(matches!(crawls.find("docs"), Found::Unknown));
        crawls.apply(&record(&crawl_key("docs"), 2, Some(HOST))).unwrap();
        let Found::Defined(rules, entries) = crawls.find("docs") else { panic!("defined") };
        assert_eq!(rules.judge(entries, "https://example.org/", "example.org"), Ok(()));
    }

    #[test]
    fn each_crawl_has_the_policy_that_it_was_created_with() {
        let mut crawls = Crawls::default();
        let aggressive = HOST.replace("standard/1", "aggressive/1,no-strip-www");
        crawls.apply(&record(&crawl_key("docs"), 1, Some(HOST))).unwrap();
        crawls.apply(&record(&crawl_key("shop"), 2, Some(&aggressive))).unwrap();
        let mut key = |crawl: &str| {
            let url = orbweaver_url::parse("http://www.example.com/?b&utm_source=x&a").unwrap();
            let Found::Defined(rules, _) = crawls.find(crawl) else { panic!("not defined") };
            rules.policy.canonicalize(&url).into_string()
        };
        assert_eq!(key("docs"), "http://www.example.com/?b&utm_source=x&a");
        assert_eq!(key("shop"), "http://www.example.com/?a&b");
    }

    #[test]
    fn a_crawl_with_other_wide_domains_is_refused_with_both() {
        let wide = r#""standard/1", "wide_domains": ["example.edu"]"#;
        let definition = HOST.replace("\"standard/1\"", wide);
        let error = Crawls::default().apply(&record(&crawl_key("docs"), 1, Some(&definition))).unwrap_err();
        assert!(error.contains("the wide domains example.edu, and this pipeline has none"), "{error}");
        let mut crawls = Crawls::new(WideDomains::new(["example.edu"]).unwrap());
        crawls.apply(&record(&crawl_key("docs"), 1, Some(&definition))).unwrap();
        assert!(matches!(crawls.find("docs"), Found::Defined(..)));
        let error = crawls.apply(&record(&crawl_key("news"), 2, Some(HOST))).unwrap_err();
        assert!(error.contains("the wide domains none, and this pipeline has example.edu"), "{error}");
    }

    #[test]
    fn a_crawl_of_another_build_is_refused_with_what_differs() {
        let mut crawls = Crawls::default();
        let other = HOST.replace("standard/1", "standard/0");
        let error = crawls.apply(&record(&crawl_key("docs"), 1, Some(&other))).unwrap_err();
        assert!(
            error.contains("the canonical policy standard/0, and this is a build with standard/1, aggressive/1, raw/1"),
            "{error}"
        );
        let other = HOST.replace(SUFFIX_LIST_VERSION, "psl-1");
        assert!(crawls.apply(&record(&crawl_key("docs"), 2, Some(&other))).unwrap_err().contains("suffix list psl-1"));
        crawls.apply(&record(&crawl_key("docs"), 3, Some(HOST))).unwrap();
        assert_eq!(crawls.set_partitions(16), Ok(()));
        assert!(crawls.set_partitions(32).unwrap_err().contains("partitions of 16, and this is 32"));
    }
}
