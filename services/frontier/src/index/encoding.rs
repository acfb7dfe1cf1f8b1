//! Keys and values of the index on disk. Numbers in keys are big endian, so that keys sort as what they say.

use orbweaver_log::Offset;
use orbweaver_messages::{Millis, Sighting, Waiting};
use orbweaver_url::{Fingerprint, Policy};
use serde::{Deserialize, Serialize};

use super::{Place, Rank, SiteId};

/// Third byte of a key of the orders: by site and rank.
pub(super) const QUEUED: u8 = b'q';
/// Third byte of a key of the orders: by moment.
pub(super) const DELAYED: u8 = b'w';

/// A partition: the first two bytes of every key.
pub(super) type Prefix = [u8; 2];

pub(super) fn place_key(partition: Prefix, fingerprint: Fingerprint) -> [u8; 18] {
    let mut key = [0; 18];
    key[..2].copy_from_slice(&partition);
    key[2..].copy_from_slice(&fingerprint.0);
    key
}

pub(super) fn record_key(partition: Prefix, offset: Offset) -> [u8; 10] {
    let mut key = [0; 10];
    key[..2].copy_from_slice(&partition);
    key[2..].copy_from_slice(&offset.to_be_bytes());
    key
}

/// The first key of a site that is not below `rank`.
pub(super) fn queue_key(partition: Prefix, site: SiteId, (depth, offset): Rank) -> [u8; 21] {
    let mut key = [0; 21];
    key[..2].copy_from_slice(&partition);
    key[2] = QUEUED;
    key[3..11].copy_from_slice(&site.0.to_be_bytes());
    key[11..13].copy_from_slice(&depth.to_be_bytes());
    key[13..].copy_from_slice(&offset.to_be_bytes());
    key
}

/// The key of a place in the order that it stands in.
pub(super) fn order_key(partition: Prefix, place: &Place) -> Vec<u8> {
    let queued = queue_key(partition, place.site, place.rank());
    if !place.is_delayed() {
        return queued.to_vec();
    }
    let mut key = delay_prefix(partition, place.not_before_ms).to_vec();
    key.extend_from_slice(&queued[3..]);
    key
}

/// The first key that is delayed until `moment`.
pub(super) fn delay_prefix(partition: Prefix, moment: Millis) -> [u8; 11] {
    let mut key = [0; 11];
    key[..2].copy_from_slice(&partition);
    key[2] = DELAYED;
    key[3..].copy_from_slice(&moment.max(0).to_be_bytes());
    key
}

/// What stands beside a key of the orders.
pub(super) fn order_value(fingerprint: Fingerprint, place: &Place) -> Vec<u8> {
    let mut value = vec![place.failures, place.blocks];
    if place.is_delayed() {
        value.extend_from_slice(&fingerprint.0);
    }
    value
}

/// A place in an order, and its fingerprint if it is delayed. `None` when that is damaged.
pub(super) fn read_order(key: &[u8], value: &[u8]) -> Option<(Option<Fingerprint>, Place)> {
    let (kind, rest) = key.get(2..)?.split_first()?;
    let (not_before_ms, rest) = match *kind {
        DELAYED => (i64::from_be_bytes(*rest.first_chunk()?), rest.get(8..)?),
        QUEUED => (0, rest),
        _ => return None,
    };
    let rest: &[u8; 18] = rest.try_into().ok()?;
    let (counts, fingerprint) = value.split_at_checked(2)?;
    let place = Place {
        site: SiteId(u64::from_be_bytes(*rest.first_chunk()?)),
        depth: u16::from_be_bytes([rest[8], rest[9]]),
        offset: u64::from_be_bytes(*rest[10..].first_chunk()?),
        failures: counts[0],
        blocks: counts[1],
        not_before_ms,
    };
    Some((fingerprint.try_into().ok().map(Fingerprint), place))
}

pub(super) fn place_value(place: &Place) -> [u8; 28] {
    let mut value = [0; 28];
    value[..8].copy_from_slice(&place.offset.to_be_bytes());
    value[8..16].copy_from_slice(&place.site.0.to_be_bytes());
    value[16..24].copy_from_slice(&place.not_before_ms.to_be_bytes());
    value[24..26].copy_from_slice(&place.depth.to_be_bytes());
    value[26..].copy_from_slice(&[place.failures, place.blocks]);
    value
}

/// `None` when the value is damaged.
pub(super) fn read_place(value: &[u8]) -> Option<Place> {
    let value: &[u8; 28] = value.try_into().ok()?;
    let number = |at: usize| value[at..].first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    Some(Place {
        offset: number(0)?,
        site: SiteId(number(8)?),
        not_before_ms: number(16)?.cast_signed(),
        depth: u16::from_be_bytes([value[24], value[25]]),
        failures: value[26],
        blocks: value[27],
    })
}

/// A record as it is stored: what [`Waiting`] says, in few bytes.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    fingerprint: [u8; 16],
    depth: u16,
    failures: u8,
    blocks: u8,
    sighting: u8,
    admitted_at_ms: Millis,
    not_before_ms: Millis,
    crawl: &'a str,
    site: &'a str,
    via: Option<&'a str>,
    url: &'a str,
    key: Option<&'a str>,
    policy: Option<Policy>,
    #[serde(borrow)]
    chain: Vec<&'a str>,
}

