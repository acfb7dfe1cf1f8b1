//! The filter before the exact index.

use growable_bloom_filter::GrowableBloom;
use orbweaver_url::Fingerprint;

/// The share of unknown URLs that it takes for known, as long as it is not outgrown. A mistake costs one look-up on disk
/// (7 microseconds), so that a smaller share would cost more memory than it saves time: 1.2 bytes an entry.
const ERROR_RATE: f64 = 0.01;

/// What a filter is sized for at least.
const LEAST: usize = 65_536;

/// A Bloom filter over the fingerprints of a partition. It grows when it holds more than it was sized for, but its share of
/// mistakes then drifts up (to 16 times after growing from small to large), so that it is sized from what is known.
#[derive(Debug)]
pub struct Filter {
    bloom: GrowableBloom,
    sized_for: usize,
}

impl Filter {
    /// A filter for a partition of which `known` entries are known: with room for half as many again.
    #[must_use]
    pub fn sized_for(known: usize) -> Self {
        let sized_for = known.saturating_add(known / 2).max(LEAST);
        Self { bloom: GrowableBloom::new(ERROR_RATE, sized_for), sized_for }
    }

    /// Takes a fingerprint in.
    pub fn insert(&mut self, fingerprint: Fingerprint) {
        self.bloom.insert(fingerprint.0);
    }

    /// Whether it may have been taken in; `false` is certain.
    #[must_use]
    pub fn may_contain(&self, fingerprint: Fingerprint) -> bool {
        self.bloom.contains(fingerprint.0)
    }

    /// The number of entries, save those that it took for known already.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bloom.len()
    }

    /// Whether nothing was taken in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bloom.is_empty()
    }

    /// Whether it holds more than it was sized for, and errs more often than it should.
    #[must_use]
    pub fn is_outgrown(&self) -> bool {
        self.len() > self.sized_for
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(number: usize) -> Fingerprint {
        Fingerprint::of("test", &number.to_string())
    }

    #[test]
    fn what_was_taken_in_is_never_denied_and_mistakes_are_rare() {
        let known = 100_000;
        let mut filter = Filter::sized_for(known);
        (0..known).for_each(|number| filter.insert(fingerprint(number)));
        assert!((0..known).all(|number| filter.may_contain(fingerprint(number))));
        let mistakes = (known..2 * known).filter(|number| filter.may_contain(fingerprint(*number))).count();
        assert!(mistakes < known / 50, "{mistakes} of {known}");
        assert!(!filter.is_outgrown());
    }

    #[test]
    fn a_filter_that_outgrows_its_size_says_so_and_still_denies_nothing() {
        let mut filter = Filter::sized_for(0);
        (0..2 * LEAST).for_each(|number| filter.insert(fingerprint(number)));
        assert!(filter.is_outgrown());
        assert!((0..2 * LEAST).all(|number| filter.may_contain(fingerprint(number))));
    }
}
