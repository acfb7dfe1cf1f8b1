//! `orbweaver dead-letters`: shows and replays records that could not be processed.

use std::{collections::BTreeSet, time::Duration};

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

/// Group whose commits record the replayed dead letters.
pub const REPLAY_GROUP: &str = "dead-letters-replay";
/// Timeout per read or poll.
const WAIT: Duration = Duration::from_secs(5);
/// Maximum number of polls for an assignment: together longer than the session of a command that was killed.
const POLLS: usize = 12;
/// Maximum size of the metadata of a commit, in bytes: the brokers' default.
const METADATA_BYTES: usize = 4096;
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

/// Returns the dead letters that were not replayed, in ascending order; no span is empty.
///
/// # Errors
/// Fails if the log cannot be read.
pub async fn left(log: &dyn Log) -> Result<Vec<Span>, LogError> {
    let places = (0..log.partitions(DEAD_LETTERS)?).map(|partition| TopicPartition::new(DEAD_LETTERS, partition));
    let places: Vec<_> = places.collect();
    let replayed = replayed(log, &places).await?;
    Ok(replayed.iter().flat_map(|(replayed, end)| replayed.left(*end)).collect())
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

/// Dead letters of a partition that were replayed, as stored in the commit of [`REPLAY_GROUP`].
#[derive(Debug)]
struct Replayed {
    place: TopicPartition,
    /// Lowest offset that was not replayed: the commit point.
    next: Offset,
    /// Replayed ranges above `next`, each with its end excluded; ascending, and with gaps between them.
    above: Vec<(Offset, Offset)>,
}

impl Replayed {
    /// Parses a commit. A foreign text in its metadata counts as empty.
    fn read(place: TopicPartition, commit: Option<Commit>, start: Offset) -> Self {
        let Commit { offset, metadata } = commit.unwrap_or_default();
        let mut replayed = Self { place, next: offset.max(start), above: vec![] };
        replayed.add(metadata.split(',').filter_map(range));
        replayed
    }

    /// Adds ranges; the commit point moves over those that adjoin it.
    fn add(&mut self, ranges: impl IntoIterator<Item = (Offset, Offset)>) {
        let mut all = std::mem::take(&mut self.above);
        all.extend(ranges);
        all.sort_unstable();
        for (from, end) in all {
            if from <= self.next {
                self.next = self.next.max(end);
            } else if let Some((_, last)) = self.above.last_mut().filter(|(_, last)| from <= *last) {
                *last = end.max(*last);
            } else {
                self.above.push((from, end));
            }
        }
    }

    /// Returns the spans below `end` that were not replayed; none is empty.
    fn left(&self, end: Offset) -> Vec<Span> {
        let begins = std::iter::once(self.next).chain(self.above.iter().map(|(_, end)| *end));
        let ends = self.above.iter().map(|(from, _)| (*from).min(end)).chain([end]);
        begins.zip(ends).filter(|(from, end)| from < end).map(|(from, end)| (self.place, from, end)).collect()
    }

    /// Returns the commit, and the number of replayed dead letters for which its metadata has no room.
    fn commit(&self) -> (Commit, u64) {
        let (mut metadata, mut missing) = (String::new(), 0);
        for (from, end) in &self.above {
            let comma = if metadata.is_empty() { "" } else { "," };
            let range = format!("{comma}{from}-{end}");
            if metadata.len() + range.len() > METADATA_BYTES {
                missing += end - from;
            } else {
                metadata.push_str(&range);
            }
        }
        (Commit { offset: self.next, metadata }, missing)
    }
}

/// Parses a range of replayed dead letters, `FROM-END`.
fn range(text: &str) -> Option<(Offset, Offset)> {
    let (from, end) = text.split_once('-')?;
    let (from, end): (Offset, Offset) = (from.parse().ok()?, end.parse().ok()?);
    (from < end).then_some((from, end))
}

/// Returns the replayed dead letters of these partitions, each with the log end.
async fn replayed(log: &dyn Log, places: &[TopicPartition]) -> Result<Vec<(Replayed, Offset)>, LogError> {
    let commits = log.committed(REPLAY_GROUP, places).await?;
    let bounds = log.all_bounds(places).await?;
    let standings = places.iter().zip(commits).zip(bounds);
    Ok(standings.map(|((place, commit), at)| (Replayed::read(*place, commit, at.start), at.end)).collect())
}

/// Polls the consumer, which is a member only and delivers no records. Returns the partitions assigned to it.
async fn poll(consumer: &mut dyn Consumer, wait: Duration) -> Result<Vec<TopicPartition>, LogError> {
    match consumer.poll(wait).await? {
        Some(Event::Assigned(places)) => Ok(places),
        Some(Event::Revoked(places)) => {
            consumer.hand_back(&places)?;
            Err(LogError::Fatal("another `dead-letters replay` runs".to_owned()))
        }
        Some(Event::Lost(_)) => Err(LogError::Fatal("the group's session ended".to_owned())),
        Some(Event::Records(_)) | None => Ok(vec![]),
    }
}

/// Waits until the partitions of these spans are assigned, so that no other command replays from them.
async fn assigned(consumer: &mut dyn Consumer, spans: &[Span]) -> Result<(), LogError> {
    let mut missing: BTreeSet<TopicPartition> = spans.iter().map(|(place, ..)| *place).collect();
    for _ in 0..=POLLS {
        if missing.is_empty() {
            return Ok(());
        }
        for place in poll(consumer, WAIT).await? {
            missing.remove(&place);
        }
    }
    Err(LogError::Unavailable(format!("{} partitions were not assigned; do others replay?", missing.len())))
}

/// Commits that these dead letters were replayed.
async fn commit(log: &dyn Log, consumer: &mut dyn Consumer, spans: &[Span]) -> Result<(), LogError> {
    let places = Vec::from_iter(spans.iter().map(|(place, ..)| *place).collect::<BTreeSet<TopicPartition>>());
    let mut commits = vec![];
    for (mut replayed, _) in replayed(log, &places).await? {
        let place = replayed.place;
        replayed.add(spans.iter().filter(|(of, ..)| *of == place).map(|(_, from, end)| (*from, *end)));
        let (commit, missing) = replayed.commit();
        if missing > 0 {
            eprintln!("{place}: a commit has no room for {missing} of the replayed IDs: `--all` replays them again");
        }
        commits.push((place, commit));
    }
    consumer.commit(commits).await
}

async fn replay(log: &dyn Log, ids: &[(u32, Offset)]) -> Result<usize, Failure> {
    let (mut spans, mut records) = (vec![], vec![]);
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
        spans.push((place, offset, offset + 1));
    }
    let mut consumer = log.consumer(REPLAY_GROUP, &[DEAD_LETTERS]).map_err(failed)?;
    let result = replay_records(log, &mut *consumer, spans, records).await;
    consumer.close().await.map_err(failed)?;
    result.map_err(failed)
}

