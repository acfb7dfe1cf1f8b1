//! `orbweaver dead-letters`: shows and replays records that could not be processed.

use std::time::Duration;

use base64::Engine as _;
use orbweaver_log::{Bounds, Commit, Consumer, Delivered, Event, Log, LogError, Offset, Record, TopicPartition};
use orbweaver_messages::{DeadLetter, topic, topic::DEAD_LETTERS};
use orbweaver_stage::{DEAD_LETTER_CUT_HEADER, DEAD_LETTER_HEADER};
use serde::Serialize;

use super::{
    args::{DeadLettersArgs, DeadLettersVerb},
    connection::{block_on, connect},
};
use crate::{
    exit::Failure,
    export::rfc3339,
    tools::{json_line, to_stdout},
};

/// Group whose commits record what `--all` has replayed.
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
pub fn run(args: &DeadLettersArgs) -> Result<(), Failure> {
    block_on(async {
        match &args.verb {
            DeadLettersVerb::List { limit, stuck, cluster } => {
                let log = connect(&cluster.brokers, &cluster.kafka).await?;
                let letters = list(&log, *limit, *stuck).await.map_err(failed)?;
                to_stdout(|out| letters.iter().try_for_each(|letter| json_line(out, letter)))
            }
            DeadLettersVerb::Replay { ids, all, cluster } => {
                let log = connect(&cluster.brokers, &cluster.kafka).await?;
                let replayed = if *all { replay_all(&log).await? } else { replay(&log, ids).await? };
                eprintln!("{replayed} records replayed");
                Ok(())
            }
        }
    })
}

/// Returns the oldest dead letters; with `stuck`, only URLs that ended as stuck.
async fn list(log: &dyn Log, limit: usize, stuck: bool) -> Result<Vec<Shown>, LogError> {
    let mut letters = vec![];
    for partition in 0..log.partitions(DEAD_LETTERS)? {
        let place = TopicPartition::new(DEAD_LETTERS, partition);
        let Bounds { start, end } = log.bounds(place).await?;
        let most = letters.len() + limit;
        let take = |record: &Delivered| {
            if !stuck || is_stuck(record) {
                letters.push((record.timestamp_ms, shown(record)));
            }
            letters.len() < most
        };
        read((place, start, end), log, take).await?;
    }
    letters.sort_by_key(|(at, _)| *at);
    Ok(letters.into_iter().take(limit).map(|(_, letter)| letter).collect())
}

/// Part of a topic-partition, from one offset to another.
type Span = (TopicPartition, Offset, Offset);

