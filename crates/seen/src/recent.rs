//! The cache of what was met lately.

use orbweaver_url::Fingerprint;

/// Entries of a set; with their depths they fill one cache line, so that a look-up costs one access to memory.
const WAYS: usize = 3;

/// No URL has the fingerprint zero (its chance is 2^-128), so that it can mean an empty place.
const EMPTY: [u8; 16] = [0; 16];

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Set {
    /// The most recently met first.
    fingerprints: [[u8; 16]; WAYS],
    depths: [u16; WAYS],
}

const EMPTY_SET: Set = Set { fingerprints: [EMPTY; WAYS], depths: [0; WAYS] };

/// A bounded cache, fingerprint to depth: sets of three places, of which the one least recently met is given up.
/// What it holds is true for ever, since nothing that was let through is ever taken back; what it does not hold is unknown.
#[derive(Debug)]
pub struct Recent {
    sets: Vec<Set>,
    counts: RecentCounts,
}

/// How the cache answered, and how full it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecentCounts {
    /// Look-ups of what it held.
    pub hits: u64,
    /// Look-ups of what it did not hold.
    pub misses: u64,
    /// Places that are taken.
    pub filled: u64,
    /// All places.
    pub places: u64,
}

impl Recent {
    /// A cache of about `entries` places, 21 bytes each (rounded to a power of two of 64 bytes).
    #[must_use]
    pub fn new(entries: usize) -> Self {
        let sets = vec![EMPTY_SET; entries.div_ceil(WAYS).max(1).next_power_of_two()];
        let counts = RecentCounts { places: (sets.len() * WAYS) as u64, ..RecentCounts::default() };
        Self { sets, counts }
    }

    /// How it answered so far, and how full it is.
    #[must_use]
    pub fn counts(&self) -> RecentCounts {
        self.counts
    }

    /// The depth at which this URL was let through, if that is remembered.
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

    /// Remembers that this URL was let through at this depth.
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

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.sets.fill(EMPTY_SET);
        self.counts.filled = 0;
    }

    fn set(&mut self, fingerprint: Fingerprint) -> &mut Set {
        let [a, b, c, d, e, f, g, h, ..] = fingerprint.0;
        let mask = self.sets.len() as u64 - 1;
        // A fingerprint is a hash, so that its bytes are spread already; the mask is below the length.
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

    use super::*;

    fn fingerprint(number: u32) -> Fingerprint {
        Fingerprint::of("test", &number.to_string())
    }

    #[test]
    fn a_set_fills_a_cache_line() {
        assert_eq!(std::mem::size_of::<Set>(), 64);
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
            let mut told = HashMap::<u32, u16>::new();
            for (number, depth) in steps {
                recent.insert(fingerprint(number), depth);
                let least = told.entry(number).or_insert(depth);
                *least = depth.min(*least);
                prop_assert!(recent.get(fingerprint(number)).is_some());
                for (number, least) in &told {
                    if let Some(depth) = recent.get(fingerprint(*number)) {
                        prop_assert!(depth >= *least);
                    }
                }
            }
            recent.clear();
            prop_assert!((0..40).all(|number| recent.get(fingerprint(number)).is_none()));
        }
    }
}
