//! Keys and values of the index on disk. Numbers in keys are big-endian, so that keys sort by them.
//!
//! The storage engine keeps keys and values of up to 20 bytes without an allocation; those of queued URLs in their order
//! are that short.

use std::collections::BTreeMap;

use orbweaver_log::Offset;
use orbweaver_messages::{
    ChangeRate, DiscoveryKind, FrontierUrl, Millis, PageVersion, Trail, Traps, UrlContext, Visits,
};
use orbweaver_stage::IndexCheckpoint;
use orbweaver_url::{CrawlName, Fingerprint, Policy};
use serde::{Deserialize, Serialize};

use super::{CrawlKey, IndexEntry, QueueKey, Rank, by_weight, is_demoted};
use crate::leases::LOST_DISPATCHES;

/// Bit in the first byte of the keys of [`apart`]; partition numbers are below 16384.
const APART: u8 = 0x80;

/// Bit in the first byte of the key of a partition's mark.
const MARK: u8 = 0x40;

/// A partition: the first two bytes of every key.
pub(super) type Prefix = [u8; 2];

/// Returns the key of a partition's mark, which is the same in every table.
pub(super) fn mark_key([high, low]: Prefix) -> Prefix {
    [high | MARK, low]
}

/// Mark of a partition in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) position: IndexCheckpoint,
    /// Number of the write that led to the checkpoint.
    pub(super) writes: u64,
    /// Number of entries.
    pub(super) entries: u64,
}

impl Mark {
    pub(super) fn encode(self) -> [u8; 40] {
        let mut value = [0; 40];
        value[..24].copy_from_slice(&self.position.to_bytes());
        value[24..32].copy_from_slice(&self.writes.to_be_bytes());
        value[32..].copy_from_slice(&self.entries.to_be_bytes());
        value
    }

    /// Decodes a mark. `None` if the value is damaged.
    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let (position, rest) = value.split_at_checked(24)?;
        let (writes, entries) = rest.split_at_checked(8)?;
        Some(Self {
            position: IndexCheckpoint::from_bytes(position)?,
            writes: u64::from_be_bytes(writes.try_into().ok()?),
            entries: u64::from_be_bytes(entries.try_into().ok()?),
        })
    }
}

pub(super) fn entry_key(partition: Prefix, fingerprint: Fingerprint) -> [u8; 18] {
    let mut key = [0; 18];
    key[..2].copy_from_slice(&partition);
    key[2..].copy_from_slice(&fingerprint.0);
    key
}

/// Returns the first two bytes of the keys that a table keeps apart: delayed URLs in the orders, and outdated URLs in the
/// entries, where the rest is that of [`entry_key`].
pub(super) fn apart([high, low]: Prefix) -> Prefix {
    [high | APART, low]
}

/// Returns the fingerprint in a key of [`entry_key`]. `None` if the key is damaged.
pub(super) fn read_fingerprint(key: &[u8]) -> Option<Fingerprint> {
    key.get(2..)?.try_into().ok().map(Fingerprint)
}

/// Decodes an outdated URL, and the offset that it must be restored from. `None` if the entry is damaged.
pub(super) fn read_outdated(key: &[u8], value: &[u8]) -> Option<(Fingerprint, Offset)> {
    Some((read_fingerprint(key)?, u64::from_be_bytes(value.try_into().ok()?)))
}

pub(super) fn record_key(partition: Prefix, offset: Offset) -> [u8; 10] {
    let mut key = [0; 10];
    key[..2].copy_from_slice(&partition);
    key[2..].copy_from_slice(&offset.to_be_bytes());
    key
}

/// Returns the lowest key of a site that is not below `rank`.
pub(super) fn queue_key(partition: Prefix, site: QueueKey, (order, offset): Rank) -> [u8; 20] {
    let mut key = [0; 20];
    key[..2].copy_from_slice(&partition);
    key[2..10].copy_from_slice(&site.0.to_be_bytes());
    key[10..14].copy_from_slice(&order.to_be_bytes());
    key[14..].copy_from_slice(&offset.min(LAST_OFFSET).to_be_bytes()[2..]);
    key
}

