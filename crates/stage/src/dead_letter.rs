//! Records that cannot be processed are written unchanged to `crawl.dead-letters`, with the reason, before their
//! origins complete.
//!
//! The record is read again from its log, where it stays while it is incomplete; so no component has to keep a copy of
//! every record for the few that are rejected.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use orbweaver_log::{ConsumerRecord, Log, LogError, Offset, Reader, Record, TopicPartition};
use orbweaver_messages::{DeadLetter, Millis, encode, topic};
use tokio::time::sleep;

use crate::{Origin, header_names::header_name};

/// Header that carries the [`DeadLetter`].
pub const DEAD_LETTER_HEADER: &str = "dead-letter";
/// Header of a dead letter without the whole record, which was too large: it cannot be replayed.
pub const DEAD_LETTER_CUT_HEADER: &str = "dead-letter-cut";
/// Maximum distance to the next rejected record for reading on; beyond it a new reader is opened.
const READ_ON: Offset = 4096;
/// Maximum size of a stored reason in bytes: the header fits next to any record within the record limit.
const REASON_BYTES: usize = 4096;
/// Longest wait of one read of a rejected record.
const READ: Duration = Duration::from_secs(10);
/// Reads without progress, while the log answers, before a record counts as unreadable.
const MAX_EMPTY_READS: u32 = 3;
/// Delay after the log was unavailable.
const RETRY: Duration = Duration::from_secs(1);

/// Rejected records to be written to the dead letters.
pub(crate) struct DeadLetterBatch {
    pub(crate) service: &'static str,
    pub(crate) rejects: Vec<(Origin, String)>,
    pub(crate) now: Millis,
    /// `Stage::ends_of_rejected` of the service.
    pub(crate) ends: fn(&ConsumerRecord, Millis) -> Vec<Record>,
}

impl DeadLetterBatch {
    /// Appends the dead letters; resolves with the origins once they are acknowledged.
    pub(crate) async fn send(self, log: &Arc<dyn Log>) -> Result<Vec<Origin>, LogError> {
        let mut by_tp: BTreeMap<TopicPartition, Vec<(Offset, String)>> = BTreeMap::new();
        let origins = self.rejects.iter().map(|(origin, _)| *origin).collect();
        for (origin, reason) in self.rejects {
            by_tp.entry(origin.tp).or_default().push((origin.offset, reason));
        }
        for (tp, mut rejects) in by_tp {
            rejects.sort_unstable_by_key(|reject| reject.0);
            let originals = read_again(log, tp, &rejects).await?;
            let mut letters = Vec::with_capacity(rejects.len());
            let ends = originals.iter().flatten().flat_map(|original| (self.ends)(original, self.now)).collect();
            for ((offset, reason), original) in rejects.into_iter().zip(originals) {
                let letter = DeadLetter {
                    service: self.service.to_owned(),
                    reason: reason[..reason.floor_char_boundary(REASON_BYTES)].to_owned(),
                    topic: tp.topic.0.to_owned(),
                    partition: tp.partition,
                    offset,
                    rejected_at_ms: self.now,
                };
                tracing::warn!(
                    service = self.service,
                    topic_partition = %tp,
                    offset,
                    reason = letter.reason,
                    "rejected a record; it goes to the dead letters"
                );
                letters.push(record(letter, original));
            }
            append(log, letters).await?;
            append_ends(log, ends).await?;
        }
        Ok(origins)
    }
}

