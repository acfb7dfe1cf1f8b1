//! The cache of recently seen URLs.

use orbweaver_url::Fingerprint;

/// Entries per set; with their depths they fill one cache line, so a lookup costs one memory access.
const WAYS: usize = 3;

/// No URL has the fingerprint zero (its probability is 2^-128), so it can mark an empty entry.
const EMPTY: [u8; 16] = [0; 16];

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Set {
    /// Most recently used first.
    fingerprints: [[u8; 16]; WAYS],
    depths: [u16; WAYS],
}

const _: () = assert!(size_of::<Set>() == 64);

const EMPTY_SET: Set = Set { fingerprints: [EMPTY; WAYS], depths: [0; WAYS] };

/// A bounded cache, fingerprint to depth: sets of three entries, of which the least recently used is evicted. A hit
/// remains valid, since no admission is ever withdrawn; a miss says nothing.
#[derive(Debug)]
pub struct Recent {
    sets: Vec<Set>,
    counts: RecentCounts,
}

/// Hits and misses of the cache, and its fill level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecentCounts {
    /// Look-ups that were hits.
    pub hits: u64,
    /// Look-ups that were misses.
    pub misses: u64,
    /// Used entries.
    pub filled: u64,
    /// Capacity in entries.
    pub places: u64,
}

impl Recent {
    /// Creates a cache of about `entries` entries, 21 bytes each (rounded to a power of two of 64 bytes).
    #[must_use]
    pub fn new(entries: usize) -> Self {
        let sets = vec![EMPTY_SET; entries.div_ceil(WAYS).max(1).next_power_of_two()];
        let counts = RecentCounts { places: (sets.len() * WAYS) as u64, ..RecentCounts::default() };
        Self { sets, counts }
    }

    /// Returns the hits and misses so far, and the fill level.
    #[must_use]
    pub fn counts(&self) -> RecentCounts {
        self.counts
    }

    /// Returns the depth at which this URL was admitted, if it is cached.
    pub fn get(&mut self, fingerprint: Fingerprint) -> Option<u16> {
        let set = self.set(fingerprint);
        let way = set.fingerprints.iter().position(|known| *known == fingerprint.0);
        let Some(way) = way.filter(|_| fingerprint.0 != EMPTY) else {
            self.counts.misses += 1;
            return None;
        };
        let depth = set.depths[way];
        set.promote(way);
        self.counts.hits += 1;
        Some(depth)
    }

    /// Caches the admission of this URL at this depth.
    pub fn insert(&mut self, fingerprint: Fingerprint, depth: u16) {
        let set = self.set(fingerprint);
        match set.fingerprints.iter().position(|known| *known == fingerprint.0) {
            Some(way) => {
                set.depths[way] = set.depths[way].min(depth);
                set.promote(way);
            }
            None => {
                let fills = set.fingerprints[WAYS - 1] == EMPTY;
                set.fingerprints[WAYS - 1] = fingerprint.0;
                set.depths[WAYS - 1] = depth;
                set.promote(WAYS - 1);
                self.counts.filled += u64::from(fills);
            }
        }
    }

    fn set(&mut self, fingerprint: Fingerprint) -> &mut Set {
        let [a, b, c, d, e, f, g, h, ..] = fingerprint.0;
        let mask = self.sets.len() as u64 - 1;
        // A fingerprint is a hash, so its bytes are already uniform; the mask is below the length.
        let place = (u64::from_le_bytes([a, b, c, d, e, f, g, h]) & mask) as usize;
        &mut self.sets[place]
    }
}

impl Set {
    fn promote(&mut self, way: usize) {
        self.fingerprints[..=way].rotate_right(1);
        self.depths[..=way].rotate_right(1);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use orbweaver_url::CrawlName;

    use super::*;

    fn fingerprint(number: u32) -> Fingerprint {
        Fingerprint::of(&CrawlName::default(), &number.to_string())
    }

    #[test]
    fn the_least_recently_met_is_given_up() {
        let mut recent = Recent::new(1);
        (0..3).for_each(|number| recent.insert(fingerprint(number), 1));
        assert_eq!(recent.get(fingerprint(0)), Some(1));
        recent.insert(fingerprint(3), 1);
        let held = (0..4).filter(|number| recent.get(fingerprint(*number)).is_some()).collect::<Vec<_>>();
        assert_eq!(held, [0, 2, 3]);
        assert_eq!(recent.counts(), RecentCounts { hits: 4, misses: 1, filled: 3, places: 3 });
    }

    proptest! {
        #[test]
        fn what_the_cache_answers_is_the_least_depth_that_it_was_told_since(
            steps in proptest::collection::vec((0u32..40, 0u16..5), 0..300),
        ) {
            let mut recent = Recent::new(12);
            let mut reported = HashMap::<u32, u16>::new();
            for (number, depth) in steps {
                recent.insert(fingerprint(number), depth);
                let least = reported.entry(number).or_insert(depth);
                *least = depth.min(*least);
                prop_assert!(recent.get(fingerprint(number)).is_some());
                for (number, least) in &reported {
                    if let Some(depth) = recent.get(fingerprint(*number)) {
                        prop_assert!(depth >= *least);
                    }
                }
            }
        }
    }
}
