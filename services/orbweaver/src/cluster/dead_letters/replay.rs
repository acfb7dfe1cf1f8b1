//! Replay of dead letters: appends their records again, and then records that they were replayed.

use std::{collections::BTreeSet, time::Duration};

use orbweaver_log::{Consumer, ConsumerRecord, Event, Log, LogError, Offset, Record, TopicPartition};
use orbweaver_messages::topic::{self, DEAD_LETTERS};
use orbweaver_stage::{DEAD_LETTER_CUT_HEADER, DEAD_LETTER_HEADER};

use super::{REPLAY_GROUP, Span, WAIT, failed, left, letter, replayed};
use crate::exit::Failure;

/// Maximum number of polls for an assignment: together longer than the session of a command that was killed.
const POLLS: usize = 12;

/// Returns the record as it was before it became a dead letter, for its original partition.
fn original(record: ConsumerRecord) -> Result<Record, String> {
    let letter = letter(&record)?;
    let topic = topic::named(&letter.topic).ok_or_else(|| format!("there is no topic `{}`", letter.topic))?;
    if record.value.is_none() && letter.reason.contains("compacted away") {
        return Err("the record itself was compacted away".to_owned());
    }
    if record.header(DEAD_LETTER_CUT_HEADER).is_some() {
        return Err("the record was too large for the dead letters and was truncated".to_owned());
    }
    let headers = record.headers.into_iter().filter(|(name, _)| name != DEAD_LETTER_HEADER);
    Ok(Record {
        tp: TopicPartition::new(topic, letter.partition),
        key: record.key,
        value: record.value,
        // Headers of a record to append have static names; leaking them is fine, since the command ends soon.
        headers: headers.map(|(name, value)| (&*Box::leak(name.into_owned().into_boxed_str()), value)).collect(),
        timestamp_ms: record.timestamp_ms,
    })
}

/// Polls the consumer, which is a member only and delivers no records. Returns the partitions assigned to it.
async fn poll(consumer: &mut dyn Consumer, wait: Duration) -> Result<Vec<TopicPartition>, LogError> {
    match consumer.poll(wait).await? {
        Some(Event::Assigned(tps)) => Ok(tps),
        Some(Event::Revoked(tps)) => {
            consumer.release(&tps)?;
            Err(LogError::Fatal(
                "another `orbweaver dead-letters replay` is running; repeat the command after it".to_owned(),
            ))
        }
        Some(Event::Lost(_)) => {
            Err(LogError::Fatal("the consumer group's session expired; repeat the command".to_owned()))
        }
        Some(Event::Records(_)) | None => Ok(vec![]),
    }
}

/// Waits until the partitions of these spans are assigned, so that no other command replays from them.
async fn assigned(consumer: &mut dyn Consumer, spans: &[Span]) -> Result<(), LogError> {
    let mut missing: BTreeSet<TopicPartition> = spans.iter().map(|(tp, ..)| *tp).collect();
    for _ in 0..=POLLS {
        if missing.is_empty() {
            return Ok(());
        }
        for tp in poll(consumer, WAIT).await? {
            missing.remove(&tp);
        }
    }
    Err(LogError::Unavailable(format!(
        "{} partitions were not assigned; another `orbweaver dead-letters replay` may be running",
        missing.len()
    )))
}

/// Commits that these dead letters were replayed.
async fn commit(log: &dyn Log, consumer: &mut dyn Consumer, spans: &[Span]) -> Result<(), LogError> {
    let tps = Vec::from_iter(spans.iter().map(|(tp, ..)| *tp).collect::<BTreeSet<TopicPartition>>());
    let mut commits = vec![];
    for (mut replayed, _) in replayed(log, &tps).await? {
        let tp = replayed.tp;
        replayed.add(spans.iter().filter(|(of, ..)| *of == tp).map(|(_, from, end)| (*from, *end)));
        let (commit, missing) = replayed.commit();
        if missing > 0 {
            notice!("{tp}: the commit has no room for {missing} of the replayed IDs: `--all` will replay them again");
        }
        commits.push((tp, commit));
    }
    consumer.commit(commits).await
}

