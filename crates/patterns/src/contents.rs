//! Set of the pages of a site that were seen, and of their digests, as hashes.

/// Number of entries in which a hash may be stored; a new hash replaces the oldest of them.
const WAYS: usize = 4;
/// Minimum capacity, in entries.
const LEAST: usize = 16;
/// Maximum capacity, in entries. Beyond it, some of the oldest hashes are forgotten and count as new when seen again.
const MOST: usize = 8192;

/// Set of hashes that forgets some of them instead of growing beyond its limit.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// Groups of [`WAYS`] entries, the newest first; 0 marks a free entry.
    places: Vec<u32>,
    held: usize,
}

impl Contents {
    /// Adds a hash. Returns `true` if it is new.
    pub(crate) fn add(&mut self, hash: u32) -> bool {
        let hash = hash.max(1);
        if self.held * 2 >= self.places.len() && self.places.len() < MOST {
            self.grow();
        }
        self.put(hash)
    }

    /// Returns the capacity in four-byte cells.
    pub(crate) fn cells(&self) -> usize {
        self.places.len()
    }

    fn put(&mut self, hash: u32) -> bool {
        let first = hash as usize % (self.places.len() / WAYS) * WAYS;
        let ways = &mut self.places[first..first + WAYS];
        if ways.contains(&hash) {
            return false;
        }
        self.held += usize::from(ways[WAYS - 1] == 0);
        ways.rotate_right(1);
        ways[0] = hash;
        true
    }

    fn grow(&mut self) {
        let larger = (self.places.len() * 2).max(LEAST);
        let old = std::mem::replace(&mut self.places, vec![0; larger]);
        self.held = 0;
        // The newest hash of a group is inserted last, so that it is first again.
        for hash in old.into_iter().rev().filter(|hash| *hash != 0) {
            self.put(hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u32) -> u32 {
        (crate::mix(u64::from(number), 7).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
    }

    #[test]
    fn nearly_all_that_was_met_is_known_and_what_was_not_is_new() {
        for size in [10, 100, 1000, 3500] {
            let mut contents = Contents::default();
            assert!((0..size).all(|number| contents.add(hash(number))));
            let forgotten = (0..size).filter(|number| contents.add(hash(*number))).count();
            assert!(forgotten <= size as usize / 8, "{forgotten} of {size}");
            assert!(!contents.add(hash(size - 1)));
        }
    }

    #[test]
    fn it_does_not_grow_beyond_its_bound_and_takes_nothing_new_for_known() {
        let mut contents = Contents::default();
        assert!((0..100_000).all(|number| contents.add(hash(number))));
        assert_eq!(contents.cells(), MOST);
    }
}
