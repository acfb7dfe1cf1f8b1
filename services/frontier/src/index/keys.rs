//! Keys of the tables on disk. Numbers are big-endian, so that keys sort by them; offsets have six bytes, which a partition with a
//! million records per second fills in nine years.

use orbweaver_log::Offset;
use orbweaver_messages::Millis;
use orbweaver_url::Fingerprint;

use super::{CrawlKey, IndexEntry, QueueKey, Rank, by_weight, is_demoted};

/// Highest offset in a key.
const LAST_OFFSET: Offset = (1 << 48) - 1;

/// Order of the keys in a section of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// All URLs, by fingerprint and offset.
    Urls,
    /// Queued URLs, by site, rank and offset.
    Queued,
    /// Delayed URLs, by time and offset.
    Delayed,
}

impl Order {
    pub(super) const ALL: [Self; 3] = [Self::Urls, Self::Queued, Self::Delayed];

    /// Returns the size of a key, in bytes.
    pub(super) const fn key_bytes(self) -> usize {
        match self {
            Self::Urls => 22,
            Self::Queued => 26,
            Self::Delayed => 51,
        }
    }
}

pub(super) type UrlBytes = [u8; Order::Urls.key_bytes()];
pub(super) type QueuedBytes = [u8; Order::Queued.key_bytes()];
pub(super) type DelayedBytes = [u8; Order::Delayed.key_bytes()];

fn offset_bytes(offset: Offset) -> [u8; 6] {
    let [_, _, bytes @ ..] = offset.min(LAST_OFFSET).to_be_bytes();
    bytes
}

