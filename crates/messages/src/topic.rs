//! The topics of the pipeline, as described by `schemas/topics/*.yaml`. Code that creates topics, declares groups or
//! deletes records uses these descriptions.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

/// Name of a topic, without the prefix that a cluster may add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Topic(pub &'static str);

impl std::fmt::Display for Topic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// URLs that users want crawled.
pub const SEEDS: Topic = Topic("crawl.seeds");
/// Links from one page to one site.
pub const DISCOVERED: Topic = Topic("crawl.discovered");
/// Queued URLs.
pub const FRONTIER: Topic = Topic("crawl.frontier");
/// Fingerprints of admitted URLs.
pub const SEEN: Topic = Topic("crawl.seen");
/// Dispatches.
pub const SCHEDULED: Topic = Topic("crawl.scheduled");
/// Dispatches with their scheduled times.
pub const READY: Topic = Topic("crawl.ready");
/// Results of dispatches.
pub const OUTCOMES: Topic = Topic("crawl.outcomes");
/// Fetched pages.
pub const PAGES: Topic = Topic("crawl.pages");
/// Content extracted from pages.
pub const DOCUMENTS: Topic = Topic("crawl.documents");
/// Politeness state of sites.
pub const SITES: Topic = Topic("crawl.sites");
/// Settings.
pub const CONTROL: Topic = Topic("crawl.control");
/// Records that could not be processed.
pub const DEAD_LETTERS: Topic = Topic("crawl.dead-letters");

/// Topics with their descriptions, in the order of the data flow.
const DESCRIPTIONS: [(Topic, &str); 12] = [
    (SEEDS, include_str!("../../../schemas/topics/crawl.seeds.yaml")),
    (DISCOVERED, include_str!("../../../schemas/topics/crawl.discovered.yaml")),
    (FRONTIER, include_str!("../../../schemas/topics/crawl.frontier.yaml")),
    (SEEN, include_str!("../../../schemas/topics/crawl.seen.yaml")),
    (SCHEDULED, include_str!("../../../schemas/topics/crawl.scheduled.yaml")),
    (READY, include_str!("../../../schemas/topics/crawl.ready.yaml")),
    (OUTCOMES, include_str!("../../../schemas/topics/crawl.outcomes.yaml")),
    (PAGES, include_str!("../../../schemas/topics/crawl.pages.yaml")),
    (DOCUMENTS, include_str!("../../../schemas/topics/crawl.documents.yaml")),
    (SITES, include_str!("../../../schemas/topics/crawl.sites.yaml")),
    (CONTROL, include_str!("../../../schemas/topics/crawl.control.yaml")),
    (DEAD_LETTERS, include_str!("../../../schemas/topics/crawl.dead-letters.yaml")),
];

/// Cleanup of the records of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cleanup {
    /// The pipeline deletes records below the lowest commit point of all declared groups. Only a topic for users is
    /// also deleted by time or size, while no group is declared for it.
    Delete,
    /// The last record of each key is kept.
    Compact,
    /// All records are kept.
    Keep,
}

/// Distance by which a log is read back although its records are complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadBack {
    /// One lease, [`LEASE_MS`](crate::LEASE_MS): younger records must not be deleted.
    Lease,
}

/// Encoding of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// JSON, described by `schemas/NAME.vVERSION.schema.json`.
    #[default]
    Json,
    /// Binary, described by the topic's notes.
    Binary,
}

/// Message that a topic carries.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemaRef {
    /// Name: the first part of the schema's file name.
    pub name: String,
    pub version: u32,
    /// Header that carries the message; absent: the record's value.
    #[serde(default)]
    pub header: Option<String>,
    /// Key prefix of the records that carry it; absent: all records.
    #[serde(default)]
    pub key_prefix: Option<String>,
    #[serde(default)]
    pub encoding: Encoding,
}

/// Description of a topic, read from its file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicDescription {
    /// Name in the file.
    name: String,
    #[serde(skip, default = "unnamed")]
    pub topic: Topic,
    /// Purpose, in one sentence.
    pub purpose: String,
    /// Services that write the topic.
    pub producers: Vec<String>,
    /// Declared groups that consume the topic: completion waits for them, and they keep records from being deleted.
    #[serde(default)]
    pub consumers: Vec<String>,
    /// Groups that write results for users, where they run. In a single process they count as consumers; in a cluster,
    /// completion does not wait for them, and they keep records from being deleted while `crawl.control` declares them.
    #[serde(default)]
    pub collectors: Vec<String>,
    /// Whether the records are for users: user groups declared in `crawl.control` then keep them from being deleted.
    #[serde(default)]
    pub users: bool,
    /// Services that read the topic by explicit assignment, outside of any group, to restore or to tail.
    #[serde(default)]
    pub followers: Vec<String>,
    /// Meaning of the record key.
    pub key: String,
    /// Cleanup of its records.
    pub cleanup: Cleanup,
    /// Messages that its records carry.
    pub schemas: Vec<SchemaRef>,
    /// Distance by which the topic is read back although its records are complete.
    #[serde(default)]
    pub read_back: Option<ReadBack>,
    /// Further notes.
    #[serde(default)]
    pub notes: String,
}

