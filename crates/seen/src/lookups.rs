//! Statistics of lookups.

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

    /// Returns the sum of both statistics.
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
