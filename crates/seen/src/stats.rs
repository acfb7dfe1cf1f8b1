//! Statistics of an index.

use std::ops::AddAssign;

/// Look-up statistics of a partition since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lookups {
    /// Look-ups of known URLs.
    pub hits: u64,
    /// Look-ups of unknown URLs.
    pub misses: u64,
    /// Entries read from disk to verify filter hits.
    pub disk: u64,
    /// Entries read that belonged to another URL.
    pub false_positives: u64,
    /// URLs reported as known by a filter alone.
    pub unverified: u64,
}

impl Lookups {
    pub(crate) fn count(&mut self, hit: bool) {
        *if hit { &mut self.hits } else { &mut self.misses } += 1;
    }
}

impl AddAssign for Lookups {
    fn add_assign(&mut self, other: Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.disk += other.disk;
        self.false_positives += other.false_positives;
        self.unverified += other.unverified;
    }
}

/// Look-ups and size of the index of a partition, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexStats {
    pub lookups: Lookups,
    /// Number of entries; one written again at a lesser depth counts twice until the next compaction.
    pub entries: u64,
    /// Number of entries that are only in memory, which have no filter.
    pub in_memory: u64,
    /// Memory of the filters in bytes.
    pub filter_bytes: u64,
    /// Number of SSTables on disk, each with its own filter.
    pub tables: u64,
}

impl AddAssign for IndexStats {
    fn add_assign(&mut self, other: Self) {
        self.lookups += other.lookups;
        self.entries += other.entries;
        self.in_memory += other.in_memory;
        self.filter_bytes += other.filter_bytes;
        self.tables += other.tables;
    }
}