/// Passes the records of a span to `take` until it returns `false`.
async fn read(
    (place, from, end): Span,
    log: &dyn Log,
    mut take: impl FnMut(&Delivered) -> bool,
) -> Result<(), LogError> {
    let mut reader = log.reader(place, from).await?;
    while reader.position() < end {
        for record in reader.read(WAIT).await? {
            if record.offset >= end || !take(&record) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Returns the dead letters that `replay --all` has not replayed; no span is empty.
///
/// # Errors
/// Fails if the log cannot be read.
pub async fn left(log: &dyn Log) -> Result<Vec<Span>, LogError> {
    let places = (0..log.partitions(DEAD_LETTERS)?).map(|partition| TopicPartition::new(DEAD_LETTERS, partition));
    let places: Vec<_> = places.collect();
    let replayed = log.committed(REPLAY_GROUP, &places).await?;
    let bounds = log.all_bounds(&places).await?;
    let spans = places.into_iter().zip(bounds).zip(replayed).map(|((place, Bounds { start, end }), replayed)| {
        (place, replayed.map_or(start, |commit| commit.offset.max(start)), end)
    });
    Ok(spans.filter(|(_, from, end)| from < end).collect())
}

/// Counts the URLs in these spans that ended as stuck. Reads all records of the spans.
///
/// # Errors
/// Fails if the log cannot be read.
pub async fn count_stuck(log: &dyn Log, spans: &[Span]) -> Result<u64, LogError> {
    let mut count = 0;
    for span in spans {
        let take = |record: &Delivered| {
            count += u64::from(is_stuck(record));
            true
        };
        read(*span, log, take).await?;
    }
    Ok(count)
}

fn is_stuck(record: &Delivered) -> bool {
    letter(record).is_ok_and(|letter| letter.is_stuck())
}

fn shown(record: &Delivered) -> Shown {
    let id = format!("{}:{}", record.place.partition, record.offset);
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

fn letter(record: &Delivered) -> Result<DeadLetter, String> {
    let header = record.header(DEAD_LETTER_HEADER).ok_or("it has no header `dead-letter`")?;
    serde_json::from_slice(header).map_err(|error| format!("its header `dead-letter` cannot be read: {error}"))
}

/// Returns the record as it was before it became a dead letter, for its original partition.
fn original(record: Delivered) -> Result<Record, String> {
    let letter = letter(&record)?;
    let topic = topic::named(&letter.topic).ok_or_else(|| format!("there is no topic `{}`", letter.topic))?;
    if record.value.is_none() && letter.reason.contains("compacted away") {
        return Err("the record itself was compacted away".to_owned());
    }
    if record.header(DEAD_LETTER_CUT_HEADER).is_some() {
        return Err("the record was too large for the dead letters and is not whole".to_owned());
    }
    let headers = record.headers.into_iter().filter(|(name, _)| name != DEAD_LETTER_HEADER);
    Ok(Record {
        place: TopicPartition::new(topic, letter.partition),
        key: record.key,
        value: record.value,
        // Headers of a record to append have static names; leaking them is fine, since the command ends soon.
        headers: headers.map(|(name, value)| (&*Box::leak(name.into_boxed_str()), value)).collect(),
        timestamp_ms: record.timestamp_ms,
    })
}

async fn replay(log: &dyn Log, ids: &[(u32, Offset)]) -> Result<usize, Failure> {
    let mut records = vec![];
    // All are read before the first is appended, so that a wrong id replays nothing.
    for &(partition, offset) in ids {
        let wrong =
            |reason: &dyn std::fmt::Display| Failure::Usage(format!("dead letter {partition}:{offset}: {reason}"));
        if partition >= log.partitions(DEAD_LETTERS).map_err(failed)? {
            return Err(wrong(&"there is no such partition"));
        }
        let place = TopicPartition::new(DEAD_LETTERS, partition);
        let bounds = log.bounds(place).await.map_err(failed)?;
        if !(bounds.start..bounds.end).contains(&offset) {
            return Err(wrong(&format_args!("the partition holds {} to {}", bounds.start, bounds.end)));
        }
        let mut reader = log.reader(place, offset).await.map_err(failed)?;
        let found = reader.read(WAIT).await.map_err(failed)?.into_iter().next();
        let record = found.filter(|record| record.offset == offset).ok_or_else(|| wrong(&"it is not there"))?;
        records.push(original(record).map_err(|reason| wrong(&reason))?);
    }
    let count = records.len();
    log.append(records).await.map_err(failed)?;
    Ok(count)
}

/// Replays what no earlier call has replayed. The commit follows the append, so a crash in between repeats some
/// records.
async fn replay_all(log: &dyn Log) -> Result<usize, Failure> {
    let ends = left(log).await.map_err(failed)?;
    if ends.is_empty() {
        return Ok(0);
    }
    let mut consumer = log.consumer(REPLAY_GROUP, &[DEAD_LETTERS]).map_err(failed)?;
    let result = replay_to(log, &mut *consumer, &ends).await;
    consumer.close().await.map_err(failed)?;
    result.map_err(failed)
}

async fn replay_to(
    log: &dyn Log,
    consumer: &mut dyn Consumer,
    ends: &[(TopicPartition, Offset, Offset)],
) -> Result<usize, LogError> {
    let mut left: Vec<TopicPartition> = ends.iter().map(|(place, ..)| *place).collect();
    let mut count = 0;
    let end_of = |place| ends.iter().find(|(known, ..)| *known == place).map(|(_, from, end)| (*from, *end));
    while !left.is_empty() {
        let Some(event) = consumer.poll(WAIT).await? else { continue };
        match event {
            Event::Assigned(places) => {
                for place in places {
                    if let Some((from, _)) = end_of(place) {
                        consumer.start(place, from)?;
                    }
                }
            }
            Event::Records(records) => {
                let mut next = std::collections::BTreeMap::new();
                let mut originals = vec![];
                for record in records {
                    let (place, offset) = (record.place, record.offset);
                    if end_of(place).is_none_or(|(_, end)| offset >= end) {
                        continue;
                    }
                    match original(record) {
                        Ok(record) => originals.push(record),
                        Err(reason) => eprintln!("left out {}:{offset}: {reason}", place.partition),
                    }
                    next.insert(place, offset + 1);
                }
                count += originals.len();
                match log.append(originals).await {
                    Err(LogError::Refused(refused)) => {
                        count -= refused.refusals.len();
                        eprintln!("left out: {refused}");
                    }
                    appended => drop(appended?),
                }
                left.retain(|place| {
                    next.get(place).is_none_or(|next| Some(*next) < end_of(*place).map(|(_, end)| end))
                });
                let commit = |(place, offset)| (place, Commit { offset, metadata: String::new() });
                consumer.commit(next.into_iter().map(commit).collect()).await?;
            }
            Event::Revoked(places) => {
                consumer.hand_back(&places)?;
                return Err(LogError::Fatal("another `dead-letters replay` runs".to_owned()));
            }
            Event::Lost(_) => return Err(LogError::Fatal("the group's session ended".to_owned())),
        }
    }
    Ok(count)
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use orbweaver_log::{Cleanup, MemoryLog, TopicSpec};
    use orbweaver_messages::{STUCK, encode};

    use super::*;

    fn dead_letter(partition: u32, topic: &str, reason: String) -> Record {
        let letter = DeadLetter {
            service: "frontier".to_owned(),
            reason,
            topic: topic.to_owned(),
            partition,
            offset: 3,
            rejected_at_ms: 7,
        };
        Record {
            place: TopicPartition::new(DEAD_LETTERS, partition),
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
        let stuck = || format!("{STUCK}: 10 dispatches had no outcome, while later ones of other URLs had");
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
