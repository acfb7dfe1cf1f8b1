//! Dead letters of a log: read, and as they are shown.

use std::time::Duration;

use base64::Engine as _;
use orbweaver_log::{Bounds, ConsumerRecord, Log, LogError, Offset, TopicPartition, topic_partitions};
use orbweaver_messages::{DeadLetter, Millis, topic::DEAD_LETTERS};
use orbweaver_stage::DEAD_LETTER_HEADER;
use serde::Serialize;

use crate::export::rfc3339;

/// Timeout per read.
const WAIT: Duration = Duration::from_secs(5);
/// Maximum length shown of a value, in characters of text, otherwise in bytes.
const SHOWN_BYTES: usize = 2048;

/// A dead letter as it is printed.
#[derive(Debug, Serialize)]
pub struct Shown {
    pub id: String,
    pub at: String,
    pub service: String,
    pub reason: String,
    pub topic: String,
    pub partition: u32,
    pub offset: Offset,
    pub key: Option<String>,
    pub value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<String>,
    pub value_bytes: usize,
}

/// Part of a topic-partition, from one offset to another.
pub type Span = (TopicPartition, Offset, Offset);

/// Passes the records of a span to `take` until it returns `false`.
pub async fn read(
    (tp, from, end): Span,
    log: &dyn Log,
    mut take: impl FnMut(&ConsumerRecord) -> bool,
) -> Result<(), LogError> {
    let mut reader = log.reader(tp, from).await?;
    while reader.position() < end {
        for record in reader.read(WAIT).await? {
            if record.offset >= end || !take(&record) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Ends of the partitions up to which dead letters were not yet shown; `None`: those of the log.
pub type Ends = Option<Vec<Offset>>;

/// Dead letters of a partition that may be shown next.
struct Left {
    start: Offset,
    end: Offset,
    /// The last ones, in ascending order, each with its time.
    last: Vec<(Millis, Offset, Shown)>,
}

/// Returns the newest dead letters before these ends, newest first, and the ends before the next ones, unless there are none.
pub async fn newest(log: &dyn Log, ends: Ends, limit: usize) -> Result<(Vec<Shown>, Ends), LogError> {
    let mut partitions = vec![];
    for tp in topic_partitions(log, &[DEAD_LETTERS])? {
        let Bounds { start, end } = log.bounds(tp).await?;
        let known = ends.as_ref().and_then(|ends| ends.get(tp.partition as usize)).copied();
        let end = known.unwrap_or(end).min(end);
        let mut last = vec![];
        let take = |record: &ConsumerRecord| {
            last.push((record.timestamp_ms, record.offset, shown(record)));
            true
        };
        read((tp, end.saturating_sub(limit as Offset).max(start), end), log, take).await?;
        partitions.push(Left { start, end, last });
    }
    let mut letters = vec![];
    while letters.len() < limit {
        let time = |left: &&mut Left| left.last.last().map(|(at, ..)| *at);
        let Some(newest) = partitions.iter_mut().filter(|left| !left.last.is_empty()).max_by_key(time) else { break };
        let Some((_, offset, letter)) = newest.last.pop() else { break };
        newest.end = offset;
        letters.push(letter);
    }
    let more = partitions.iter().any(|left| left.end > left.start);
    Ok((letters, more.then(|| partitions.iter().map(|left| left.end).collect())))
}

/// Returns a dead letter as it is shown.
pub fn shown(record: &ConsumerRecord) -> Shown {
    let id = format!("{}:{}", record.tp.partition, record.offset);
    let letter = letter(record).unwrap_or_else(|reason| DeadLetter {
        service: String::new(),
        reason,
        topic: String::new(),
        partition: 0,
        offset: 0,
        rejected_at_ms: record.timestamp_ms,
    });
    let bytes = record.value.as_deref();
    let text = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
    let base64 =
        |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(&bytes[..bytes.len().min(SHOWN_BYTES)]);
    Shown {
        id,
        at: rfc3339(letter.rejected_at_ms),
        service: letter.service,
        reason: letter.reason,
        topic: letter.topic,
        partition: letter.partition,
        offset: letter.offset,
        key: record.key.as_ref().map(|key| String::from_utf8_lossy(key).into_owned()),
        value: text.map(|text| text.chars().take(SHOWN_BYTES).collect()),
        value_base64: if text.is_none() { bytes.map(base64) } else { None },
        value_bytes: bytes.map_or(0, <[u8]>::len),
    }
}

/// Returns the description of a dead letter.
///
/// # Errors
/// Fails if its header is missing or invalid.
pub fn letter(record: &ConsumerRecord) -> Result<DeadLetter, String> {
    let header = record.header(DEAD_LETTER_HEADER).ok_or("the record has no header `dead-letter`")?;
    serde_json::from_slice(header).map_err(|error| format!("the header `dead-letter` cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use orbweaver_log::{Cleanup, MemoryLog, Record, TopicSpec};
    use proptest::prelude::*;

    use super::*;

    /// Returns the ids of all dead letters, read in pages.
    async fn paged(log: &MemoryLog, limit: usize) -> Vec<String> {
        let (mut ids, mut ends) = (vec![], None);
        loop {
            let (letters, next) = newest(log, ends, limit).await.unwrap();
            assert!(letters.len() <= limit);
            ids.extend(letters.into_iter().map(|letter| letter.id));
            match next {
                Some(next) => ends = Some(next),
                None => return ids,
            }
        }
    }

    proptest! {
        #[test]
        fn each_dead_letter_is_on_one_page_and_those_of_a_partition_newest_first(
            times in prop::collection::vec((0_u32..3, 0_i64..5), 0..30),
            limit in 1_usize..8,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async {
                let log = MemoryLog::new(&[TopicSpec::new(DEAD_LETTERS, 3, Cleanup::Delete)]);
                for (partition, time) in &times {
                    let tp = TopicPartition::new(DEAD_LETTERS, *partition);
                    log.append(vec![Record::new(tp, None, None, *time)]).await.unwrap();
                }
                let ids = paged(&log, limit).await;
                let mut expected = vec![];
                for tp in topic_partitions(&log, &[DEAD_LETTERS]).unwrap() {
                    let of = |ids: &[String]| -> Vec<_> {
                        let partition = format!("{}:", tp.partition);
                        ids.iter().filter(|id| id.starts_with(&partition)).cloned().collect()
                    };
                    let end = log.bounds(tp).await.unwrap().end;
                    let all: Vec<_> = (0..end).rev().map(|offset| format!("{}:{offset}", tp.partition)).collect();
                    assert_eq!(of(&ids), all);
                    expected.extend(all);
                }
                assert_eq!(ids.len(), expected.len());
            });
        }
    }

    #[tokio::test]
    async fn of_several_partitions_the_newest_come_first() {
        let log = MemoryLog::new(&[TopicSpec::new(DEAD_LETTERS, 2, Cleanup::Delete)]);
        for (partition, time) in [(0, 10), (1, 20), (0, 30), (1, 40)] {
            let record = Record::new(TopicPartition::new(DEAD_LETTERS, partition), None, None, time);
            log.append(vec![record]).await.unwrap();
        }
        assert_eq!(paged(&log, 3).await, ["1:1", "0:1", "1:0", "0:0"]);
    }
}