/// Highest offset in a key of the orders, which have six bytes for it: a partition with a million records per second
/// reaches it after nine years.
const LAST_OFFSET: Offset = (1 << 48) - 1;

/// Decodes the rank at the end of a key of [`queue_key`].
fn read_rank(bytes: [u8; 10]) -> Rank {
    let [a, b, c, d, offset @ ..] = bytes;
    let [e, f, g, h, i, j] = offset;
    (u32::from_be_bytes([a, b, c, d]), u64::from_be_bytes([0, 0, e, f, g, h, i, j]))
}

/// Returns the lowest key of URLs that are delayed until `moment`.
pub(super) fn delay_key(partition: Prefix, moment: Millis) -> [u8; 10] {
    record_key(apart(partition), moment.max(0).cast_unsigned())
}

/// Returns the key of an entry in the order that it belongs to.
pub(super) fn order_key(partition: Prefix, entry: &IndexEntry) -> fjall::UserKey {
    let queued = queue_key(partition, entry.site, entry.rank());
    if !entry.is_delayed() {
        return queued.into();
    }
    [&delay_key(partition, entry.not_before_ms), &queued[2..]].concat().into()
}

/// Encodes the value of a key in the orders.
pub(super) fn order_value(fingerprint: Fingerprint, entry: &IndexEntry) -> fjall::UserValue {
    let [high, low] = entry.depth.to_be_bytes();
    let [a, b, c, d] = entry.crawl.0.to_be_bytes();
    let fixed = [entry.failures, entry.blocks, high, low, a, b, c, d];
    if !entry.is_delayed() {
        return fixed.into();
    }
    [&fixed[..], &fingerprint.0, &[entry.asleep.into()]].concat().into()
}

/// Decodes an entry in an order, and its fingerprint if it is delayed. `None` if it is damaged.
pub(super) fn read_order(key: &[u8], value: &[u8]) -> Option<(Option<Fingerprint>, IndexEntry)> {
    let (partition, rest) = key.split_at_checked(2)?;
    let (not_before_ms, rest) = match partition[0] & APART {
        0 => (0, rest),
        _ => (i64::from_be_bytes(*rest.first_chunk()?), rest.get(8..)?),
    };
    let rest: &[u8; 18] = rest.try_into().ok()?;
    let (fixed, delayed) = value.split_at_checked(8)?;
    let (fingerprint, asleep) = match delayed.split_last() {
        Some((asleep, fingerprint)) => (Some(Fingerprint(fingerprint.try_into().ok()?)), *asleep != 0),
        None => (None, false),
    };
    let rank = read_rank(*rest[8..].first_chunk()?);
    let entry = IndexEntry {
        crawl: CrawlKey(u32::from_be_bytes(*fixed[4..].first_chunk()?)),
        site: QueueKey(u64::from_be_bytes(*rest.first_chunk()?)),
        depth: u16::from_be_bytes([fixed[2], fixed[3]]),
        by_weight: by_weight(rank),
        offset: rank.1,
        failures: fixed[0],
        blocks: fixed[1],
        demoted: is_demoted(rank),
        not_before_ms,
        asleep,
    };
    Some((fingerprint, entry))
}

/// Encodes an entry. The time, and whether the URL sleeps, come last, and only for a delayed URL.
pub(super) fn entry_value(entry: &IndexEntry) -> fjall::UserValue {
    let mut value = [0; 35];
    value[..18].copy_from_slice(&queue_key([0; 2], entry.site, entry.rank())[2..]);
    value[18..20].copy_from_slice(&entry.depth.to_be_bytes());
    value[20..22].copy_from_slice(&[entry.failures, entry.blocks]);
    value[22..26].copy_from_slice(&entry.crawl.0.to_be_bytes());
    value[26..34].copy_from_slice(&entry.not_before_ms.to_be_bytes());
    value[34] = entry.asleep.into();
    if entry.is_delayed() { value.into() } else { value[..26].into() }
}