/// Reads the records at these offsets, in ascending order; `None` for a record that compaction has removed.
async fn read_again(
    log: &Arc<dyn Log>,
    tp: TopicPartition,
    rejects: &[(Offset, String)],
) -> Result<Vec<Option<ConsumerRecord>>, LogError> {
    let Some(&(first, _)) = rejects.first() else { return Ok(vec![]) };
    let mut found = Vec::with_capacity(rejects.len());
    let (mut reader, mut empty_reads) = (reader_at(log, tp, first).await?, 0);
    let mut batch = Vec::new().into_iter().peekable();
    for &(wanted, _) in rejects {
        loop {
            while batch.next_if(|record: &ConsumerRecord| record.offset < wanted).is_some() {}
            if batch.peek().is_some() {
                break;
            }
            if reader.position() + READ_ON < wanted {
                reader = reader_at(log, tp, wanted).await?;
            }
            if reader.position() > wanted {
                break;
            }
            let before = reader.position();
            match reader.read(READ).await {
                Ok(records) => batch = records.into_iter().peekable(),
                Err(LogError::Unavailable(_)) => sleep(RETRY).await,
                Err(error) => return Err(error),
            }
            let has_moved = batch.peek().is_some() || reader.position() > before;
            // An empty read proves nothing while the log is unavailable.
            if has_moved {
                empty_reads = 0;
            } else if log.bounds(tp).await.is_ok_and(|bounds| bounds.end > wanted) {
                empty_reads += 1;
            }
            if empty_reads == MAX_EMPTY_READS {
                let reason = format!("{tp}: the rejected record at {wanted} could not be read again");
                return Err(LogError::Fatal(reason));
            }
        }
        found.push(batch.next_if(|record| record.offset == wanted));
    }
    Ok(found)
}

/// Opens a reader as soon as the log is available.
async fn reader_at(log: &Arc<dyn Log>, tp: TopicPartition, from: Offset) -> Result<Box<dyn Reader>, LogError> {
    loop {
        match log.reader(tp, from).await {
            Err(LogError::Unavailable(reason)) => {
                tracing::warn!(topic_partition = %tp, from, reason, "the log is unavailable; a dead letter waits for its record");
                sleep(RETRY).await;
            }
            opened => return opened,
        }
    }
}

fn record(mut letter: DeadLetter, original: Option<ConsumerRecord>) -> Record {
    let tp = TopicPartition::new(topic::DEAD_LETTERS, letter.partition);
    let timestamp_ms = letter.rejected_at_ms;
    let Some(original) = original else {
        letter.reason.push_str(" (the record itself was compacted away)");
        let headers = vec![(DEAD_LETTER_HEADER, encode(&letter))];
        return Record { tp, key: None, value: None, headers, timestamp_ms };
    };
    let mut headers: Vec<(&'static str, Bytes)> = Vec::with_capacity(original.headers.len() + 1);
    headers.push((DEAD_LETTER_HEADER, encode(&letter)));
    headers.extend(original.headers.into_iter().map(|(name, value)| header_name(name, value)));
    Record { tp, key: original.key, value: original.value, headers, timestamp_ms }
}

/// Appends dead letters. One that is too large with its new header is written without its value, and if that is not
/// enough, with only the reason, instead of ending the stage.
async fn append(log: &Arc<dyn Log>, mut letters: Vec<Record>) -> Result<(), LogError> {
    let lighter: [fn(&mut Record); 2] = [
        |letter| {
            letter.value = None;
            letter.headers.insert(1, (DEAD_LETTER_CUT_HEADER, Bytes::from_static(b"value")));
        },
        |letter| {
            letter.key = None;
            letter.headers.truncate(2);
        },
    ];
    for lighten in lighter {
        let refusals = match log.append(letters.clone()).await {
            Err(LogError::Refused(refused)) => refused.refusals,
            other => return other.map(drop),
        };
        let mut refused = Vec::with_capacity(refusals.len());
        for (index, refusal) in refusals {
            tracing::warn!(%refusal, "a dead letter is written without a part of its record");
            let Some(mut letter) = letters.get(index).cloned() else { continue };
            lighten(&mut letter);
            refused.push(letter);
        }
        letters = refused;
    }
    log.append(letters).await.map(drop)
}

/// Appends the records that end what rejected records started.
async fn append_ends(log: &Arc<dyn Log>, ends: Vec<Record>) -> Result<(), LogError> {
    if ends.is_empty() {
        return Ok(());
    }
    match log.append(ends).await {
        Err(LogError::Refused(refused)) => {
            tracing::warn!(%refused, "the log refused the outcome of a rejected record; its lease will expire instead");
            Ok(())
        }
        other => other.map(drop),
    }
}
