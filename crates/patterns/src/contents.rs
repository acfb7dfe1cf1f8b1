//! Which pages of a site were met, and what they said, as hashes.

/// A hash has one of so many places; what was put there longest ago makes room.
const WAYS: usize = 4;
/// The least number of places.
const LEAST: usize = 16;
/// The most. Of what was met longest ago, some is forgotten then, and counts as new when it is met again.
const MOST: usize = 8192;

/// A set of hashes, which forgets some rather than grow beyond its bound.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// Sets of [`WAYS`] places, the latest first; 0 is a free one.
    places: Vec<u32>,
    held: usize,
}

impl Contents {
    /// Adds a hash. Whether it is new.
    pub(crate) fn add(&mut self, hash: u32) -> bool {
        let hash = hash.max(1);
        if self.held * 2 >= self.places.len() && self.places.len() < MOST {
            self.grow();
        }
        self.put(hash)
    }

    /// Numbers of four bytes that it holds.
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
        // The latest of a set last, so that it stands first again.
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
