//! The filter of an SSTable in memory: a tag per entry, and the start of each bucket.

use orbweaver_url::Fingerprint;

/// Buckets per group: each group stores one start in full, and the others relative to it.
const GROUP: usize = 256;

/// Average entries per bucket: fewer take more memory, more cause more false positives. With tags of one byte: 1.5
/// bytes per URL, and one in 50 unknown URLs costs a wasted lookup.
const BUCKET: u64 = 4;

/// Start of each bucket.
#[derive(Debug)]
enum Starts {
    /// Start of each group, and within it the offset of each bucket, below 65,536.
    Near { groups: Vec<u64>, within: Vec<u16> },
    /// Fallback for constructed URLs with adjacent fingerprints.
    Any(Vec<u64>),
}

/// The filter of an SSTable. The entries are sorted, so those with the same first bits are adjacent and form a bucket;
/// for each, a tag of other bits is stored, in the same order. The filter thus needs no room to grow, is built
/// sequentially, is read in two places, and returns the position of the entry on disk. (A quotient filter, Bender et
/// al., VLDB 2012, for a set that does not change.)
#[derive(Debug)]
pub(crate) struct QuotientFilter {
    buckets: u64,
    tags: Vec<u8>,
    starts: Starts,
}

impl QuotientFilter {
    /// Returns the entries in the bucket of `fingerprint` that have its tag, as entry numbers in the SSTable.
    pub(crate) fn find(&self, fingerprint: Fingerprint) -> impl Iterator<Item = u64> + '_ {
        let bucket = bucket_of(fingerprint, self.buckets);
        let (from, to) = (self.start(bucket), self.start(bucket + 1));
        let tag = tag_of(fingerprint);
        let tags = self.tags.get(from as usize..to as usize).unwrap_or_default();
        let matches = tags.iter().enumerate().filter(move |(_, known)| **known == tag);
        matches.map(move |(index, _)| from + index as u64)
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> u64 {
        self.tags.len() as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        let starts = match &self.starts {
            Starts::Near { groups, within } => groups.capacity() * 8 + within.capacity() * 2,
            Starts::Any(starts) => starts.capacity() * 8,
        };
        (self.tags.capacity() + starts) as u64
    }

    fn start(&self, bucket: u64) -> u64 {
        let bucket = bucket as usize;
        match &self.starts {
            Starts::Near { groups, within } => groups[bucket / GROUP] + u64::from(within[bucket]),
            Starts::Any(starts) => starts[bucket],
        }
    }
}

/// Builder of a filter from sorted entries.
#[derive(Debug)]
pub(crate) struct TagsBuilder {
    tags: QuotientFilter,
    /// Number of buckets whose start is known.
    begun: u64,
}

impl TagsBuilder {
    /// Creates a builder for at most `entries` entries.
    pub(crate) fn new(entries: u64) -> Self {
        let buckets = entries.div_ceil(BUCKET).max(1);
        let groups = Vec::with_capacity((buckets as usize + 1).div_ceil(GROUP));
        let starts = Starts::Near { groups, within: Vec::with_capacity(buckets as usize + 1) };
        let tags = Vec::with_capacity(entries as usize);
        Self { tags: QuotientFilter { buckets, tags, starts }, begun: 0 }
    }

    /// Adds the next entry.
    pub(crate) fn push(&mut self, fingerprint: Fingerprint) {
        let bucket = bucket_of(fingerprint, self.tags.buckets);
        self.begin_up_to(bucket);
        self.tags.tags.push(tag_of(fingerprint));
    }

    pub(crate) fn finish(mut self) -> QuotientFilter {
        self.begin_up_to(self.tags.buckets);
        self.tags.tags.shrink_to_fit();
        self.tags
    }

    /// Starts all buckets up to this one here, unless they have already started.
    fn begin_up_to(&mut self, bucket: u64) {
        while self.begun <= bucket {
            let start = self.tags.len();
            if let Starts::Near { groups, within } = &mut self.tags.starts {
                if (self.begun as usize).is_multiple_of(GROUP) {
                    groups.push(start);
                }
                let base = groups.last().copied().unwrap_or_default();
                match u16::try_from(start - base) {
                    Ok(near) => within.push(near),
                    Err(_) => {
                        let known = within.iter().enumerate();
                        let any = known.map(|(index, near)| groups[index / GROUP] + u64::from(*near));
                        let mut any = any.collect::<Vec<_>>();
                        any.push(start);
                        self.tags.starts = Starts::Any(any);
                    }
                }
            } else if let Starts::Any(starts) = &mut self.tags.starts {
                starts.push(start);
            }
            self.begun += 1;
        }
    }
}

/// Returns the bucket: the first 64 bits as a fraction of one, times the number of buckets, which preserves the order.
fn bucket_of(fingerprint: Fingerprint, buckets: u64) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = fingerprint.0;
    let first = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    ((u128::from(first) * u128::from(buckets)) >> 64) as u64
}

fn tag_of(fingerprint: Fingerprint) -> u8 {
    fingerprint.0[8]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use orbweaver_url::CrawlName;

    use super::*;

    fn fingerprint(number: u64) -> Fingerprint {
        Fingerprint::of(&CrawlName::default(), &number.to_string())
    }

    fn build(mut entries: Vec<Fingerprint>, room: usize) -> (QuotientFilter, Vec<Fingerprint>) {
        entries.sort_unstable();
        entries.dedup();
        let mut builder = TagsBuilder::new((entries.len() + room) as u64);
        entries.iter().for_each(|fingerprint| builder.push(*fingerprint));
        (builder.finish(), entries)
    }

    #[test]
    fn mistakes_are_as_rare_as_promised_and_memory_as_small() {
        let (tags, entries) = build((0..1_000_000).map(fingerprint).collect(), 0);
        let may_contain = |entry| tags.find(entry).next().is_some();
        assert!(entries.iter().all(|entry| may_contain(*entry)));
        let wrong = (1_000_000..2_000_000).filter(|number| may_contain(fingerprint(*number))).count();
        assert!(wrong <= 40_000, "{wrong}");
        assert!((tags.bytes() as f64) < 1.6e6, "{}", tags.bytes());
    }

    #[test]
    fn adjacent_fingerprints_made_by_an_attacker_are_found() {
        let made_up = |number: u64| {
            let mut bytes = fingerprint(number).0;
            bytes[..6].fill(9);
            Fingerprint(bytes)
        };
        let (tags, entries) = build((0..200_000).map(made_up).collect(), 0);
        assert!(matches!(tags.starts, Starts::Any(_)));
        for index in (0..entries.len()).step_by(1999) {
            assert!(tags.find(entries[index]).any(|found| found == index as u64));
        }
    }

    proptest! {
        #[test]
        fn every_entry_is_found_at_its_place(numbers in proptest::collection::vec(any::<u64>(), 0..600), room in 0usize..300) {
            let (tags, entries) = build(numbers.iter().copied().map(fingerprint).collect(), room);
            prop_assert_eq!(tags.len(), entries.len() as u64);
            for (index, entry) in entries.iter().enumerate() {
                prop_assert!(tags.find(*entry).any(|found| found == index as u64));
            }
        }
    }
}