/// Replays dead letters by their IDs, each once.
pub(super) async fn replay(log: &dyn Log, ids: &[(u32, Offset)]) -> Result<usize, Failure> {
    let ids: BTreeSet<(u32, Offset)> = ids.iter().copied().collect();
    let (mut spans, mut records) = (vec![], vec![]);
    // All are read before the first is appended, so that a wrong id replays nothing.
    for (partition, offset) in ids {
        let wrong =
            |reason: &dyn std::fmt::Display| Failure::Usage(format!("dead letter {partition}:{offset}: {reason}"));
        if partition >= log.partitions(DEAD_LETTERS).map_err(failed)? {
            return Err(wrong(&"there is no such partition"));
        }
        let tp = TopicPartition::new(DEAD_LETTERS, partition);
        let bounds = log.bounds(tp).await.map_err(failed)?;
        if !(bounds.start..bounds.end).contains(&offset) {
            return Err(wrong(&format_args!(
                "there is no such offset; the log starts at {} and ends at {}",
                bounds.start, bounds.end
            )));
        }
        let mut reader = log.reader(tp, offset).await.map_err(failed)?;
        let found = reader.read(WAIT).await.map_err(failed)?.into_iter().next();
        let record = found
            .filter(|record| record.offset == offset)
            .ok_or_else(|| wrong(&"there is no record at this offset"))?;
        records.push(original(record).map_err(|reason| wrong(&reason))?);
        spans.push((tp, offset, offset + 1));
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
pub(super) async fn replay_all(log: &dyn Log) -> Result<usize, Failure> {
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
    let here = |(tp, ..): &Span| spans.iter().any(|(of, ..)| of == tp);
    for (tp, from, end) in left(log).await?.into_iter().filter(here) {
        let mut reader = log.reader(tp, from).await?;
        while reader.position() < end {
            poll(consumer, Duration::ZERO).await?;
            let (begin, mut originals) = (reader.position(), vec![]);
            for record in reader.read(WAIT).await?.into_iter().filter(|record| record.offset < end) {
                let offset = record.offset;
                match original(record) {
                    Ok(record) => originals.push(record),
                    Err(reason) => notice!("skipped {}:{offset}: {reason}", tp.partition),
                }
            }
            count += originals.len();
            match log.append(originals).await {
                Err(LogError::Refused(refused)) => {
                    count -= refused.refusals.len();
                    notice!("skipped: {refused}");
                }
                appended => drop(appended?),
            }
            commit(log, consumer, &[(tp, begin, reader.position().min(end))]).await?;
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use orbweaver_log::{Cleanup, MemoryLog, TopicSpec};
    use orbweaver_messages::STUCK;

    use super::*;
    use crate::cluster::dead_letters::{count_stuck, tests::dead_letter};

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
        let tps = [0, 1].map(|partition| TopicPartition::new(DEAD_LETTERS, partition));
        assert_eq!(replay(&log, &[(0, 3), (1, 0), (0, 1), (0, 5), (0, 3)]).await.unwrap(), 4);
        let spans = left(&log).await.unwrap();
        assert_eq!(spans, [(0, 1), (2, 3), (4, 5)].map(|(from, end)| (tps[0], from, end)));
        assert_eq!(count_stuck(&log, &spans).await.unwrap(), 1);
        assert_eq!(replay(&log, &[(0, 2)]).await.unwrap(), 1);
        assert_eq!(count_stuck(&log, &left(&log).await.unwrap()).await.unwrap(), 0);
        let stored = log.committed(REPLAY_GROUP, &tps).await.unwrap().into_iter().flatten();
        let stored: Vec<_> = stored.map(|commit| (commit.offset, commit.metadata)).collect();
        assert_eq!(stored, [(0, "1-4,5-6".to_owned()), (1, String::new())]);

        assert_eq!((replay_all(&log).await.unwrap(), replay_all(&log).await.unwrap()), (2, 0));
        let again = [0, 1].map(|partition| log.records(TopicPartition::new(topic::FRONTIER, partition)));
        let mut again: Vec<_> = again.into_iter().flatten().filter_map(|record| record.value).collect();
        again.sort_unstable();
        assert_eq!(again, ["0", "1", "2", "3", "4", "5", "6"], "each once");
    }
}
