//! Records on disk.

use std::collections::BTreeMap;

use orbweaver_messages::{
    ChangeRate, DiscoveryKind, FrontierUrl, Millis, PageVersion, Trail, Traps, UrlContext, Visits,
};
use orbweaver_url::{CrawlName, Fingerprint, Policy};
use serde::{Deserialize, Serialize};

use crate::leases::LOST_DISPATCHES;

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
    listed_modified_ms: Option<Millis>,
    #[serde(borrow)]
    visits: Option<StoredVisits<'a>>,
}

/// Stored form of [`Visits`].
#[derive(Serialize, Deserialize)]
struct StoredVisits<'a> {
    /// Content hash, text hash, `ETag` and `Last-Modified` of the version.
    #[serde(borrow)]
    version: [Option<&'a str>; 4],
    visited_at_ms: Millis,
    media_type: Option<&'a str>,
    misses: u8,
    /// Intervals, and those with a change.
    changes: [u16; 2],
    span_ms: u64,
}

impl<'a> StoredVisits<'a> {
    fn of(visits: &'a Visits) -> Self {
        let Visits { version, visited_at_ms, media_type, misses, changes } = visits;
        let PageVersion { content_hash, text_hash, etag, last_modified } = version;
        Self {
            version: [content_hash, text_hash, etag, last_modified].map(Option::as_deref),
            visited_at_ms: *visited_at_ms,
            media_type: media_type.as_deref(),
            misses: *misses,
            changes: [changes.intervals, changes.changed],
            span_ms: changes.span_ms,
        }
    }

    fn read(&self) -> Visits {
        let [content_hash, text_hash, etag, last_modified] = self.version.map(|text| text.map(str::to_owned));
        let [intervals, changed] = self.changes;
        Visits {
            version: PageVersion { content_hash, text_hash, etag, last_modified },
            visited_at_ms: self.visited_at_ms,
            media_type: self.media_type.map(str::to_owned),
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

const SIGHTINGS: [DiscoveryKind; 8] = [
    DiscoveryKind::Seed,
    DiscoveryKind::Link,
    DiscoveryKind::Redirect,
    DiscoveryKind::Recrawl,
    DiscoveryKind::Sitemap,
    DiscoveryKind::Requisite,
    DiscoveryKind::External,
    DiscoveryKind::Update,
];
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
        listed_modified_ms: context.listed_modified_ms,
        visits: waiting.visits.as_deref().map(StoredVisits::of),
    };
    #[allow(clippy::expect_used, reason = "numbers, texts and a list of known length always serialize into a vector")]
    postcard::to_extend(&stored, buffer).expect("numbers and texts serialize")
}

/// Decodes the record at the start of a value. `None` if it is damaged.
pub(super) fn read_record(value: &[u8]) -> Option<Box<FrontierUrl>> {
    let (stored, _): (Stored<'_>, _) = postcard::take_from_bytes(value).ok()?;
    Some(Box::new(FrontierUrl {
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
            listed_modified_ms: stored.listed_modified_ms,
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
    }))
}

fn entries(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::Pattern;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_record_reads_back_and_a_torn_one_does_not_panic(texts in prop::collection::vec(".{0,40}", 5), numbers in any::<(u16, u8, u8, i64)>(), cut in any::<prop::sample::Index>()) {
            let waiting = FrontierUrl {
                context: UrlContext {
                    key: (numbers.1 > 127).then(|| texts[2].clone()),
                    policy: Policy::PRESETS[usize::from(numbers.2 % 3)],
                    depth: numbers.0,
                    sighting: SIGHTINGS[usize::from(numbers.1) % SIGHTINGS.len()],
                    via: (numbers.2 > 127).then(|| texts[4].clone()),
                    chain: texts[..usize::from(numbers.2 % 4)].to_vec(),
                    priority: i64::from(numbers.2 % 11).try_into().unwrap(),
                    metadata: entries(&[("a", texts[0].as_str())][..usize::from(numbers.2 % 2)]).try_into().unwrap(),
                    visit: u32::from(numbers.0),
                    listed_modified_ms: (numbers.1 > 99).then_some(numbers.3),
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
                        text_hash: (numbers.2 % 3 > 0).then(|| texts[2].clone()),
                        etag: (numbers.2 > 127).then(|| texts[1].clone()),
                        last_modified: None,
                    },
                    visited_at_ms: numbers.3,
                    media_type: (numbers.2 % 2 == 1).then(|| texts[1].clone()),
                    misses: numbers.1,
                    changes: ChangeRate { intervals: numbers.0, changed: 1, span_ms: numbers.3.unsigned_abs() },
                })),
            };
            let value = record_value(&waiting, vec![]);
            let _ = read_record(&value[..cut.index(value.len())]);
            prop_assert_eq!(read_record(&value), Some(Box::new(waiting)));
        }
    }
}
