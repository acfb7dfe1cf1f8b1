//! Settings of topics on the brokers.

use std::collections::BTreeMap;

use orbweaver_messages::{Topic, topic};

use super::limit::{MAX_MESSAGE_BYTES, max_message_bytes};
use crate::Cleanup;

/// Minimum age for compaction: a claim keeps its offset for longer than a failover takes (docs/protocol.md#claims).
const MIN_COMPACTION_LAG_MS: i64 = 10 * 60 * 1000;
/// Retention of tombstones: an index older than half of this is discarded (docs/protocol.md#proven-checkpoints).
const DELETE_RETENTION_MS: i64 = 24 * 3600 * 1000;
/// Segment size: only whole, closed segments are deleted or compacted, so a partition keeps up to this much extra data.
const SEGMENT_BYTES: usize = 32 << 20;
/// Age of a segment at which the next record begins a new one, in consumed topics whose records are deleted. In others,
/// partitions with little traffic would accumulate thousands of small files.
const SEGMENT_MS: i64 = 3600 * 1000;

/// Settings with which a topic is created.
pub(super) fn settings(topic: Topic, cleanup: Cleanup, record_limit: usize) -> Vec<(&'static str, String)> {
    let largest = max_message_bytes(topic, record_limit);
    let mut settings = vec![
        ("retention.ms", "-1".to_owned()),
        ("retention.bytes", "-1".to_owned()),
        ("message.timestamp.type", "CreateTime".to_owned()),
        (MAX_MESSAGE_BYTES, largest.to_string()),
        // A batch has room in one segment.
        ("segment.bytes", SEGMENT_BYTES.max(largest).to_string()),
    ];
    let is_consumed = || topic::topics().iter().any(|it| it.topic == topic && !it.consumers.is_empty());
    if cleanup == Cleanup::Delete && is_consumed() {
        settings.push(("segment.ms", SEGMENT_MS.to_string()));
    }
    match cleanup {
        Cleanup::Delete | Cleanup::Keep => settings.push(("cleanup.policy", "delete".to_owned())),
        Cleanup::Compact => settings.extend([
            ("cleanup.policy", "compact".to_owned()),
            ("min.compaction.lag.ms", MIN_COMPACTION_LAG_MS.to_string()),
            ("delete.retention.ms", DELETE_RETENTION_MS.to_string()),
        ]),
    }
    settings
}

/// A setting of an existing topic with a harmful value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) key: &'static str,
    pub(super) found: String,
    pub(super) wanted: String,
    pub(super) reason: &'static str,
}

/// Returns the settings of an existing topic that would lose records or refuse them. Pure.
pub(super) fn wrong_settings(topic: Topic, cleanup: Cleanup, found: &BTreeMap<String, String>) -> Vec<Wrong> {
    let mut wrong = vec![];
    // The maximum record size is checked separately.
    for (key, wanted) in settings(topic, cleanup, 0) {
        let value = found.get(key).cloned().unwrap_or_default();
        let (number, least): (Option<i64>, Option<i64>) = (value.parse().ok(), wanted.parse().ok());
        let at_least = number.is_some() && number >= least;
        let (well, reason) = match key {
            "cleanup.policy" => (value == wanted, "which does not keep the records that the pipeline needs"),
            "retention.ms" => (value == wanted, "so records may be deleted before they are consumed"),
            "retention.bytes" => (value == wanted, "so records may be deleted before they are consumed"),
            "message.timestamp.type" => (value == wanted, "but the pipeline needs the time of creation"),
            "min.compaction.lag.ms" => (at_least, "which is shorter than a failover may take"),
            "delete.retention.ms" => (at_least, "so tombstones may be deleted before every index has read them"),
            _ => (true, ""),
        };
        if !well {
            wrong.push(Wrong { key, found: value, wanted, reason });
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::topics::refuses;

    const LIMIT: usize = 16 << 20;

    #[test]
    fn settings_as_they_are_made_are_well_and_each_that_loses_records_is_told() {
        for cleanup in [Cleanup::Delete, Cleanup::Keep, Cleanup::Compact] {
            let good: BTreeMap<String, String> = settings(topic::FRONTIER, cleanup, LIMIT)
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect();
            assert_eq!(wrong_settings(topic::FRONTIER, cleanup, &good), []);
            assert_eq!(refuses(topic::FRONTIER, LIMIT, &good), None);
            for (key, value) in [("retention.ms", "604800000"), ("retention.bytes", "1")] {
                let mut bad = good.clone();
                bad.insert(key.to_owned(), value.to_owned());
                let wrong = wrong_settings(topic::FRONTIER, cleanup, &bad);
                assert_eq!((wrong.len(), wrong[0].key, &*wrong[0].found), (1, key, value));
            }
        }
        let absent = wrong_settings(topic::FRONTIER, Cleanup::Compact, &BTreeMap::new());
        assert_eq!(absent.len(), 6, "unreported settings are not assumed: {absent:?}");
    }

    #[test]
    fn a_segment_has_room_for_the_largest_record_and_is_closed_within_an_hour_where_worked_off_records_are_deleted() {
        let rolled: Vec<&str> = topic::topics()
            .iter()
            .filter(|description| {
                let made = |limit| BTreeMap::from_iter(settings(description.topic, description.cleanup, limit));
                assert_eq!(made(LIMIT)["segment.bytes"], (32 << 20).to_string());
                assert_eq!(made(64 << 20)["segment.bytes"], made(64 << 20)[MAX_MESSAGE_BYTES]);
                made(LIMIT).get("segment.ms").is_some_and(|ms| ms == "3600000")
            })
            .map(|description| description.topic.0)
            .collect();
        let consumed = ["seeds", "discovered", "scheduled", "ready", "outcomes", "pages"];
        assert_eq!(rolled, consumed.map(|topic| format!("crawl.{topic}")));
    }
}
