//! Pages that were counted, as records of `crawl.control`.

use bytes::Bytes;
use orbweaver_log::{Delivered, Partition, Record, TopicPartition};
use orbweaver_messages::{Millis, PAGES_KEY, PageCount, decode, encode, pages_key, topic::CONTROL};
use orbweaver_stage::Token;

/// There are 16384 partitions at most.
const PARTITION_BITS: u32 = 16;

/// What a record of `crawl.control` says of pages; `None`: nothing. One that cannot be read, or stands in another
/// partition than it is about, is told and passed over: its writer counts on, and writes again.
#[must_use]
pub fn page_count(record: &Delivered) -> Option<PageCount> {
    record.key.as_ref().filter(|key| key.starts_with(PAGES_KEY.as_bytes()))?;
    let (place, offset) = (record.place, record.offset);
    match decode::<PageCount>("page count", Some(record.value.as_ref()?)) {
        Ok(count) if count.partition == place.partition => Some(count),
        Ok(count) => {
            tracing::warn!(%place, offset, of = count.partition, "a count of pages stands in the wrong partition");
            None
        }
        Err(error) => {
            tracing::warn!(%place, offset, %error, "a count of pages cannot be read");
            None
        }
    }
}

/// Names the plan that writes counts: the partition, and the claim under which it is served.
pub(crate) fn token(partition: Partition, epoch: u64) -> Token {
    epoch << PARTITION_BITS | u64::from(partition)
}

/// What a token names.
pub(crate) fn named(token: Token) -> (Partition, u64) {
    let partition = token & ((1 << PARTITION_BITS) - 1);
    (Partition::try_from(partition).unwrap_or_default(), token >> PARTITION_BITS)
}

/// The records that say so.
pub(crate) fn records(counts: &[PageCount], now: Millis) -> Vec<Record> {
    let record = |count: &PageCount| Record {
        place: TopicPartition::new(CONTROL, count.partition),
        key: Some(Bytes::from(pages_key(&count.crawl, count.partition))),
        value: Some(encode(count)),
        headers: vec![],
        timestamp_ms: now,
    };
    counts.iter().map(record).collect()
}