/// Decodes an entry. `None` if the value is damaged.
pub(super) fn read_entry(value: &[u8]) -> Option<IndexEntry> {
    let (fixed, moment) = value.split_at_checked(26)?;
    let (not_before_ms, asleep) = match moment.split_last() {
        Some((asleep, moment)) => (i64::from_be_bytes(moment.try_into().ok()?), *asleep != 0),
        None => (0, false),
    };
    let rank = read_rank(*fixed[8..].first_chunk()?);
    Some(IndexEntry {
        offset: rank.1,
        by_weight: by_weight(rank),
        demoted: is_demoted(rank),
        crawl: CrawlKey(u32::from_be_bytes(*fixed[22..].first_chunk()?)),
        site: QueueKey(u64::from_be_bytes(*fixed.first_chunk()?)),
        depth: u16::from_be_bytes([fixed[18], fixed[19]]),
        failures: fixed[20],
        blocks: fixed[21],
        not_before_ms,
        asleep,
    })
}

/// Stored form of a record: the content of [`FrontierUrl`] in few bytes.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    fingerprint: [u8; 16],
    depth: u16,
    failures: u8,
    blocks: u8,
    /// Position in [`SIGHTINGS`]; in the upper four bits the dispatches lost in a row, of which most records have none.
    sighting: u8,
    admitted_at_ms: Millis,
    definition: u64,
    not_before_ms: Millis,
    written_at_ms: Millis,
    crawl: &'a str,
    site: &'a str,
    via: Option<&'a str>,
    url: &'a str,
    key: Option<&'a str>,
    policy: Option<Policy>,
    #[serde(borrow)]
    chain: Vec<&'a str>,
    traps: u8,
    rank: Option<u32>,
    priority: i8,
    trail: Trail,
    content: Option<u32>,
    #[serde(borrow)]
    metadata: Vec<(&'a str, &'a str)>,
    visit: u32,
    #[serde(borrow)]
    visits: Option<StoredVisits<'a>>,
}

/// Stored form of [`Visits`].
#[derive(Serialize, Deserialize)]
struct StoredVisits<'a> {
    /// Content hash, `ETag` and `Last-Modified` of the version.
    #[serde(borrow)]
    version: [Option<&'a str>; 3],
    visited_at_ms: Millis,
    misses: u8,
    /// Intervals, and those with a change.
    changes: [u16; 2],
    span_ms: u64,
}

impl<'a> StoredVisits<'a> {
    fn of(visits: &'a Visits) -> Self {
        let Visits { version, visited_at_ms, misses, changes } = visits;
        let PageVersion { content_hash, etag, last_modified } = version;
        Self {
            version: [content_hash.as_deref(), etag.as_deref(), last_modified.as_deref()],
            visited_at_ms: *visited_at_ms,
            misses: *misses,
            changes: [changes.intervals, changes.changed],
            span_ms: changes.span_ms,
        }
    }

    fn read(&self) -> Visits {
        let [content_hash, etag, last_modified] = self.version.map(|text| text.map(str::to_owned));
        let [intervals, changed] = self.changes;
        Visits {
            version: PageVersion { content_hash, etag, last_modified },
            visited_at_ms: self.visited_at_ms,
            misses: self.misses,
            changes: ChangeRate { intervals, changed, span_ms: self.span_ms },
        }
    }
}

/// Number of bits in `Stored::sighting` below the lost dispatches.
const SIGHTING_BITS: u32 = 4;
/// Maximum number of lost dispatches that is stored; a URL is stuck before it has lost as many.
const MOST_LOST: u8 = 15;
const _: () = assert!(LOST_DISPATCHES <= MOST_LOST);

const SIGHTINGS: [DiscoveryKind; 4] =
    [DiscoveryKind::Seed, DiscoveryKind::Link, DiscoveryKind::Redirect, DiscoveryKind::Recrawl];
const TRAPS: [Traps; 3] = [Traps::Off, Traps::Learn, Traps::Strict];

