//! Crawls in `crawl.control`: definitions and scope entries.

use std::collections::HashMap;

use orbweaver_log::ConsumerRecord;
use orbweaver_messages::{Pins, ScopeEntry, decode};
use orbweaver_scope::{Change, ControlRecord, Definitions, check_pins};
use orbweaver_url::{CrawlName, Policy, WideDomains};

use crate::scope::{Entries, Rules};

/// State of a crawl in addition to its definition.
#[derive(Debug)]
pub(crate) struct Crawl {
    policy: Policy,
    pub(crate) entries: Entries,
}

/// Result of looking up a crawl.
#[derive(Debug)]
pub(crate) enum CrawlLookup<'a> {
    /// Rules and scope entries of a defined crawl.
    Defined(Rules<'a>, &'a mut Entries),
    /// The definition is unusable and no usable one preceded it; contains the reason.
    Unusable(String),
    /// The crawl is not defined.
    Unknown,
}

/// Change made by a record of `crawl.control`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ControlChange {
    /// The applicable definition of a crawl.
    Definition,
    /// None: an unusable definition.
    Refused,
    /// No definition: a scope entry, a record that was applied before, or one without meaning for this service.
    Nothing,
}

#[derive(Debug, Default)]
pub(crate) struct Crawls {
    pub(crate) definitions: Definitions,
    crawls: HashMap<CrawlName, Crawl>,
    /// Number of partitions, known as soon as one is open. A partition opens after a refresh, which has read all
    /// definitions.
    partitions: Option<u32>,
    /// Wide domains of the pipeline.
    wide: WideDomains,
}

impl Crawls {
    /// Creates an empty set for a pipeline with these wide domains.
    pub(crate) fn new(wide: WideDomains) -> Self {
        Self { wide, ..Self::default() }
    }

    pub(crate) fn find(&mut self, name: &CrawlName) -> CrawlLookup<'_> {
        match (self.definitions.applied(name), self.crawls.get_mut(name)) {
            (Some(applied), Some(Crawl { policy, entries })) => {
                CrawlLookup::Defined(Rules { applied, policy: *policy, wide: &self.wide }, entries)
            }
            _ => match self.definitions.refused(name) {
                Some(refusal) => CrawlLookup::Unusable(refusal.to_string()),
                None => CrawlLookup::Unknown,
            },
        }
    }

    /// Marks a scope entry as durable.
    pub(crate) fn entry_is_durable(&mut self, crawl: &CrawlName, entry: &str) {
        entry_of(&mut self.crawls, crawl, &self.wide).entries.insert(entry, true);
    }

    /// Applies a record of `crawl.control`. The log may be replayed while it is tailed. An unusable definition is
    /// logged, and the previous one remains in force. Pins are compared only once a partition is open: until then the
    /// crawl may prove to be deleted.
    pub(crate) fn apply(&mut self, record: &ConsumerRecord) -> Result<ControlChange, String> {
        let (partition, offset) = (record.tp.partition, record.offset);
        let (key, value) = (record.key.as_deref(), record.value.as_ref());
        match self.definitions.apply(ControlRecord { partition, offset, key, value }) {
            Change::Applied(name, applied) => {
                if let Some(partitions) = self.partitions {
                    check(&applied.definition.name, &applied.definition.pins, partitions, &self.wide)?;
                }
                let policy = applied.definition.pins.canonical_policy.parse().unwrap_or_default();
                tracing::info!(crawl = %name, version = offset, "a definition applies");
                entry_of(&mut self.crawls, &applied.definition.name, &self.wide).policy = policy;
            }
            Change::Deleted(_) => {}
            Change::Conflict(crawl) => {
                tracing::warn!(
                    %crawl,
                    version = offset,
                    "definition skipped: it replaces a version that is not in force"
                );
            }
            Change::Refused { crawl, applies, reason } => {
                tracing::error!(crawl, version = offset, applies, %reason, "a definition cannot be used");
                return Ok(ControlChange::Refused);
            }
            Change::Known => return Ok(ControlChange::Nothing),
            Change::Foreign => {
                self.entry(record);
                return Ok(ControlChange::Nothing);
            }
        }
        Ok(ControlChange::Definition)
    }

    /// Applies a record that is not a definition: a scope entry, or a record of others.
    fn entry(&mut self, record: &ConsumerRecord) {
        let key = record.key.as_deref().and_then(|key| std::str::from_utf8(key).ok()).unwrap_or_default();
        let Some((name, entry)) = key.strip_prefix("scope/").and_then(|rest| rest.split_once('/')) else { return };
        let Some(value) = &record.value else {
            if let Some(crawl) = self.crawls.get_mut(name) {
                crawl.entries.remove(entry);
            }
            return;
        };
        match decode::<ScopeEntry>("scope-entry", Some(value)) {
            Ok(entry) => self.entry_is_durable(&entry.crawl, &entry.entry),
            Err(error) => tracing::error!(offset = record.offset, %error, "a scope entry cannot be used"),
        }
    }

    /// Sets the number of partitions of the pipeline and compares the pins of all crawls. Call it when all definitions
    /// have been read.
    pub(crate) fn set_partitions(&mut self, partitions: u32) -> Result<(), String> {
        self.partitions = Some(partitions);
        let mut pinned = self.definitions.all().map(|(name, applied)| (name, &applied.definition.pins));
        pinned.try_for_each(|(name, pins)| check(name, pins, partitions, &self.wide))
    }
}

