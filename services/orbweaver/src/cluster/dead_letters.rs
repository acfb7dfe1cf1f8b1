//! `orbweaver dead-letters`: records that could not be processed, shown and given once more.

use std::time::Duration;

use base64::Engine as _;
use orbweaver_log::{Commit, Consumer, Delivered, Event, Log, LogError, Offset, Record, TopicPartition};
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

/// The group whose commit says what `--all` has replayed.
pub const REPLAY_GROUP: &str = "dead-letters-replay";
/// Records read at a time.
const WAIT: Duration = Duration::from_secs(5);
/// A value of which more is not shown.
const SHOWN_BYTES: usize = 2048;

/// A dead letter as it is shown.
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
/// When the log cannot be read, or a dead letter is not there or cannot be replayed.
pub fn run(args: &DeadLettersArgs) -> Result<(), Failure> {
    block_on(async {
        match &args.verb {
            DeadLettersVerb::List { limit, cluster } => {
                let log = connect(&cluster.brokers, &cluster.kafka).await?;
                let letters = list(&log, *limit).await.map_err(failed)?;
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

async fn list(log: &dyn Log, limit: usize) -> Result<Vec<Shown>, LogError> {
    let mut letters = vec![];
    for partition in 0..log.partitions(DEAD_LETTERS)? {
        let place = TopicPartition::new(DEAD_LETTERS, partition);
        let bounds = log.bounds(place).await?;
        let mut reader = log.reader(place, bounds.start).await?;
        let mut taken = 0;
        while reader.position() < bounds.end && taken < limit {
            for record in reader.read(WAIT).await? {
                taken += 1;
                letters.push((record.timestamp_ms, shown(&record)));
            }
        }
    }
    letters.sort_by_key(|(at, _)| *at);
    Ok(letters.into_iter().take(limit).map(|(_, letter)| letter).collect())
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

/// The record as it was before it became a dead letter, for the partition in which it stood.
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
        // A record to be appended carries static names; a command ends soon.
        headers: headers.map(|(name, value)| (&*Box::leak(name.into_boxed_str()), value)).collect(),
        timestamp_ms: record.timestamp_ms,
    })
}

async fn replay(log: &dyn Log, ids: &[(u32, Offset)]) -> Result<usize, Failure> {
    let mut records = vec![];
    // All are found before the first is appended, so that a wrong id replays nothing.
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

/// Replays what no earlier call did. The commit follows the append, so that a kill in between repeats some.
async fn replay_all(log: &dyn Log) -> Result<usize, Failure> {
    let mut ends = vec![];
    for partition in 0..log.partitions(DEAD_LETTERS).map_err(failed)? {
        let place = TopicPartition::new(DEAD_LETTERS, partition);
        let bounds = log.bounds(place).await.map_err(failed)?;
        let committed = log.committed(REPLAY_GROUP, &[place]).await.map_err(failed)?;
        let from = committed[0].as_ref().map_or(bounds.start, |commit| commit.offset).max(bounds.start);
        if from < bounds.end {
            ends.push((place, from, bounds.end));
        }
    }
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
