//! Removal of the URLs of deleted crawls from `crawl.seen`.
//!
//! A log removes only the records below an offset. Where the URLs of deleted crawls are more than half of a partition, the
//! batches of all others are appended again, then everything before them is removed. A batch that is in the log twice
//! changes nothing for its readers, so that the command may end anywhere in between.

use std::time::Duration;

use orbweaver_log::{Bounds, ConsumerRecord, Log, Record, TopicPartition, topic_partitions};
use orbweaver_messages::{CRAWL_HEADER, topic::SEEN};
use orbweaver_scope::Definitions;
use orbweaver_url::CrawlName;

use crate::exit::{Failure, failed};

/// Timeout per read of the log.
const READ_WAIT: Duration = Duration::from_secs(5);
/// Size of a URL in a batch, in bytes.
const ENTRY_BYTES: u64 = 20;

/// Removes the batches of deleted crawls where they are more than half of a partition. Returns the number of their URLs
/// that remain elsewhere.
pub(super) async fn drop_dead(log: &dyn Log, definitions: &Definitions) -> Result<u64, Failure> {
    let mut left = 0;
    for tp in topic_partitions(log, &[SEEN]).map_err(failed)? {
        let bounds = log.bounds(tp).await.map_err(failed)?;
        let (mut live, mut dead) = (0, 0);
        each(log, tp, bounds, async |records| {
            for record in records {
                let bytes = record.value.as_ref().map_or(0, |value| value.len() as u64);
                *if is_dead(&record, definitions) { &mut dead } else { &mut live } += bytes;
            }
            Ok(())
        })
        .await?;
        if dead <= live {
            left += dead / ENTRY_BYTES;
            continue;
        }
        each(log, tp, bounds, async |records| {
            let live = records.into_iter().filter(|record| !is_dead(record, definitions)).map(again).collect();
            log.append(live).await.map(drop).map_err(failed)
        })
        .await?;
        log.delete_below(tp, bounds.end).await.map_err(failed)?;
    }
    Ok(left)
}

/// Passes the records within the bounds to `take`, in order.
async fn each(
    log: &dyn Log,
    tp: TopicPartition,
    bounds: Bounds,
    mut take: impl AsyncFnMut(Vec<ConsumerRecord>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut reader = log.reader(tp, bounds.start).await.map_err(failed)?;
    while reader.position() < bounds.end {
        let mut records = reader.read(READ_WAIT).await.map_err(failed)?;
        records.retain(|record| record.offset < bounds.end);
        take(records).await?;
    }
    Ok(())
}

fn is_dead(record: &ConsumerRecord, definitions: &Definitions) -> bool {
    let name = record.header(CRAWL_HEADER).and_then(|name| CrawlName::new(std::str::from_utf8(name).ok()?).ok());
    let applied = name.and_then(|name| definitions.applied(&name));
    applied.is_some_and(|applied| applied.definition.deleted)
}

fn again(record: ConsumerRecord) -> Record {
    let crawl = record.header(CRAWL_HEADER).cloned();
    let mut again = Record::new(record.tp, record.key, record.value, record.timestamp_ms);
    again.headers.extend(crawl.map(|name| (CRAWL_HEADER, name)));
    again
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use orbweaver_log::{Cleanup, MemoryLog, TopicSpec};
    use orbweaver_messages::{SeenBatch, SeenEntry};
    use orbweaver_scope::ControlRecord;
    use orbweaver_url::Fingerprint;

    use super::*;

    /// Appends a batch of this many URLs.
    async fn admitted(log: &MemoryLog, crawl: Option<&'static str>, urls: usize) -> Bytes {
        let entries = vec![SeenEntry { slot: 1, depth: 0, fingerprint: Fingerprint([7; 16]) }; urls];
        let value = SeenBatch { entries }.encode();
        let mut record = Record::new(TopicPartition::new(SEEN, 0), None, Some(value.clone()), 1);
        record.headers.extend(crawl.map(|name| (CRAWL_HEADER, Bytes::from_static(name.as_bytes()))));
        log.append(vec![record]).await.unwrap();
        value
    }

    fn definitions() -> Definitions {
        let mut definitions = Definitions::default();
        let deleted = include_str!("../../../../schemas/examples/crawl-definition/1/deleted.json");
        let deleted = Bytes::from_static(deleted.as_bytes());
        definitions.apply(ControlRecord {
            partition: 0,
            offset: 13,
            key: Some(b"crawl/docs#2"),
            value: Some(&deleted),
        });
        definitions
    }

    #[tokio::test]
    async fn batches_of_deleted_crawls_are_removed_once_they_are_more_than_half_of_a_partition() {
        let log = MemoryLog::new(&[TopicSpec::new(SEEN, 1, Cleanup::Keep)]);
        let mut live = vec![admitted(&log, Some("docs"), 30).await, admitted(&log, None, 20).await];
        admitted(&log, Some("docs#2"), 40).await;
        let values = || log.records(TopicPartition::new(SEEN, 0)).into_iter().map(|record| record.value.unwrap());
        assert_eq!(drop_dead(&log, &definitions()).await.unwrap(), 40, "fewer than half");
        assert_eq!(values().count(), 3);
        admitted(&log, Some("docs#2"), 30).await;
        live.push(admitted(&log, Some("docs#3"), 10).await);
        assert_eq!(drop_dead(&log, &definitions()).await.unwrap(), 0);
        assert_eq!(values().collect::<Vec<_>>(), live, "all others, in their order");
        let kept = log.records(TopicPartition::new(SEEN, 0));
        assert_eq!(kept[0].header(CRAWL_HEADER).map(|name| &**name), Some(&b"docs"[..]));
        assert_eq!(drop_dead(&log, &definitions()).await.unwrap(), 0, "again");
    }
}
