//! The topics of the pipeline, generated from `schemas/topics/*.yaml` by `build.rs`. Code that creates topics, declares
//! groups, deletes records or names schemas uses these descriptions.

use std::{collections::BTreeMap, sync::OnceLock};

/// Name of a topic, without the prefix that a cluster may add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Topic(pub &'static str);

impl std::fmt::Display for Topic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

include!(concat!(env!("OUT_DIR"), "/topics.rs"));

/// Cleanup of the records of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cleanup {
    /// The pipeline deletes records below the lowest commit point of all declared groups. Only a topic for users is
    /// also deleted by time or size, while no group is declared for it.
    Delete,
    /// The last record of each key is kept.
    Compact,
    /// All records are kept.
    Keep,
}

/// Message that a topic carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaRef {
    /// Name: the first part of the schema's file name.
    pub name: &'static str,
    pub version: u32,
    pub(crate) version_text: &'static str,
    /// Header that carries the message; `None`: the record's value.
    pub header: Option<&'static str>,
    /// Key prefix of the records that carry it; `None`: all records.
    pub key_prefix: Option<&'static str>,
}

/// Description of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicDescription {
    pub topic: Topic,
    /// Purpose, in one sentence.
    pub purpose: &'static str,
    /// Services that write the topic.
    pub producers: &'static [&'static str],
    /// Declared groups that consume the topic: completion waits for them, and they keep records from being deleted.
    pub consumers: &'static [&'static str],
    /// Groups that write results for users, where they run. In a single process they count as consumers; in a cluster,
    /// completion does not wait for them, and they keep records from being deleted while `crawl.control` declares them.
    pub collectors: &'static [&'static str],
    /// Whether the records are for users: user groups declared in `crawl.control` then keep them from being deleted.
    pub users: bool,
    /// Services that read the topic by explicit assignment, outside of any group, to restore or to tail.
    pub followers: &'static [&'static str],
    /// Meaning of the record key.
    pub key: &'static str,
    pub cleanup: Cleanup,
    /// Messages that its records carry.
    pub schemas: &'static [SchemaRef],
    /// Whether the topic is read back by one lease, [`LEASE_MS`](crate::LEASE_MS), although its records are complete:
    /// younger records must not be deleted.
    pub is_read_back: bool,
}

/// Returns all topics of the pipeline, in the order of the data flow.
#[must_use]
pub fn topics() -> &'static [TopicDescription] {
    &TOPICS
}

/// Returns the description of a topic; `None` if it is not one of the pipeline's.
#[must_use]
pub fn describe(topic: Topic) -> Option<&'static TopicDescription> {
    TOPICS.iter().find(|description| description.topic == topic)
}

/// Returns the topic of this name (without a cluster's prefix).
#[must_use]
pub fn named(name: &str) -> Option<Topic> {
    TOPICS.iter().map(|description| description.topic).find(|topic| topic.0 == name)
}

/// Returns the declared groups, each with the topics that it consumes.
#[must_use]
pub fn groups() -> &'static BTreeMap<&'static str, Vec<Topic>> {
    static GROUPS: OnceLock<BTreeMap<&'static str, Vec<Topic>>> = OnceLock::new();
    GROUPS.get_or_init(|| groups_of(|description| description.consumers))
}

/// Returns the groups that write results, each with the topics that it consumes.
#[must_use]
pub fn collectors() -> &'static BTreeMap<&'static str, Vec<Topic>> {
    static COLLECTORS: OnceLock<BTreeMap<&'static str, Vec<Topic>>> = OnceLock::new();
    COLLECTORS.get_or_init(|| groups_of(|description| description.collectors))
}

fn groups_of(named: impl Fn(&TopicDescription) -> &'static [&'static str]) -> BTreeMap<&'static str, Vec<Topic>> {
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
    fn the_groups_are_the_services_that_consume() {
        let names: Vec<&str> = groups().keys().copied().collect();
        assert_eq!(names, ["extractor", "fetcher", "frontier", "normalizer-dedup", "rate-limiter"]);
        assert_eq!(groups()["frontier"], [FRONTIER, OUTCOMES]);
        assert_eq!(groups()["rate-limiter"], [SCHEDULED, OUTCOMES]);
        assert_eq!(collectors()["exporter"], [OUTCOMES, DOCUMENTS, CHANGES]);
        assert_eq!(collectors()["archiver"], [PAGES]);
        assert_eq!(groups()["normalizer-dedup"], [SEEDS, DISCOVERED]);
    }

    #[test]
    fn what_is_restored_from_is_never_cleaned_up_by_commit_points() {
        let kept = |topic| describe(topic).map(|d| d.cleanup);
        assert_eq!(kept(FRONTIER), Some(Cleanup::Compact));
        assert_eq!(kept(SITES), Some(Cleanup::Compact));
        assert_eq!(kept(SITE_PAGES), Some(Cleanup::Compact));
        assert_eq!(kept(SIGNATURES), Some(Cleanup::Compact));
        assert_eq!(kept(CONTROL), Some(Cleanup::Compact));
        assert_eq!(kept(SEEN), Some(Cleanup::Keep));
        assert_eq!(kept(ARCHIVE), Some(Cleanup::Keep));
        for topic in [SCHEDULED, OUTCOMES] {
            assert!(describe(topic).is_some_and(|d| d.is_read_back), "{topic}");
        }
        assert_eq!(describe(Topic("crawl.unknown")), None);
        assert_eq!(named("crawl.unknown"), None);
    }
}