/// Appends a record.
pub(super) fn record_value(waiting: &FrontierUrl, buffer: Vec<u8>) -> Vec<u8> {
    let context = &waiting.context;
    let sighting = SIGHTINGS.iter().position(|known| *known == context.sighting).unwrap_or_default();
    let sighting = u8::try_from(sighting).unwrap_or_default() | (waiting.lost.min(MOST_LOST) << SIGHTING_BITS);
    let traps = TRAPS.iter().position(|known| *known == waiting.traps).unwrap_or_default();
    let stored = Stored {
        fingerprint: context.fingerprint.0,
        depth: context.depth,
        failures: waiting.failures,
        blocks: waiting.blocks,
        sighting,
        admitted_at_ms: waiting.admitted_at_ms,
        definition: waiting.definition,
        not_before_ms: waiting.not_before_ms,
        written_at_ms: waiting.written_at_ms,
        crawl: &context.crawl,
        site: &context.site,
        via: context.via.as_deref(),
        url: &context.url,
        key: context.key.as_deref(),
        // Most crawls have the standard policy, whose text would be longer than all the numbers.
        policy: (!context.policy.is_standard()).then_some(context.policy),
        chain: context.chain.iter().map(String::as_str).collect(),
        traps: u8::try_from(traps).unwrap_or_default(),
        trail: context.trail.clone(),
        rank: waiting.rank,
        priority: context.priority.doublings(),
        content: waiting.content,
        metadata: context.metadata.iter().collect(),
        visit: context.visit,
        visits: waiting.visits.as_deref().map(StoredVisits::of),
    };
    #[allow(clippy::expect_used, reason = "numbers, texts and a list of known length always serialize into a vector")]
    postcard::to_extend(&stored, buffer).expect("numbers and texts serialize")
}

