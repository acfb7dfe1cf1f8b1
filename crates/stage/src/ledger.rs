//! The incomplete offsets of one topic-partition, and the commit point that follows from them.
//!
//! The commit point is computed, never verified: it is the lowest incomplete offset, whatever the order in which the
//! others completed. Incomplete offsets are bits in chunks of 32,768, and a chunk without a set bit costs one pointer,
//! so 20 million outstanding offsets take 2.5 MB and a gap of a billion (compaction) takes 0.25 MB.

use std::collections::VecDeque;

use orbweaver_log::Offset;

/// Bits per chunk.
const CHUNK: u64 = 1 << 15;
const WORDS: usize = (CHUNK / 64) as usize;

/// Bits of incomplete offsets, and the number of set bits.
#[derive(Debug)]
struct Chunk {
    words: [u64; WORDS],
    set: u32,
}

/// The ledger of one topic-partition.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// A bit is set while its offset is incomplete; `None` is a chunk without a set bit.
    chunks: VecDeque<Option<Box<Chunk>>>,
    /// Offset of the first bit of the first chunk, a multiple of [`CHUNK`].
    base: Offset,
    /// Lowest incomplete offset; `next` if there is none.
    low: Offset,
    /// Next offset to read; every lower offset was delivered, or skipped by the log.
    next: Offset,
    outstanding: usize,
    /// An empty chunk kept for reuse.
    spare: Option<Box<Chunk>>,
}

/// Returns the offset after `offset`: the only place that adds one.
fn after(offset: Offset) -> Offset {
    offset + 1
}

impl Ledger {
    /// Creates a ledger without outstanding offsets that starts reading at `from`.
    pub(crate) fn starting_at(from: Offset) -> Self {
        Self { chunks: VecDeque::new(), base: 0, low: from, next: from, outstanding: 0, spare: None }
    }

    /// Records that `offset` was delivered and is outstanding; offsets skipped before it count as complete. Returns
    /// `false` if the offset is below the next one to read: the log delivered it twice.
    pub(crate) fn deliver(&mut self, offset: Offset) -> bool {
        if offset < self.next {
            return false;
        }
        self.skip_to(offset);
        if self.chunks.is_empty() {
            self.base = offset - offset % CHUNK;
        }
        let (chunk, word, bit) = self.locate(offset);
        while self.chunks.len() <= chunk {
            self.chunks.push_back(None);
        }
        let spare = &mut self.spare;
        let chunk = self.chunks[chunk]
            .get_or_insert_with(|| spare.take().unwrap_or_else(|| Box::new(Chunk { words: [0; WORDS], set: 0 })));
        chunk.words[word] |= bit;
        chunk.set += 1;
        self.outstanding += 1;
        self.next = after(offset);
        true
    }

    /// Records that `offset` is complete. Returns `false` if it was not outstanding.
    pub(crate) fn complete(&mut self, offset: Offset) -> bool {
        if offset < self.low || offset >= self.next {
            return false;
        }
        let (index, word, bit) = self.locate(offset);
        let Some(slot) = self.chunks.get_mut(index) else { return false };
        let Some(chunk) = slot.as_mut().filter(|chunk| chunk.words[word] & bit != 0) else { return false };
        chunk.words[word] &= !bit;
        chunk.set -= 1;
        if chunk.set == 0 {
            self.spare = slot.take();
        }
        self.outstanding -= 1;
        if offset == self.low {
            self.low = self.lowest_from(offset);
            self.trim();
        }
        true
    }

    /// Returns the lowest incomplete offset, which may be committed.
    pub(crate) fn commit_point(&self) -> Offset {
        self.low
    }

    /// Returns the next offset to read.
    pub(crate) fn next(&self) -> Offset {
        self.next
    }

    /// Returns the number of incomplete offsets.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Counts the offsets below `offset` that were not delivered as complete.
    pub(crate) fn skip_to(&mut self, offset: Offset) {
        if self.outstanding == 0 {
            self.low = offset;
        }
        self.next = offset;
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.chunks.iter().flatten().count() * size_of::<Chunk>()
    }

    fn locate(&self, offset: Offset) -> (usize, usize, u64) {
        let bit = offset - self.base;
        ((bit / CHUNK) as usize, (bit % CHUNK / 64) as usize, 1 << (bit % 64))
    }

    /// Returns the lowest set bit at or above `from`. Each word is passed once, since the commit point only increases.
    fn lowest_from(&self, from: Offset) -> Offset {
        if self.outstanding == 0 {
            return self.next;
        }
        let (first, mut word, _) = self.locate(from);
        for (index, chunk) in self.chunks.iter().enumerate().skip(first) {
            if let Some(chunk) = chunk
                && let Some(found) = (word..WORDS).find(|&word| chunk.words[word] != 0)
            {
                let bit = u64::from(chunk.words[found].trailing_zeros());
                return self.base + index as u64 * CHUNK + found as u64 * 64 + bit;
            }
            word = 0;
        }
        self.next
    }

    /// Frees the chunks below the commit point.
    fn trim(&mut self) {
        if self.outstanding == 0 {
            self.chunks.clear();
            return;
        }
        while self.base + CHUNK <= self.low {
            self.chunks.pop_front();
            self.base += CHUNK;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn twenty_million_outstanding_offsets_take_two_and_a_half_megabytes() {
        let mut ledger = Ledger::starting_at(0);
        for offset in 0..20_000_000 {
            ledger.deliver(offset);
        }
        assert!(ledger.bytes() < 2_600_000, "{} bytes", ledger.bytes());
        ledger.complete(0);
        assert_eq!(ledger.commit_point(), 1);
        for offset in (1..20_000_000).rev() {
            assert!(ledger.complete(offset));
        }
        assert_eq!(ledger.commit_point(), 20_000_000);
        assert!(ledger.chunks.is_empty());
        ledger.deliver(20_000_003);
        ledger.deliver(1_000_000_000);
        assert!(ledger.chunks.iter().flatten().count() <= 2, "a gap costs no bits");
    }

    proptest! {
        #[test]
        fn the_ledger_agrees_with_a_set_of_incomplete_offsets(
            start in 0u64..100_000,
            steps in prop::collection::vec((any::<bool>(), 0u64..70_000, any::<prop::sample::Index>()), 1..200),
        ) {
            let (mut ledger, mut model, mut next) = (Ledger::starting_at(start), BTreeSet::new(), start);
            for (deliver, gap, index) in steps {
                if deliver || model.is_empty() {
                    let offset = next + gap * gap % 70_001;
                    prop_assert!(ledger.deliver(offset));
                    prop_assert!(!ledger.deliver(offset), "delivered twice");
                    prop_assert!(offset == next || !ledger.complete(offset - 1), "skipped");
                    model.insert(offset);
                    next = offset + 1;
                } else {
                    let offset = *index.get(&model.iter().copied().collect::<Vec<_>>());
                    prop_assert!(ledger.complete(offset));
                    prop_assert!(!ledger.complete(offset));
                    model.remove(&offset);
                }
                prop_assert_eq!(ledger.commit_point(), model.first().copied().unwrap_or(next));
                prop_assert_eq!(ledger.outstanding(), model.len());
            }
        }
    }
}
