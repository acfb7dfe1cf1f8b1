//! Set of offsets that are close together: one bit each.

use std::collections::BTreeMap;

use orbweaver_log::Offset;

/// Number of bits per chunk, as a power of two: a chunk takes 512 bytes.
const CHUNK_BITS: u32 = 12;
const WORDS: usize = (1 << CHUNK_BITS) / 64;

/// Set of offsets. It takes about one bit per offset between its lowest and its highest, and nothing for large gaps.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    chunks: BTreeMap<u64, Box<[u64; WORDS]>>,
}

fn locate(offset: Offset) -> (u64, usize, u64) {
    let low = offset % (1 << CHUNK_BITS);
    (offset >> CHUNK_BITS, (low / 64) as usize, 1 << (low % 64))
}

impl Offsets {
    pub(crate) fn insert(&mut self, offset: Offset) {
        let (chunk, word, bit) = locate(offset);
        self.chunks.entry(chunk).or_insert_with(|| Box::new([0; WORDS]))[word] |= bit;
    }

    pub(crate) fn remove(&mut self, offset: Offset) {
        let (chunk, word, bit) = locate(offset);
        let Some(words) = self.chunks.get_mut(&chunk) else { return };
        words[word] &= !bit;
        if words[word] == 0 && words.iter().all(|word| *word == 0) {
            self.chunks.remove(&chunk);
        }
    }

    pub(crate) fn contains(&self, offset: Offset) -> bool {
        let (chunk, word, bit) = locate(offset);
        self.chunks.get(&chunk).is_some_and(|words| words[word] & bit != 0)
    }

    /// Returns the lowest `most` offsets below `end`, in order.
    pub(crate) fn lowest_below(&self, end: Offset, most: usize) -> Vec<Offset> {
        self.iter().take_while(|offset| *offset < end).take(most).collect()
    }

    /// Returns all offsets, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Offset> + '_ {
        self.chunks.iter().flat_map(|(chunk, words)| {
            let base = chunk << CHUNK_BITS;
            words.iter().enumerate().filter(|(_, word)| **word != 0).flat_map(move |(at, word)| {
                let set = (0..64).filter(move |bit| word & (1 << bit) != 0);
                set.map(move |bit| base + at as u64 * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_agrees_with_an_ordinary_set(steps in prop::collection::vec((any::<bool>(), 0u64..20_000), 0..200), end in 0u64..20_000, far in 0u64..u64::MAX - 20_000) {
            let (mut offsets, mut model) = (Offsets::default(), BTreeSet::new());
            for (insert, offset) in steps {
                let offset = far + offset;
                if insert {
                    offsets.insert(offset);
                    model.insert(offset);
                } else {
                    offsets.remove(offset);
                    model.remove(&offset);
                }
                prop_assert_eq!(offsets.contains(offset), insert);
            }
            let expected: Vec<u64> = model.range(..far + end).take(7).copied().collect();
            prop_assert_eq!(offsets.lowest_below(far + end, 7), expected);
            prop_assert!(offsets.iter().eq(model.iter().copied()));
            model.iter().for_each(|offset| offsets.remove(*offset));
            prop_assert!(offsets.chunks.is_empty());
        }
    }
}