fn read_offset([a, b, c, d, e, f]: [u8; 6]) -> Offset {
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// Appends parts to an array, which they must fill.
fn joined<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let (mut key, mut at) = ([0; N], 0);
    for part in parts {
        key[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    key
}

pub(super) fn url_key(fingerprint: Fingerprint, offset: Offset) -> UrlBytes {
    joined(&[&fingerprint.0, &offset_bytes(offset)])
}

/// Decodes a key of [`url_key`].
pub(super) fn read_url(key: &[u8]) -> Option<(Fingerprint, Offset)> {
    let (fingerprint, offset) = key.split_first_chunk()?;
    Some((Fingerprint(*fingerprint), read_offset(offset.try_into().ok()?)))
}

/// Returns the start of the key of a queued URL.
pub(super) fn queued_from(site: QueueKey, (order, offset): Rank) -> [u8; 18] {
    joined(&[&site.0.to_be_bytes(), &order.to_be_bytes(), &offset_bytes(offset)])
}

fn properties(entry: &IndexEntry) -> [u8; 8] {
    joined(&[&entry.crawl.0.to_be_bytes(), &entry.depth.to_be_bytes(), &[entry.failures, entry.blocks]])
}

pub(super) fn queued_key(entry: &IndexEntry) -> QueuedBytes {
    joined(&[&queued_from(entry.site, entry.rank()), &properties(entry)])
}

/// Decodes a key of [`queued_key`].
pub(super) fn read_queued(key: &[u8]) -> Option<IndexEntry> {
    let (site, rest) = key.split_first_chunk()?;
    let (order, rest) = rest.split_first_chunk()?;
    let (offset, properties) = rest.split_first_chunk()?;
    let [a, b, c, d, high, low, failures, blocks] = *properties.first_chunk::<8>()?;
    let rank = (u32::from_be_bytes(*order), read_offset(*offset));
    Some(IndexEntry {
        offset: rank.1,
        crawl: CrawlKey(u32::from_be_bytes([a, b, c, d])),
        site: QueueKey(u64::from_be_bytes(*site)),
        depth: u16::from_be_bytes([high, low]),
        by_weight: by_weight(rank),
        failures,
        blocks,
        demoted: is_demoted(rank),
        not_before_ms: 0,
        asleep: false,
    })
}

/// Decodes the queue and the rank of a key of [`queued_key`].
pub(super) fn read_queued_rank(key: &[u8]) -> Option<(QueueKey, Rank)> {
    let (site, rest) = key.split_first_chunk()?;
    let (order, rest) = rest.split_first_chunk()?;
    Some((QueueKey(u64::from_be_bytes(*site)), (u32::from_be_bytes(*order), read_offset(*rest.first_chunk()?))))
}

/// Returns the start of the key of a URL that is delayed until this time.
pub(super) fn delayed_from(moment: Millis, offset: Offset) -> [u8; 14] {
    joined(&[&moment.max(0).to_be_bytes(), &offset_bytes(offset)])
}

pub(super) fn delayed_key(fingerprint: Fingerprint, entry: &IndexEntry) -> DelayedBytes {
    let start = delayed_from(entry.not_before_ms, entry.offset);
    joined(&[&start, &fingerprint.0, &queued_key(entry)[..12], &properties(entry), &[entry.asleep.into()]])
}

/// Decodes a key of [`delayed_key`].
pub(super) fn read_delayed(key: &[u8]) -> Option<(Fingerprint, IndexEntry)> {
    let (moment, rest) = key.split_first_chunk()?;
    let (offset, rest) = rest.split_first_chunk::<6>()?;
    let (fingerprint, rest) = rest.split_first_chunk()?;
    let (site_and_order, rest) = rest.split_first_chunk::<12>()?;
    let (properties, asleep) = rest.split_first_chunk::<8>()?;
    let queued = read_queued(&joined::<26>(&[site_and_order, offset, properties]))?;
    let entry = IndexEntry { not_before_ms: i64::from_be_bytes(*moment), asleep: *asleep.first()? != 0, ..queued };
    Some((Fingerprint(*fingerprint), entry))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry() -> impl Strategy<Value = IndexEntry> {
        let numbers = (0..=LAST_OFFSET, any::<(u64, u32, u32)>(), any::<u16>(), any::<u8>(), any::<u8>(), 1..i64::MAX);
        numbers.prop_map(|(offset, (site, crawl, rank), depth, failures, blocks, not_before_ms)| IndexEntry {
            offset,
            crawl: CrawlKey(crawl),
            site: QueueKey(site),
            depth,
            by_weight: by_weight((rank, 0)),
            failures,
            blocks,
            demoted: failures > 127,
            not_before_ms,
            asleep: blocks > 191,
        })
    }

    proptest! {
        #[test]
        fn keys_read_back_and_shorter_ones_do_not(entry in entry(), bytes in any::<[u8; 16]>(), cut in any::<prop::sample::Index>()) {
            let fingerprint = Fingerprint(bytes);
            let (url, queued, delayed) = (url_key(fingerprint, entry.offset), queued_key(&entry), delayed_key(fingerprint, &entry));
            prop_assert_eq!(read_url(&url), Some((fingerprint, entry.offset)));
            prop_assert_eq!(read_queued(&queued), Some(entry.queued()));
            prop_assert_eq!(read_queued_rank(&queued), Some((entry.site, entry.rank())));
            prop_assert_eq!(read_delayed(&delayed), Some((fingerprint, entry)));
            prop_assert_eq!(read_url(&url[..cut.index(url.len())]), None);
            prop_assert_eq!(read_queued(&queued[..cut.index(queued.len())]), None);
            prop_assert_eq!(read_delayed(&delayed[..cut.index(delayed.len())]), None);
        }

        #[test]
        fn keys_sort_by_site_and_rank_or_by_time_and_offset(a in entry(), b in entry()) {
            let by_site = |entry: &IndexEntry| (entry.site, entry.rank());
            prop_assert_eq!(queued_key(&a).cmp(&queued_key(&b)), by_site(&a).cmp(&by_site(&b)));
            let by_time = |entry: &IndexEntry| (entry.not_before_ms, entry.offset);
            let key = |entry| delayed_key(Fingerprint([7; 16]), entry);
            prop_assert_eq!(key(&a).cmp(&key(&b)), by_time(&a).cmp(&by_time(&b)));
        }
    }
}
