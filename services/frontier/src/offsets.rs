//! Set of offsets that are close together: one bit each.

use std::{collections::BTreeMap, ops::Range};

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

    /// Returns the number of offsets.
    pub(crate) fn len(&self) -> usize {
        self.chunks.values().flat_map(|words| words.iter()).map(|word| word.count_ones() as usize).sum()
    }

    /// Returns `true` if there is an offset in a chunk of this range.
    pub(crate) fn any_chunk_in(&self, range: Range<Offset>) -> bool {
        self.chunks.range(range.start >> CHUNK_BITS..range.end.div_ceil(1 << CHUNK_BITS)).next().is_some()
    }

    /// Appends the set to a buffer.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        to.extend((self.chunks.len() as u64).to_le_bytes());
        for (chunk, words) in &self.chunks {
            to.extend(chunk.to_le_bytes());
            words.iter().for_each(|word| to.extend(word.to_le_bytes()));
        }
    }

    /// Reads a set from the start of `bytes`, and returns the rest. `None` if it is damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (number, mut rest) = bytes.split_first_chunk()?;
        let mut offsets = Self::default();
        for _ in 0..u64::from_le_bytes(*number) {
            let (chunk, words);
            (chunk, rest) = rest.split_first_chunk()?;
            (words, rest) = rest.split_at_checked(8 * WORDS)?;
            let mut read = Box::new([0; WORDS]);
            read.iter_mut().zip(words.as_chunks().0).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
            offsets.chunks.insert(u64::from_le_bytes(*chunk), read);
        }
        Some((offsets, rest))
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
            prop_assert_eq!(offsets.len(), model.len());
            let chunk = far >> CHUNK_BITS << CHUNK_BITS;
            let is_in = |offset: &u64| (chunk..chunk + (1 << CHUNK_BITS)).contains(offset);
            prop_assert_eq!(offsets.any_chunk_in(chunk..chunk + (1 << CHUNK_BITS)), model.iter().any(is_in));
            let mut bytes = vec![];
            offsets.encode(&mut bytes);
            bytes.push(7);
            let (decoded, rest) = Offsets::decode(&bytes).unwrap();
            prop_assert!(decoded.iter().eq(model.iter().copied()) && rest == [7]);
            prop_assert!(Offsets::decode(&bytes[..bytes.len() - 2]).is_none());
            model.iter().for_each(|offset| offsets.remove(*offset));
            prop_assert!(offsets.chunks.is_empty());
        }
    }
}
