//! How look-ups went.

/// How look-ups of a partition went, counted since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lookups {
    /// URLs that were known.
    pub hits: u64,
    /// URLs that were not.
    pub misses: u64,
    /// Entries that were read from the disk, to verify what a filter found.
    pub disk: u64,
    /// Of these, the ones that were of another URL.
    pub false_positives: u64,
    /// URLs that a filter alone took for known.
    pub unverified: u64,
}

impl Lookups {
    pub(crate) fn count(&mut self, hit: bool) {
        *if hit { &mut self.hits } else { &mut self.misses } += 1;
    }

    /// Both together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            disk: self.disk + other.disk,
            false_positives: self.false_positives + other.false_positives,
            unverified: self.unverified + other.unverified,
        }
    }
}
