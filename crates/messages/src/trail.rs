//! Patterns of the pages on the path to a URL.

use serde::{Deserialize, Serialize};

/// Maximum number of patterns in a trail: a trap whose pages take more shapes is not detected as leading into itself.
const LONGEST: usize = 8;

/// Identifier of a pattern of similar URLs within a site (`crates/patterns`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pattern(pub u32);

/// Patterns of the pages on the path from a seed to a URL, with the number of times each was passed; the latest is
/// last. Only the latest are kept.
///
/// The trail travels with the URL as `depth` does: a page passes its own trail on to its links. The recursion depth of
/// a pattern is thus known wherever the URL is, regardless of restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Trail(Vec<(Pattern, u16)>);

impl Trail {
    /// Returns `true` if no pattern was passed, as for a seed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of times that this pattern was passed.
    #[must_use]
    pub fn times(&self, pattern: Pattern) -> u16 {
        self.0.iter().find(|(passed, _)| *passed == pattern).map_or(0, |(_, times)| *times)
    }

    /// Returns the pattern of the last page.
    #[must_use]
    pub fn last(&self) -> Option<Pattern> {
        self.0.last().map(|(pattern, _)| *pattern)
    }

    /// Returns the trail of the links on a page of this pattern, where this trail leads to the page.
    #[must_use]
    pub fn through(&self, pattern: Pattern) -> Self {
        let mut passed = Vec::with_capacity((self.0.len() + 1).min(LONGEST));
        let others = self.0.iter().filter(|(passed, _)| *passed != pattern).count();
        let others = self.0.iter().filter(|(passed, _)| *passed != pattern).skip((others + 1).saturating_sub(LONGEST));
        passed.extend(others.copied());
        passed.push((pattern, self.times(pattern).saturating_add(1)));
        Self(passed)
    }
}

impl FromIterator<(Pattern, u16)> for Trail {
    fn from_iter<I: IntoIterator<Item = (Pattern, u16)>>(passed: I) -> Self {
        Self(passed.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(patterns: &[u32]) -> Trail {
        patterns.iter().fold(Trail::default(), |trail, pattern| trail.through(Pattern(*pattern)))
    }

    #[test]
    fn a_trail_counts_what_it_passes_also_when_patterns_take_turns() {
        let trail = way(&[1, 2, 3, 2, 3, 2]);
        assert_eq!([1, 2, 3, 4].map(|pattern| trail.times(Pattern(pattern))), [1, 3, 2, 0]);
        assert_eq!(trail.last(), Some(Pattern(2)));
        assert_eq!(Trail::default().last(), None);
    }

    #[test]
    fn a_trail_stays_short_and_forgets_what_was_passed_longest_ago() {
        let trail = way(&(0..100).collect::<Vec<_>>());
        assert_eq!(trail.0.len(), LONGEST);
        assert_eq!((trail.times(Pattern(91)), trail.times(Pattern(92))), (0, 1));
        assert_eq!(way(&[7; 70_000]).times(Pattern(7)), u16::MAX);
    }
}
