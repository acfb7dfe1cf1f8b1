//! Seeded randomness.

/// A pseudo-random number generator: SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
/// OOPSLA 2014). A local implementation, so that a regression seed keeps its schedule permanently.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates the generator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Derives an independent generator for `purpose`, so that an additional draw for one purpose affects no other.
    #[must_use]
    pub fn split(&self, purpose: &str) -> Self {
        let mixed = purpose.bytes().fold(self.0, |sum, byte| Self(sum ^ u64::from(byte)).number());
        Self(mixed)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`; 0 if `end` is 0. The modulo bias does not matter here.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.number() % end }
    }

    /// Returns a number from `low` to `high`, both inclusive.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Returns `true` with this probability in percent.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns an index into a list of this length; 0 if it is empty.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// Returns one of `choices`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        let mut random = Random::new(1_234_567);
        // The first numbers of the reference implementation for this seed.
        assert_eq!([random.number(), random.number()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn purposes_do_not_disturb_each_other() {
        let random = Random::new(7);
        assert_ne!(random.split("web").number(), random.split("faults").number());
        assert_eq!(random.split("web").number(), random.split("web").number());
    }
}
