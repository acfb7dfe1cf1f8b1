//! Pages that were counted, as records of `crawl.control`.

use bytes::Bytes;
use orbweaver_log::{Delivered, Record, TopicPartition};
use orbweaver_messages::{Millis, PAGES_KEY, PageCount, decode, encode, pages_key, topic::CONTROL};

/// What a record says of pages; `None`: nothing. One that cannot be read, or stands in another partition than it is about, is told
/// and passed over: its writer counts on, and writes again.
pub(crate) fn page_count(record: &Delivered) -> Option<PageCount> {
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