/// Decodes the record at the start of a value. `None` if it is damaged.
pub(super) fn read_record(value: &[u8]) -> Option<FrontierUrl> {
    let (stored, _): (Stored<'_>, _) = postcard::take_from_bytes(value).ok()?;
    Some(FrontierUrl {
        context: UrlContext {
            crawl: CrawlName::new(stored.crawl).ok()?,
            fingerprint: Fingerprint(stored.fingerprint),
            url: stored.url.to_owned(),
            key: stored.key.map(str::to_owned),
            policy: stored.policy.unwrap_or_default(),
            site: stored.site.into(),
            depth: stored.depth,
            sighting: *SIGHTINGS.get(usize::from(stored.sighting & ((1 << SIGHTING_BITS) - 1)))?,
            via: stored.via.map(str::to_owned),
            chain: stored.chain.into_iter().map(str::to_owned).collect(),
            trail: stored.trail,
            priority: i64::from(stored.priority).try_into().ok()?,
            metadata: entries(&stored.metadata).try_into().ok()?,
            visit: stored.visit,
        },
        traps: *TRAPS.get(usize::from(stored.traps))?,
        rank: stored.rank,
        content: stored.content,
        failures: stored.failures,
        blocks: stored.blocks,
        lost: stored.sighting >> SIGHTING_BITS,
        not_before_ms: stored.not_before_ms,
        written_at_ms: stored.written_at_ms,
        admitted_at_ms: stored.admitted_at_ms,
        definition: stored.definition,
        visits: stored.visits.as_ref().map(|visits| Box::new(visits.read())),
    })
}

fn entries(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::Pattern;
    use proptest::prelude::*;

    use super::*;

    fn entry() -> impl Strategy<Value = IndexEntry> {
        let numbers = (0..=LAST_OFFSET, any::<(u64, u32, u32)>(), any::<u16>(), any::<u8>(), any::<u8>(), 0..i64::MAX);
        numbers.prop_map(|(offset, (site, crawl, rank), depth, failures, blocks, not_before_ms)| IndexEntry {
            offset,
            crawl: CrawlKey(crawl),
            site: QueueKey(site),
            depth,
            by_weight: by_weight((rank, 0)),
            failures,
            blocks,
            demoted: failures > 127,
            not_before_ms: if blocks > 127 { not_before_ms } else { 0 },
            asleep: blocks > 191 && not_before_ms > 0,
        })
    }

    proptest! {
        #[test]
        fn a_place_reads_back_from_key_and_value_and_a_torn_one_does_not(entry in entry(), bytes in any::<[u8; 16]>(), cut in 0usize..35) {
            let (key, value) = (order_key([1, 2], &entry), order_value(Fingerprint(bytes), &entry));
            let fingerprint = entry.is_delayed().then_some(Fingerprint(bytes));
            prop_assert_eq!(read_order(&key, &value), Some((fingerprint, entry)));
            prop_assert_eq!(read_order(&key[..cut.min(19)], &value), None);
            prop_assert_eq!(read_entry(&entry_value(&entry)), Some(entry));
            let whole = entry_value(&entry);
            prop_assert!(cut == 26 || cut >= whole.len() || read_entry(&whole[..cut]).is_none());
        }

        #[test]
        fn keys_sort_by_site_then_rank_and_by_moment(a in entry(), b in entry()) {
            let by_site = |entry: &IndexEntry| (entry.site, entry.rank());
            let by_moment = |entry: &IndexEntry| (entry.not_before_ms, entry.site, entry.rank());
            let keys = order_key([0, 0], &a).cmp(&order_key([0, 0], &b));
            match (a.is_delayed(), b.is_delayed()) {
                (false, false) => prop_assert_eq!(keys, by_site(&a).cmp(&by_site(&b))),
                (true, true) => prop_assert_eq!(keys, by_moment(&a).cmp(&by_moment(&b))),
                (a, b) => prop_assert_eq!(keys, a.cmp(&b)),
            }
        }

        #[test]
        fn a_record_reads_back_and_a_torn_one_does_not_panic(texts in prop::collection::vec(".{0,40}", 5), numbers in any::<(u16, u8, u8, i64)>(), cut in any::<prop::sample::Index>()) {
            let waiting = FrontierUrl {
                context: UrlContext {
                    key: (numbers.1 > 127).then(|| texts[2].clone()),
                    policy: Policy::PRESETS[usize::from(numbers.2 % 3)],
                    depth: numbers.0,
                    sighting: SIGHTINGS[usize::from(numbers.1 % 3)],
                    via: (numbers.2 > 127).then(|| texts[4].clone()),
                    chain: texts[..usize::from(numbers.2 % 4)].to_vec(),
                    priority: i64::from(numbers.2 % 11).try_into().unwrap(),
                    metadata: entries(&[("a", texts[0].as_str())][..usize::from(numbers.2 % 2)]).try_into().unwrap(),
                    visit: u32::from(numbers.0),
                    trail: (0..numbers.2 % 9).map(|passed| (Pattern(u32::from(passed) * 77), numbers.0)).collect(),
                    ..UrlContext::of_seed(CrawlName::new(&texts[0]).unwrap_or_default(), texts[1].clone(), texts[3].as_str().into())
                },
                traps: TRAPS[usize::from(numbers.2 % 3)],
                rank: (numbers.2 > 127).then_some(u32::from(numbers.0) * 5),
                content: (numbers.1 > 127).then_some(u32::from(numbers.0)),
                failures: numbers.1,
                blocks: numbers.2,
                lost: numbers.2 % (MOST_LOST + 1),
                not_before_ms: numbers.3,
                written_at_ms: numbers.3.wrapping_add(1),
                admitted_at_ms: numbers.3,
                definition: numbers.3.cast_unsigned(),
                visits: (numbers.1 > 100).then(|| Box::new(Visits {
                    version: PageVersion {
                        content_hash: Some(texts[0].clone()),
                        etag: (numbers.2 > 127).then(|| texts[1].clone()),
                        last_modified: None,
                    },
                    visited_at_ms: numbers.3,
                    misses: numbers.1,
                    changes: ChangeRate { intervals: numbers.0, changed: 1, span_ms: numbers.3.unsigned_abs() },
                })),
            };
            let value = record_value(&waiting, vec![]);
            let _ = read_record(&value[..cut.index(value.len())]);
            prop_assert_eq!(read_record(&value), Some(waiting));
        }
    }
}
