//! Digests by which content is compared with the truth, without keeping it.

use std::fmt;

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Digest of a sequence of texts, such as links or words: it differs for different sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest {
    /// Number of texts.
    pub count: u64,
    /// Hash of the texts in their order (xxh3-64).
    pub hash: u64,
}

impl Digest {
    /// Returns the digest of a sequence.
    #[must_use]
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut count, mut hash) = (0, Xxh3::new());
        for text in texts {
            count += 1;
            // The length marks where a text ends.
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        Self { count, hash: hash.digest() }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:016x})", self.count, self.hash)
    }
}

/// Returns the hash of a body as documents and rows contain it: xxh3-128, in hexadecimal digits.
#[must_use]
pub fn content_hash(body: &[u8]) -> String {
    format!("{:032x}", xxh3_128(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_that_differ_in_a_text_its_place_or_its_end_have_different_digests() {
        let of = |texts: &[&str]| Digest::of(texts.iter().copied());
        let whole = of(&["a", "b", "c"]);
        assert_eq!(whole, of(&["a", "b", "c"]));
        assert_eq!(whole.count, 3);
        for other in [&["a", "b", "d"][..], &["b", "a", "c"], &["ab", "", "c"], &["a", "b"], &["a", "b", "c", ""]] {
            assert_ne!(whole, of(other), "{other:?}");
        }
    }
}
