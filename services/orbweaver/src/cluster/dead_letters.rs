//! `orbweaver dead-letters`: shows and replays records that could not be processed.

mod replay;
mod replayed;

use std::time::Duration;

use base64::Engine as _;
use orbweaver_log::{Bounds, ConsumerRecord, Log, LogError, Offset, TopicPartition, topic_partitions};
use orbweaver_messages::{DeadLetter, topic::DEAD_LETTERS};
use orbweaver_stage::DEAD_LETTER_HEADER;
use serde::Serialize;

use self::{
    replay::{replay, replay_all},
    replayed::replayed,
};
use super::{args::DeadLettersVerb, connection::block_on};
use crate::{
    exit::{Failure, failed},
    export::rfc3339,
    output::{json_line, to_stdout},
};

/// Group whose commits record the replayed dead letters.
pub const REPLAY_GROUP: &str = "dead-letters-replay";
/// Timeout per read or poll.
const WAIT: Duration = Duration::from_secs(5);
/// Maximum length shown of a value, in characters of text, otherwise in bytes.
const SHOWN_BYTES: usize = 2048;

/// A dead letter as it is printed.
#[derive(Debug, Serialize)]
struct Shown {
    id: String,
    at: String,
    service: String,
    reason: String,
    topic: String,
    partition: u32,
    offset: Offset,
    key: Option<String>,
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
    value_bytes: usize,
}

/// Runs `orbweaver dead-letters`.
///
/// # Errors
/// Fails if the log cannot be read, or a dead letter does not exist or cannot be replayed.
pub fn run(verb: &DeadLettersVerb) -> Result<(), Failure> {
    block_on(async {
        match verb {
            DeadLettersVerb::List { limit, stuck, cluster } => {
                let log = cluster.connect().await?;
                let letters = list(&log, *limit, *stuck).await.map_err(failed)?;
                to_stdout(|out| letters.iter().try_for_each(|letter| json_line(out, letter)))?;
                if letters.len() == *limit {
                    notice!("only the oldest {limit} are shown; a higher --limit shows more, if there are any");
                }
                Ok(())
            }
            DeadLettersVerb::Replay { ids, all, cluster } => {
                let log = cluster.connect().await?;
                let replayed = if *all { replay_all(&log).await? } else { replay(&log, ids).await? };
                notice!("{replayed} records replayed");
                Ok(())
            }
        }
    })
}

/// Returns the oldest dead letters; with `stuck`, only URLs that ended as stuck.
async fn list(log: &dyn Log, limit: usize, stuck: bool) -> Result<Vec<Shown>, LogError> {
    let mut letters = vec![];
    for tp in topic_partitions(log, &[DEAD_LETTERS])? {
        let Bounds { start, end } = log.bounds(tp).await?;
        let most = letters.len() + limit;
        let take = |record: &ConsumerRecord| {
            if !stuck || is_stuck(record) {
                letters.push((record.timestamp_ms, shown(record)));
            }
            letters.len() < most
        };
        read((tp, start, end), log, take).await?;
    }
    letters.sort_by_key(|(at, _)| *at);
    Ok(letters.into_iter().take(limit).map(|(_, letter)| letter).collect())
}

/// Part of a topic-partition, from one offset to another.
type Span = (TopicPartition, Offset, Offset);

/// Passes the records of a span to `take` until it returns `false`.
async fn read(
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

/// Returns the dead letters that were not replayed, in ascending order; no span is empty.
pub async fn left(log: &dyn Log) -> Result<Vec<Span>, LogError> {
    let replayed = replayed(log, &topic_partitions(log, &[DEAD_LETTERS])?).await?;
    Ok(replayed.iter().flat_map(|(replayed, end)| replayed.left(*end)).collect())
}

/// Counts the URLs in these spans that ended as stuck. Reads all records of the spans.
pub async fn count_stuck(log: &dyn Log, spans: &[Span]) -> Result<u64, LogError> {
    let mut count = 0;
    for span in spans {
        let take = |record: &ConsumerRecord| {
            count += u64::from(is_stuck(record));
            true
        };
        read(*span, log, take).await?;
    }
    Ok(count)
}

fn is_stuck(record: &ConsumerRecord) -> bool {
    letter(record).is_ok_and(|letter| letter.is_stuck())
}

fn shown(record: &ConsumerRecord) -> Shown {
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

fn letter(record: &ConsumerRecord) -> Result<DeadLetter, String> {
    let header = record.header(DEAD_LETTER_HEADER).ok_or("the record has no header `dead-letter`")?;
    serde_json::from_slice(header).map_err(|error| format!("the header `dead-letter` cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use orbweaver_log::{Cleanup, MemoryLog, Record, TopicSpec};
    use orbweaver_messages::{STUCK, encode, topic};

    use super::*;

    pub(super) fn dead_letter(partition: u32, topic: &str, reason: String) -> Record {
        let letter = DeadLetter {
            service: "frontier".to_owned(),
            reason,
            topic: topic.to_owned(),
            partition,
            offset: 3,
            rejected_at_ms: 7,
        };
        Record {
            tp: TopicPartition::new(DEAD_LETTERS, partition),
            key: None,
            value: Some(Bytes::from_static(b"{}")),
            headers: vec![(DEAD_LETTER_HEADER, encode(&letter))],
            timestamp_ms: 7,
        }
    }

    #[tokio::test]
    async fn urls_that_ended_as_stuck_are_counted_and_listed_until_they_are_replayed() {
        let topics = [DEAD_LETTERS, topic::FRONTIER, topic::SEEDS];
        let log = MemoryLog::new(&topics.map(|topic| TopicSpec::new(topic, 2, Cleanup::Delete)));
        assert_eq!(left(&log).await.unwrap(), []);
        let (frontier, seeds) = (topic::FRONTIER.0, topic::SEEDS.0);
        let stuck = || format!("{STUCK}: 10 dispatches had no outcome, while later dispatches of other URLs had one");
        let letters = vec![
            dead_letter(0, seeds, "not a URL".to_owned()),
            dead_letter(0, frontier, stuck()),
            dead_letter(1, frontier, format!("{STUCK}y record")),
            dead_letter(1, seeds, stuck()),
            dead_letter(1, frontier, stuck()),
        ];
        log.append(letters).await.unwrap();
        let spans = left(&log).await.unwrap();
        assert_eq!(spans.iter().map(|(_, from, end)| end - from).sum::<Offset>(), 5);
        assert_eq!(count_stuck(&log, &spans).await.unwrap(), 2);
        let ids = |letters: Vec<Shown>| letters.into_iter().map(|letter| letter.id).collect::<Vec<_>>();
        assert_eq!(ids(list(&log, 100, true).await.unwrap()), ["0:1", "1:2"]);
        assert_eq!(ids(list(&log, 1, true).await.unwrap()), ["0:1"]);
        assert_eq!(list(&log, 3, false).await.unwrap().len(), 3);

        assert_eq!(replay_all(&log).await.unwrap(), 5);
        let spans = left(&log).await.unwrap();
        assert_eq!((spans.len(), count_stuck(&log, &spans).await.unwrap()), (0, 0));
    }
}