fn unnamed() -> Topic {
    Topic("")
}

impl TopicDescription {
    fn parse(topic: Topic, yaml: &str) -> Result<Self, String> {
        let mut description: Self = serde_norway::from_str(yaml).map_err(|error| format!("{topic}: {error}"))?;
        if description.name != topic.0 {
            return Err(format!("{topic}: its file describes `{}`", description.name));
        }
        description.topic = topic;
        Ok(description)
    }
}

/// Returns all topics of the pipeline, in the order of the data flow.
///
/// # Panics
/// Never: the descriptions are compiled in, and the tests parse each of them.
#[must_use]
#[allow(clippy::expect_used, reason = "the descriptions are constants, and the tests of this module parse every one")]
pub fn topics() -> &'static [TopicDescription] {
    static TOPICS: OnceLock<Vec<TopicDescription>> = OnceLock::new();
    TOPICS.get_or_init(|| {
        let parsed = DESCRIPTIONS.iter().map(|&(topic, yaml)| TopicDescription::parse(topic, yaml));
        parsed.collect::<Result<_, _>>().expect("schemas/topics describes every topic")
    })
}

/// Returns the description of a topic; `None` if it is not one of the pipeline's.
#[must_use]
pub fn describe(topic: Topic) -> Option<&'static TopicDescription> {
    topics().iter().find(|description| description.topic == topic)
}

/// Returns the topic of this name (without a cluster's prefix).
#[must_use]
pub fn named(name: &str) -> Option<Topic> {
    DESCRIPTIONS.iter().map(|(topic, _)| *topic).find(|topic| topic.0 == name)
}

/// Returns the declared groups, each with the topics that it consumes.
#[must_use]
pub fn groups() -> &'static BTreeMap<&'static str, Vec<Topic>> {
    static GROUPS: OnceLock<BTreeMap<&'static str, Vec<Topic>>> = OnceLock::new();
    GROUPS.get_or_init(|| groups_of(|description| &description.consumers))
}

/// Returns the groups that write results, each with the topics that it consumes.
#[must_use]
pub fn collectors() -> &'static BTreeMap<&'static str, Vec<Topic>> {
    static COLLECTORS: OnceLock<BTreeMap<&'static str, Vec<Topic>>> = OnceLock::new();
    COLLECTORS.get_or_init(|| groups_of(|description| &description.collectors))
}

fn groups_of(named: impl Fn(&TopicDescription) -> &[String]) -> BTreeMap<&'static str, Vec<Topic>> {
    let mut groups: BTreeMap<&'static str, Vec<Topic>> = BTreeMap::new();
    for description in topics() {
        for group in named(description) {
            groups.entry(group).or_default().push(description.topic);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_description_can_be_read() {
        for (topic, yaml) in DESCRIPTIONS {
            assert_eq!(TopicDescription::parse(topic, yaml).map(|d| d.topic), Ok(topic));
        }
        assert_eq!(topics().len(), DESCRIPTIONS.len());
    }

    #[test]
    fn a_description_of_another_topic_is_refused() {
        let error = TopicDescription::parse(SEEDS, DESCRIPTIONS[1].1).unwrap_err();
        assert_eq!(error, "crawl.seeds: its file describes `crawl.discovered`");
    }

    #[test]
    fn an_unknown_field_of_a_description_is_refused() {
        let yaml = format!("{}\nretention: 7d\n", DESCRIPTIONS[0].1);
        let error = TopicDescription::parse(SEEDS, &yaml).unwrap_err();
        assert!(error.contains("retention"), "{error}");
    }

    #[test]
    fn the_groups_are_the_services_that_consume() {
        let names: Vec<&str> = groups().keys().copied().collect();
        assert_eq!(names, ["extractor", "fetcher", "frontier", "normalizer-dedup", "rate-limiter"]);
        assert_eq!(groups()["frontier"], [FRONTIER, OUTCOMES]);
        assert_eq!(groups()["rate-limiter"], [SCHEDULED, OUTCOMES]);
        assert_eq!(collectors()["exporter"], [OUTCOMES, DOCUMENTS]);
        assert_eq!(groups()["normalizer-dedup"], [SEEDS, DISCOVERED]);
    }

    #[test]
    fn what_is_restored_from_is_never_cleaned_up_by_commit_points() {
        let kept = |topic| describe(topic).map(|d| d.cleanup);
        assert_eq!(kept(FRONTIER), Some(Cleanup::Compact));
        assert_eq!(kept(SITES), Some(Cleanup::Compact));
        assert_eq!(kept(CONTROL), Some(Cleanup::Compact));
        assert_eq!(kept(SEEN), Some(Cleanup::Keep));
        for topic in [SCHEDULED, OUTCOMES] {
            assert_eq!(describe(topic).and_then(|d| d.read_back), Some(ReadBack::Lease), "{topic}");
        }
        assert_eq!(describe(Topic("crawl.unknown")), None);
        assert_eq!(named("crawl.unknown"), None);
    }
}
