//! Page counts, as records of `crawl.control`.

use bytes::Bytes;
use orbweaver_log::{ConsumerRecord, Partition, Record, TopicPartition};
use orbweaver_messages::{Millis, PAGES_KEY, PageCount, decode, encode, pages_key, topic::CONTROL};
use orbweaver_stage::Token;

/// Bits of a token that hold the partition; there are at most 16384 partitions.
const PARTITION_BITS: u32 = 16;

/// Returns the page count in a record of `crawl.control`; `None` if it has none. A count that is unreadable, or in
/// another partition than the one that it is about, is logged and ignored: its writer continues to count and writes
/// again.
#[must_use]
pub fn page_count(record: &ConsumerRecord) -> Option<PageCount> {
    record.key.as_ref().filter(|key| key.starts_with(PAGES_KEY.as_bytes()))?;
    let (tp, offset) = (record.tp, record.offset);
    match decode::<PageCount>("page count", Some(record.value.as_ref()?)) {
        Ok(count) if count.partition == tp.partition => Some(count),
        Ok(count) => {
            tracing::warn!(topic_partition = %tp, offset, counted = count.partition, "page count in the wrong partition: ignored");
            None
        }
        Err(error) => {
            tracing::warn!(topic_partition = %tp, offset, %error, "page count cannot be decoded: ignored");
            None
        }
    }
}

/// Returns the token of a plan that writes counts, from the partition and the owner epoch under which it is open.
pub(crate) fn token(partition: Partition, epoch: u64) -> Token {
    epoch << PARTITION_BITS | u64::from(partition)
}

/// Returns the partition and the owner epoch of a token.
pub(crate) fn named(token: Token) -> (Partition, u64) {
    let partition = token & ((1 << PARTITION_BITS) - 1);
    (Partition::try_from(partition).unwrap_or_default(), token >> PARTITION_BITS)
}

pub(crate) fn records(counts: &[PageCount], now: Millis) -> Vec<Record> {
    let record = |count: &PageCount| {
        let key = Bytes::from(pages_key(&count.crawl, count.partition));
        Record::new(TopicPartition::new(CONTROL, count.partition), Some(key), Some(encode(count)), now)
    };
    counts.iter().map(record).collect()
}