fn entry_of<'a>(crawls: &'a mut HashMap<CrawlName, Crawl>, name: &CrawlName, wide: &WideDomains) -> &'a mut Crawl {
    let crawl = || Crawl { policy: Policy::default(), entries: Entries::new(wide.clone()) };
    crawls.entry(name.clone()).or_insert_with(crawl)
}

/// Checks the pins, which determine keys and partitions of records and must not change
/// (docs/protocol.md#one-partition).
fn check(crawl: &CrawlName, pins: &Pins, partitions: u32, wide: &WideDomains) -> Result<(), String> {
    check_pins(crawl, pins, partitions, wide)?;
    let pinned = &pins.canonical_policy;
    pinned.parse::<Policy>().map(drop).map_err(|error| {
        let presets = Policy::PRESETS.map(|policy| policy.to_string()).join(", ");
        format!(
            "the crawl `{crawl}` was created with the canonical policy {pinned}, and this is a build with {presets} \
             ({error}); use a build with {pinned}, or create the crawl again"
        )
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use orbweaver_log::{Offset, TopicPartition};
    use orbweaver_messages::{crawl_key, scope_key, topic};
    use orbweaver_url::SUFFIX_LIST_VERSION;

    use super::*;

    const HOST: &str = include_str!("../../../schemas/examples/crawl-definition/1/host.json");

    fn record(key: &str, offset: Offset, value: Option<&str>) -> ConsumerRecord {
        ConsumerRecord {
            tp: TopicPartition::new(topic::CONTROL, 0),
            offset,
            timestamp_ms: 0,
            key: Some(Bytes::copy_from_slice(key.as_bytes())),
            value: value.map(|value| Bytes::copy_from_slice(value.as_bytes())),
            headers: vec![],
        }
    }

    fn definition(crawl: &str, offset: Offset, value: &str) -> ConsumerRecord {
        record(&crawl_key(&crawl.parse().unwrap()), offset, Some(value))
    }

    fn version(crawls: &mut Crawls, crawl: &str) -> Option<Offset> {
        match crawls.find(&crawl.parse().unwrap()) {
            CrawlLookup::Defined(rules, _) => Some(rules.applied.version),
            _ => None,
        }
    }

    #[test]
    fn entries_may_come_before_their_definition() {
        let mut crawls = Crawls::default();
        let entry = r#"{"crawl":"docs","entry":"example.org"}"#;
        crawls.apply(&record(&scope_key(&"docs".parse().unwrap(), "example.org"), 1, Some(entry))).unwrap();
        assert!(matches!(crawls.find(&"docs".parse().unwrap()), CrawlLookup::Unknown));
        crawls.apply(&definition("docs", 2, HOST)).unwrap();
        let CrawlLookup::Defined(rules, entries) = crawls.find(&"docs".parse().unwrap()) else { panic!("not defined") };
        assert_eq!(rules.judge(entries, "https://example.org/", &"example.org".into()), Ok(()));
    }

    #[test]
    fn each_crawl_has_the_policy_that_it_was_created_with() {
        let mut crawls = Crawls::default();
        let aggressive = HOST.replace("standard/1", "aggressive/1,no-strip-www");
        crawls.apply(&definition("docs", 1, HOST)).unwrap();
        crawls.apply(&definition("shop", 2, &aggressive.replace("docs", "shop"))).unwrap();
        let mut key = |crawl: &str| {
            let url = orbweaver_url::parse("http://www.example.com/?b&utm_source=x&a").unwrap();
            let CrawlLookup::Defined(rules, _) = crawls.find(&crawl.parse().unwrap()) else { panic!("not defined") };
            rules.policy.canonical_text(&url).into_owned()
        };
        assert_eq!(key("docs"), "http://www.example.com/?b&utm_source=x&a");
        assert_eq!(key("shop"), "http://www.example.com/?a&b");
    }

    #[test]
    fn a_crawl_of_another_build_or_pipeline_is_refused_with_what_differs() {
        let edu = r#""standard/1", "wide_domains": ["example.edu"]"#;
        let policies = "policy standard/0, and this is a build with standard/1, aggressive/1, raw/1";
        for (wide, (pinned, other), expected) in [
            (&[][..], ("\"standard/1\"", edu), "the wide domains example.edu, and this pipeline has none"),
            (&["example.edu"], ("docs", "docs"), "the wide domains none, and this pipeline has example.edu"),
            (&[], ("standard/1", "standard/0"), policies),
            (&[], (SUFFIX_LIST_VERSION, "psl-1"), "suffix list psl-1"),
            (&[], ("\"partitions\": 16", "\"partitions\": 32"), "partitions of 32, and this is 16"),
        ] {
            let mut crawls = Crawls::new(WideDomains::new(wide).unwrap());
            crawls.set_partitions(16).unwrap();
            let other = HOST.replace(pinned, other);
            let error = crawls.apply(&definition("docs", 1, &other)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let mut crawls = Crawls::new(WideDomains::new(["example.edu"]).unwrap());
        crawls.set_partitions(16).unwrap();
        let same = HOST.replace("\"standard/1\"", edu);
        assert_eq!(crawls.apply(&definition("docs", 1, &same)), Ok(ControlChange::Definition));
    }

    #[test]
    fn pins_are_compared_when_all_definitions_were_read_and_for_each_later_one() {
        let read = |records: &[ConsumerRecord]| {
            let mut crawls = Crawls::default();
            for record in records {
                assert_eq!(crawls.apply(record), Ok(ControlChange::Definition));
            }
            let compared = crawls.set_partitions(16);
            (crawls, compared)
        };
        let others = [("\"partitions\": 16", "\"partitions\": 32"), (SUFFIX_LIST_VERSION, "psl-1")];
        for other in others.map(|(own, other)| HOST.replace(own, other)) {
            let created = definition("docs", 1, &other);
            assert!(read(std::slice::from_ref(&created)).1.is_err(), "not deleted");
            let (mut crawls, compared) = read(&[created, record("crawl/docs", 2, None), definition("docs", 3, HOST)]);
            assert_eq!((compared, version(&mut crawls, "docs")), (Ok(()), Some(3)));
            let news = other.replace("docs", "news");
            assert!(crawls.apply(&definition("news", 4, &news)).is_err(), "a later one");
        }
    }
}
