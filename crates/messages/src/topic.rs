//! The topics of the pipeline, as `schemas/topics/*.yaml` describes them: what creates topics, declares groups or deletes
//! records reads it here.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

/// The name of a topic, without the prefix that a cluster may add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Topic(pub &'static str);

impl std::fmt::Display for Topic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// URLs that users want crawled.
pub const SEEDS: Topic = Topic("crawl.seeds");
/// Links found on one page that lead to one site.
pub const DISCOVERED: Topic = Topic("crawl.discovered");
/// URLs that wait.
pub const FRONTIER: Topic = Topic("crawl.frontier");
/// Fingerprints that were let through.
pub const SEEN: Topic = Topic("crawl.seen");
/// Dispatches.
pub const SCHEDULED: Topic = Topic("crawl.scheduled");
/// Dispatches with their moment.
pub const READY: Topic = Topic("crawl.ready");
/// How dispatches ended.
pub const OUTCOMES: Topic = Topic("crawl.outcomes");
/// Fetched pages.
pub const PAGES: Topic = Topic("crawl.pages");
/// What was extracted.
pub const DOCUMENTS: Topic = Topic("crawl.documents");
/// Politeness memory.
pub const SITES: Topic = Topic("crawl.sites");
/// Settings.
pub const CONTROL: Topic = Topic("crawl.control");
/// Records that could not be processed.
pub const DEAD_LETTERS: Topic = Topic("crawl.dead-letters");

/// Every topic with its description, in the order of the flow.
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

/// What becomes of the records of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cleanup {
    /// What lies below the lowest commit point of all declared groups is deleted by the pipeline; by time or size only what
    /// is for users, while no group is declared for it.
    Delete,
    /// The last record of each key is kept.
    Compact,
    /// All is kept.
    Keep,
}

/// How far a log is read back although its records are complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadBack {
    /// By one lease, [`LEASE_MS`](crate::LEASE_MS): a younger record may not be deleted.
    Lease,
}

/// How a message is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// JSON, as `schemas/NAME.vVERSION.schema.json` describes it.
    #[default]
    Json,
    /// Bytes, as the topic's notes describe them.
    Binary,
}

/// A message that a topic carries.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemaRef {
    /// Its name, the first part of the schema's file name.
    pub name: String,
    /// Its version.
    pub version: u32,
    /// The header that carries it; the record's value when absent.
    #[serde(default)]
    pub header: Option<String>,
    /// The records that carry it are those whose key begins so; all when absent.
    #[serde(default)]
    pub key_prefix: Option<String>,
    /// How it is written.
    #[serde(default)]
    pub encoding: Encoding,
}

/// A topic, as its file describes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicDescription {
    /// Its name.
    name: String,
    /// The topic.
    #[serde(skip, default = "unnamed")]
    pub topic: Topic,
    /// What it is for, in one sentence.
    pub purpose: String,
    /// The services that write it.
    pub producers: Vec<String>,
    /// The declared groups that consume it: they hold completion up, and keep records from being deleted.
    #[serde(default)]
    pub consumers: Vec<String>,
    /// The groups that write results out for users, where they run. In one process they count as consumers; in a cluster they
    /// do not hold completion up, and keep records from being deleted while `crawl.control` declares them.
    #[serde(default)]
    pub collectors: Vec<String>,
    /// Its records are for users: their groups that `crawl.control` declares keep them from being deleted.
    #[serde(default)]
    pub users: bool,
    /// The services that read it by explicit assignment, outside of any group, to restore or to follow.
    #[serde(default)]
    pub followers: Vec<String>,
    /// What the record key is.
    pub key: String,
    /// What becomes of its records.
    pub cleanup: Cleanup,
    /// What its records carry.
    pub schemas: Vec<SchemaRef>,
    /// How far it is read back although its records are complete.
    #[serde(default)]
    pub read_back: Option<ReadBack>,
    /// What else one has to know.
    #[serde(default)]
    pub notes: String,
}

fn unnamed() -> Topic {
    Topic("")
}

impl TopicDescription {
    /// Reads a description. `topic` is the constant that it has to describe.
    fn parse(topic: Topic, yaml: &str) -> Result<Self, String> {
        let mut description: Self = serde_norway::from_str(yaml).map_err(|error| format!("{topic}: {error}"))?;
        if description.name != topic.0 {
            return Err(format!("{topic}: its file describes `{}`", description.name));
        }
        description.topic = topic;
        Ok(description)
    }
}

/// All topics of the pipeline, in the order of the flow.
///
/// # Panics
/// Never: the descriptions are part of the program, and the tests read them all.
#[must_use]
#[allow(clippy::expect_used, reason = "the descriptions are constants, and the tests of this module parse every one")]
pub fn topics() -> &'static [TopicDescription] {
    static TOPICS: OnceLock<Vec<TopicDescription>> = OnceLock::new();
    TOPICS.get_or_init(|| {
        let parsed = DESCRIPTIONS.iter().map(|&(topic, yaml)| TopicDescription::parse(topic, yaml));
        parsed.collect::<Result<_, _>>().expect("schemas/topics describes every topic")
    })
}

/// The description of a topic; `None` when it is none of the pipeline's.
#[must_use]
pub fn describe(topic: Topic) -> Option<&'static TopicDescription> {
    topics().iter().find(|description| description.topic == topic)
}

/// The topic of this name (without a cluster's prefix).
#[must_use]
pub fn named(name: &str) -> Option<Topic> {
    DESCRIPTIONS.iter().map(|(topic, _)| *topic).find(|topic| topic.0 == name)
}

/// The declared groups, each with the topics that it consumes.
#[must_use]
pub fn groups() -> &'static BTreeMap<&'static str, Vec<Topic>> {
    static GROUPS: OnceLock<BTreeMap<&'static str, Vec<Topic>>> = OnceLock::new();
    GROUPS.get_or_init(|| groups_of(|description| &description.consumers))
}

/// The groups that write results out, each with the topics that it consumes.
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