/// Appends the original records of dead letters, each of which has a span, and then commits.
async fn replay_records(
    log: &dyn Log,
    consumer: &mut dyn Consumer,
    mut spans: Vec<Span>,
    records: Vec<Record>,
) -> Result<usize, LogError> {
    assigned(consumer, &spans).await?;
    let mut result = Ok(records.len());
    match log.append(records).await {
        Err(LogError::Refused(refused)) => {
            let mut offsets = refused.offsets.iter();
            spans.retain(|_| offsets.next().is_some_and(Option::is_some));
            result = Err(LogError::Refused(refused));
        }
        appended => drop(appended?),
    }
    commit(log, consumer, &spans).await?;
    result
}

/// Replays all that are left. Each commit follows its append, so a crash in between repeats some records.
async fn replay_all(log: &dyn Log) -> Result<usize, Failure> {
    let spans = left(log).await.map_err(failed)?;
    if spans.is_empty() {
        return Ok(0);
    }
    let mut consumer = log.consumer(REPLAY_GROUP, &[DEAD_LETTERS]).map_err(failed)?;
    let result = replay_spans(log, &mut *consumer, &spans).await;
    consumer.close().await.map_err(failed)?;
    result.map_err(failed)
}

async fn replay_spans(log: &dyn Log, consumer: &mut dyn Consumer, spans: &[Span]) -> Result<usize, LogError> {
    assigned(consumer, spans).await?;
    let mut count = 0;
    // Again, since another command may have replayed some before the assignment.
    let here = |(place, ..): &Span| spans.iter().any(|(of, ..)| of == place);
    for (place, from, end) in left(log).await?.into_iter().filter(here) {
        let mut reader = log.reader(place, from).await?;
        while reader.position() < end {
            poll(consumer, Duration::ZERO).await?;
            let (begin, mut originals) = (reader.position(), vec![]);
            for record in reader.read(WAIT).await?.into_iter().filter(|record| record.offset < end) {
                let offset = record.offset;
                match original(record) {
                    Ok(record) => originals.push(record),
                    Err(reason) => eprintln!("left out {}:{offset}: {reason}", place.partition),
                }
            }
            count += originals.len();
            match log.append(originals).await {
                Err(LogError::Refused(refused)) => {
                    count -= refused.refusals.len();
                    eprintln!("left out: {refused}");
                }
                appended => drop(appended?),
            }
            commit(log, consumer, &[(place, begin, reader.position().min(end))]).await?;
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

    #[tokio::test]
    async fn a_dead_letter_that_was_replayed_by_its_id_is_left_no_more_and_all_does_not_replay_it_again() {
        let log =
            MemoryLog::new(&[DEAD_LETTERS, topic::FRONTIER].map(|topic| TopicSpec::new(topic, 2, Cleanup::Delete)));
        let letter = |(n, reason): (u8, &str)| {
            let letter = dead_letter(u32::from(n / 6), topic::FRONTIER.0, reason.to_owned());
            Record { value: Some(Bytes::from(n.to_string())), ..letter }
        };
        let stuck = format!("{STUCK}: lost");
        log.append((0..).zip(["a", "a", &*stuck, "a", "a", "a", "a"]).map(letter).collect()).await.unwrap();
        let places = [0, 1].map(|partition| TopicPartition::new(DEAD_LETTERS, partition));
        assert_eq!(replay(&log, &[(0, 3), (1, 0), (0, 1), (0, 5)]).await.unwrap(), 4);
        let spans = left(&log).await.unwrap();
        assert_eq!(spans, [(0, 1), (2, 3), (4, 5)].map(|(from, end)| (places[0], from, end)));
        assert_eq!(count_stuck(&log, &spans).await.unwrap(), 1);
        assert_eq!(replay(&log, &[(0, 2)]).await.unwrap(), 1);
        assert_eq!(count_stuck(&log, &left(&log).await.unwrap()).await.unwrap(), 0);
        let stored = log.committed(REPLAY_GROUP, &places).await.unwrap().into_iter().flatten();
        let stored: Vec<_> = stored.map(|commit| (commit.offset, commit.metadata)).collect();
        assert_eq!(stored, [(0, "1-4,5-6".to_owned()), (1, String::new())]);

        assert_eq!((replay_all(&log).await.unwrap(), replay_all(&log).await.unwrap()), (2, 0));
        let again = [0, 1].map(|partition| log.records(TopicPartition::new(topic::FRONTIER, partition)));
        let mut again: Vec<_> = again.into_iter().flatten().filter_map(|record| record.value).collect();
        again.sort_unstable();
        assert_eq!(again, ["0", "1", "2", "3", "4", "5", "6"], "each once");
    }

    #[test]
    fn what_the_metadata_of_a_commit_has_no_room_for_is_counted_and_not_stored() {
        let read = |commit| Replayed::read(TopicPartition::new(DEAD_LETTERS, 0), Some(commit), 7);
        let mut replayed = read(Commit { offset: 3, metadata: "moved by hand,20-9".to_owned() });
        replayed.add((0..2000).map(|n| (1000 + 2 * n, 1001 + 2 * n)));
        let (commit, missing) = replayed.commit();
        assert!(commit.offset == 7 && (METADATA_BYTES - 10..=METADATA_BYTES).contains(&commit.metadata.len()));
        let stored = read(commit);
        assert_eq!((stored.next, stored.above.len() as u64 + missing), (7, 2000));
        assert!(replayed.above.starts_with(&stored.above));
    }
}
