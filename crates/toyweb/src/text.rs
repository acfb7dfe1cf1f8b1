//! Words, titles and running text, cheap enough to be generated at line speed.

use crate::config::WebConfig;
use crate::hash::{Salt, below, mix, pick};

/// Words of paths, titles and text.
pub(crate) const WORDS: &[&str] = &[
    "amber", "anchor", "arch", "autumn", "badge", "barley", "basin", "birch", "bramble", "breeze", "bridge", "brook",
    "canopy", "cedar", "chalk", "clover", "copper", "coral", "cove", "crane", "delta", "dew", "drift", "dune", "ember",
    "fern", "field", "flint", "forest", "frost", "garden", "glade", "granite", "grove", "harbour", "hazel", "heath",
    "hedge", "hollow", "inlet", "island", "ivy", "juniper", "kestrel", "lagoon", "lantern", "larch", "ledge", "lichen",
    "linden", "loom", "maple", "marsh", "meadow", "mill", "mist", "moor", "moss", "nettle", "oak", "orchard", "osprey",
    "otter", "path", "pebble", "pine", "plain", "pond", "quarry", "quartz", "quill", "rain", "reed", "ridge", "river",
    "rowan", "saddle", "sage", "sand", "shale", "shore", "silk", "slate", "sorrel", "spring", "stone", "summit",
    "swallow", "thistle", "thread", "tide", "timber", "valley", "violet", "wharf", "willow", "winter", "wren",
];

const SMALL: &[&str] = &[
    "the", "of", "and", "in", "to", "with", "near", "under", "over", "from", "by", "where", "after", "before", "which",
    "was", "is", "had", "often", "rarely", "still", "once", "a", "its", "their", "between", "along", "without",
];

/// Months of the calendar and of the demo's diary.
pub(crate) const MONTHS: &[&str] = &[
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const POOL_BYTES: usize = 1 << 16;

/// Digits of page numbers on alike pages; a fixed width truncates all texts at the same position.
pub(crate) const NUMBER_DIGITS: usize = 13;

/// Block of prose from which pages take slices.
#[derive(Debug)]
pub(crate) struct Prose(Vec<u8>);

impl Prose {
    /// Generates the prose of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let mut text = String::with_capacity(POOL_BYTES + 64);
        let (mut number, mut left) = (0, 0);
        while text.len() < POOL_BYTES {
            let hash = mix(seed, Salt::Pool, number);
            number += 1;
            let word = if number % 2 == 0 { pick(WORDS, hash) } else { pick(SMALL, hash) };
            if left == 0 {
                left = 6 + below(hash << 8, 12);
                let (first, rest) = word.split_at(1);
                text.push_str(&first.to_ascii_uppercase());
                text.push_str(rest);
            } else {
                text.push_str(word);
            }
            left -= 1;
            text.push_str(if left == 0 { ". " } else { " " });
        }
        Self(text.into_bytes())
    }

    /// Appends `bytes` bytes of prose, starting at a word chosen by `hash`.
    pub(crate) fn write(&self, hash: u64, bytes: usize, out: &mut Vec<u8>) {
        let start = below(hash, self.0.len() as u64) as usize;
        let start = self.0[start..].iter().position(|byte| *byte == b' ').map_or(0, |space| start + space + 1);
        let mut left = bytes;
        let mut rest = &self.0[start.min(self.0.len())..];
        while left > 0 {
            let taken = left.min(rest.len());
            out.extend_from_slice(&rest[..taken]);
            left -= taken;
            rest = &self.0;
        }
    }
}

/// Appends the title of a page.
pub(crate) fn write_title(config: &WebConfig, page: u64, out: &mut Vec<u8>) {
    if config.alike {
        return out.extend_from_slice(format!("Page {page:0NUMBER_DIGITS$}").as_bytes());
    }
    let hash = mix(config.seed, Salt::Title, page);
    let (first, second) = (pick(WORDS, hash), pick(WORDS, hash << 20));
    out.push(first.as_bytes()[0].to_ascii_uppercase());
    out.extend_from_slice(&first.as_bytes()[1..]);
    out.push(b' ');
    out.extend_from_slice(second.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_has_the_length_that_was_asked_for_even_beyond_the_pool() {
        let prose = Prose::new(1);
        for bytes in [0, 1, 500, POOL_BYTES, 3 * POOL_BYTES] {
            for hash in [0, u64::MAX / 2, u64::MAX] {
                let mut out = Vec::new();
                prose.write(hash, bytes, &mut out);
                assert_eq!(out.len(), bytes);
                assert!(out.is_ascii());
            }
        }
    }
}
