//! The words of a site's URLs that are distinguished from each other.

/// Maximum number of distinct words in one place (below one directory, as the value of one parameter). Those seen first
/// are kept, in a crawl by depth those nearest to the seeds; later ones are not distinguished.
const IN_ONE_PLACE: u8 = 32;
/// Maximum number of distinct words in all places of a site.
const IN_ALL: usize = 256;

/// The distinct words, as hashes of place and word. Most sites have few: a list is smaller than a hash table, and searched without
/// hashing.
#[derive(Debug, Default)]
pub(crate) struct Words {
    known: Vec<u32>,
    /// Number of distinct words, by place.
    in_place: Vec<(u32, u8)>,
}

impl Words {
    /// Returns `true` if this word is distinct in this place; a new one is added if there is room.
    pub(crate) fn is_distinct(&mut self, place: u64, word: u64) -> bool {
        let word = fold(word);
        if self.known.contains(&word) {
            return true;
        }
        if self.known.len() >= IN_ALL {
            return false;
        }
        let place = fold(place);
        match self.in_place.iter_mut().find(|(known, _)| *known == place) {
            Some((_, IN_ONE_PLACE..)) => return false,
            Some((_, here)) => *here += 1,
            None => self.in_place.push((place, 1)),
        }
        self.known.push(word);
        true
    }

    /// Returns the approximate memory used, in four-byte cells.
    pub(crate) fn cells(&self) -> usize {
        self.known.capacity() + 2 * self.in_place.capacity()
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the upper half of a product has all of its bits mixed")]
fn fold(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix;

    #[test]
    fn the_first_words_of_a_place_stand_for_themselves_and_go_on_to() {
        let mut words = Words::default();
        let word = |place: u64, number: u64| mix(mix(9, place), number);
        let count = |words: &mut Words, place: u64| {
            (0..1000).filter(|number| words.is_distinct(mix(3, place), word(place, *number))).count()
        };
        assert_eq!((count(&mut words, 1), count(&mut words, 1), count(&mut words, 2)), (32, 32, 32));
        let all: usize = (3..1000).map(|place| count(&mut words, place)).sum();
        assert_eq!(all + 64, IN_ALL);
        assert!(words.cells() < 4_000, "{}", words.cells());
    }
}