const SIGHTINGS: [Sighting; 3] = [Sighting::Seed, Sighting::Link, Sighting::Redirect];

pub(super) fn record_value(waiting: &Waiting) -> Vec<u8> {
    let sighting = SIGHTINGS.iter().position(|known| *known == waiting.sighting).unwrap_or_default();
    let stored = Stored {
        fingerprint: waiting.fingerprint.0,
        depth: waiting.depth,
        failures: waiting.failures,
        blocks: waiting.blocks,
        sighting: u8::try_from(sighting).unwrap_or_default(),
        admitted_at_ms: waiting.admitted_at_ms,
        not_before_ms: waiting.not_before_ms,
        crawl: &waiting.crawl,
        site: &waiting.site,
        via: waiting.via.as_deref(),
        url: &waiting.url,
        key: waiting.key.as_deref(),
        // Most crawls have the standard one, whose text would be longer than all the numbers.
        policy: (!waiting.policy.is_standard()).then_some(waiting.policy),
        chain: waiting.chain.iter().map(String::as_str).collect(),
    };
    let room = waiting.url.len() + waiting.via.as_deref().map_or(0, str::len) + waiting.site.len() + 64;
    #[allow(clippy::expect_used, reason = "numbers, texts and a list of known length always serialise into a vector")]
    postcard::to_extend(&stored, Vec::with_capacity(room)).expect("numbers and texts serialise")
}

/// `None` when the value is damaged.
pub(super) fn read_record(value: &[u8]) -> Option<Waiting> {
    let stored: Stored<'_> = postcard::from_bytes(value).ok()?;
    Some(Waiting {
        crawl: stored.crawl.to_owned(),
        fingerprint: Fingerprint(stored.fingerprint),
        url: stored.url.to_owned(),
        key: stored.key.map(str::to_owned),
        policy: stored.policy.unwrap_or_default(),
        site: stored.site.to_owned(),
        depth: stored.depth,
        sighting: *SIGHTINGS.get(usize::from(stored.sighting))?,
        via: stored.via.map(str::to_owned),
        chain: stored.chain.into_iter().map(str::to_owned).collect(),
        failures: stored.failures,
        blocks: stored.blocks,
        not_before_ms: stored.not_before_ms,
        admitted_at_ms: stored.admitted_at_ms,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place() -> impl Strategy<Value = Place> {
        let numbers = (any::<u64>(), any::<u64>(), any::<u16>(), any::<u8>(), any::<u8>(), 0..i64::MAX);
        numbers.prop_map(|(offset, site, depth, failures, blocks, not_before_ms)| Place {
            offset,
            site: SiteId(site),
            depth,
            failures,
            blocks,
            not_before_ms: if blocks > 127 { not_before_ms } else { 0 },
        })
    }

    proptest! {
        #[test]
        fn a_place_reads_back_from_key_and_value_and_a_torn_one_does_not(place in place(), bytes in any::<[u8; 16]>(), cut in 0usize..28) {
            let (key, value) = (order_key([1, 2], &place), order_value(Fingerprint(bytes), &place));
            let fingerprint = place.is_delayed().then_some(Fingerprint(bytes));
            prop_assert_eq!(read_order(&key, &value), Some((fingerprint, place)));
            prop_assert_eq!(read_order(&key[..cut.min(20)], &value), None);
            prop_assert_eq!(read_place(&place_value(&place)), Some(place));
            prop_assert_eq!(read_place(&place_value(&place)[..cut]), None);
        }

        #[test]
        fn keys_sort_by_site_then_rank_and_by_moment(a in place(), b in place()) {
            let by_site = |place: &Place| (place.site, place.rank());
            let by_moment = |place: &Place| (place.not_before_ms, place.site, place.rank());
            let keys = order_key([0, 0], &a).cmp(&order_key([0, 0], &b));
            match (a.is_delayed(), b.is_delayed()) {
                (false, false) => prop_assert_eq!(keys, by_site(&a).cmp(&by_site(&b))),
                (true, true) => prop_assert_eq!(keys, by_moment(&a).cmp(&by_moment(&b))),
                (a, b) => prop_assert_eq!(keys, a.cmp(&b)),
            }
        }

        #[test]
        fn a_record_reads_back_and_a_torn_one_does_not_panic(texts in prop::collection::vec(".{0,40}", 5), numbers in any::<(u16, u8, u8, i64)>(), cut in any::<prop::sample::Index>()) {
            let waiting = Waiting {
                crawl: texts[0].clone(),
                fingerprint: Fingerprint::of(&texts[0], &texts[1]),
                url: texts[1].clone(),
                key: (numbers.1 > 127).then(|| texts[2].clone()),
                policy: Policy::PRESETS[usize::from(numbers.2 % 3)],
                site: texts[3].clone(),
                depth: numbers.0,
                sighting: SIGHTINGS[usize::from(numbers.1 % 3)],
                via: (numbers.2 > 127).then(|| texts[4].clone()),
                chain: texts[..usize::from(numbers.2 % 4)].to_vec(),
                failures: numbers.1,
                blocks: numbers.2,
                not_before_ms: numbers.3,
                admitted_at_ms: numbers.3,
            };
            let value = record_value(&waiting);
            let _ = read_record(&value[..cut.index(value.len())]);
            prop_assert_eq!(read_record(&value), Some(waiting));
        }
    }
}
