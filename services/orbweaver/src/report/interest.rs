//! Filter of the URLs that a report is about, of a fixed size.

use fastbloom::BloomFilter;

/// Size of the filter, in bits: 32 MiB, of which a small crawl touches little.
const BITS: usize = 1 << 28;
/// Number of URLs up to which the filter passes few others. With more it passes more, which costs space and time, and
/// changes no result.
const EXPECTED: usize = 16_000_000;

/// Relation of a URL to the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Role {
    /// Broken, or a redirect: the links to the URL are reported.
    Reported,
    /// Target of a redirect.
    Target,
    /// Once fetched slowly.
    Slow,
}

/// Set of URLs that may contain some others too, and lacks none: most links of a crawl need not be sorted.
pub(super) struct Interest(BloomFilter);

impl Interest {
    pub(super) fn new() -> Self {
        Self(BloomFilter::with_num_bits(BITS).expected_items(EXPECTED))
    }

    pub(super) fn add(&mut self, role: Role, url: &str) {
        self.0.insert(&(role, url));
    }

    /// Returns `true` if the URL was added in this role, and rarely if not.
    pub(super) fn may_have(&self, role: Role, url: &str) -> bool {
        self.0.contains(&(role, url))
    }
}
