//! Bloom filters of the fingerprints in an index. Nearly every URL that is admitted is new, and looking it up in the tables
//! would cost as much as the rest of the admission, only to find nothing.
//!
//! Nothing can be removed from a filter. Each therefore has URLs of consecutive records, and is dropped once all of those
//! have ended; the re-append of old records (docs/protocol.md#re-append) bounds how long that takes. A filter has room for
//! as many URLs as all others together, so that memory follows the number of queued URLs, and a lookup searches few
//! filters.

use fastbloom::BloomFilter;
use orbweaver_log::Offset;
use orbweaver_url::Fingerprint;

/// Bounds of the number of URLs in a filter. Tests have many small ones.
const LEAST_ROOM: usize = if cfg!(test) { 2 } else { 4 << 10 };
const MOST_ROOM: usize = 4 << 20;
/// Probability that a filter mistakes a new URL for a known one, which costs a lookup in the tables. It takes 15 bits per URL;
/// there may be a dozen filters.
const FALSE_POSITIVES: f64 = 0.001;

/// Filters of all URLs of an index; those of the oldest records come first.
#[derive(Debug)]
pub(super) struct Filters(Vec<Filter>);

#[derive(Debug)]
struct Filter {
    bits: BloomFilter,
    urls: usize,
    most: usize,
    /// Highest offset of their records.
    last: Offset,
}

impl Filters {
    /// Returns the filters of an index with this number of entries, which must then be added.
    pub(super) fn with_room(entries: usize) -> Self {
        Self(vec![Filter::new(entries.clamp(LEAST_ROOM, MOST_ROOM))])
    }

    /// Adds a URL.
    pub(super) fn add(&mut self, fingerprint: Fingerprint, offset: Offset) {
        if self.0.last().is_none_or(|last| last.urls == last.most) {
            let others: usize = self.0.iter().map(|filter| filter.urls).sum();
            self.0.push(Filter::new(others.clamp(LEAST_ROOM, MOST_ROOM)));
        }
        if let Some(last) = self.0.last_mut() {
            last.bits.insert_hash(hash_of(fingerprint));
            last.urls += 1;
            last.last = last.last.max(offset);
        }
    }

    /// Returns `true` for a URL that was added, and rarely for one that was not.
    pub(super) fn may_contain(&self, fingerprint: Fingerprint) -> bool {
        let hash = hash_of(fingerprint);
        self.0.iter().rev().any(|filter| filter.bits.contains_hash(hash))
    }

    /// Drops the filters of URLs whose records are all below this offset: they have ended, or have newer records.
    pub(super) fn drop_below(&mut self, offset: Offset) {
        self.0.retain(|filter| filter.last >= offset);
    }
}

impl Filter {
    fn new(most: usize) -> Self {
        Self { bits: BloomFilter::with_false_pos(FALSE_POSITIVES).expected_items(most), urls: 0, most, last: 0 }
    }
}

/// Returns half of the fingerprint, which is a hash already. URLs made to share it cost lookups in the tables, and nothing else.
fn hash_of(fingerprint: Fingerprint) -> u64 {
    let [.., a, b, c, d, e, f, g, h] = fingerprint.0;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use orbweaver_url::CrawlName;

    use super::*;

    fn fingerprint(number: u64) -> Fingerprint {
        Fingerprint::of(&CrawlName::default(), &number.to_string())
    }

    #[test]
    fn all_urls_are_found_until_their_records_have_ended_and_few_others() {
        let mut filters = Filters::with_room(10);
        (0..200_000).for_each(|number| filters.add(fingerprint(number), number));
        assert!((0..200_000).all(|number| filters.may_contain(fingerprint(number))));
        let mistaken = (200_000..300_000).filter(|number| filters.may_contain(fingerprint(*number))).count();
        assert!(mistaken < 3_000, "{mistaken} of 100,000, with {} filters", filters.0.len());

        filters.drop_below(150_000);
        assert!((150_000..200_000).all(|number| filters.may_contain(fingerprint(number))));
        let kept = (0..100_000).filter(|number| filters.may_contain(fingerprint(*number))).count();
        assert!(kept < 60_000, "{kept} of 100,000");
    }

    #[test]
    fn memory_follows_the_urls_whose_records_are_left() {
        let mut filters = Filters::with_room(0);
        let mut most = 0;
        for number in 0..2_000_000u64 {
            filters.add(fingerprint(number), number);
            if number % 1_000 == 0 {
                filters.drop_below(number.saturating_sub(100_000));
                most = most.max(filters.0.iter().map(|filter| filter.bits.num_bits() / 8).sum());
            }
        }
        assert!(most < 1_000_000, "{most} bytes for 100,000 URLs");
    }
}
