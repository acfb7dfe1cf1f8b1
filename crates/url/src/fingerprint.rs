//! The 128-bit identifier of a URL within a crawl.

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Visitor},
};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::CrawlName;

/// Fingerprint: 128-bit hash (xxh3) of crawl and canonical URL; written as 32 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 16]);

/// Error of a text that is not a fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a fingerprint; a fingerprint is 32 hexadecimal digits")]
pub struct FingerprintError(pub String);

impl Fingerprint {
    /// Returns the fingerprint of a canonical URL within the crawl of this name.
    #[must_use]
    pub fn of(crawl: &CrawlName, canonical: &str) -> Self {
        // Most inputs are short: hashing them in one piece avoids setting up a stream, which costs more than the hash.
        let mut buffer = [0; 256];
        let length = crawl.len() + 1 + canonical.len();
        if let Some(whole) = buffer.get_mut(..length) {
            whole[..crawl.len()].copy_from_slice(crawl.as_bytes());
            whole[crawl.len() + 1..].copy_from_slice(canonical.as_bytes());
            return Self(xxh3_128(whole).to_be_bytes());
        }
        let mut hash = Xxh3::new();
        hash.update(crawl.as_bytes());
        hash.update(&[0]);
        hash.update(canonical.as_bytes());
        Self(hash.digest128().to_be_bytes())
    }
}

impl Fingerprint {
    fn digits(self) -> [u8; 32] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0u8; 32];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        text
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(std::str::from_utf8(&self.digits()).unwrap_or_default())
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(std::str::from_utf8(&self.digits()).unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = Fingerprint;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string of 32 hexadecimal digits")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Fingerprint, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Digits)
    }
}

impl std::str::FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Otherwise a sign would be read, too.
        let is_digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_digits);
        number.map(|number| Self(number.to_be_bytes())).ok_or_else(|| FingerprintError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_fingerprint_of_a_url_never_changes() {
        // Stored data depends on this value.
        let fingerprint = Fingerprint::of(&CrawlName::default(), "https://example.com/");
        assert_eq!(fingerprint.to_string(), "06c5fc90cf900edbc22963582c5aa0e8");
    }

    proptest! {
        #[test]
        fn a_fingerprint_is_the_hash_of_crawl_zero_and_url_whatever_their_length(
            crawl in "[a-z]{1,40}",
            canonical in "[ -~]{0,400}",
        ) {
            let crawl = CrawlName::new(&crawl).unwrap();
            let whole = [crawl.as_bytes(), &[0], canonical.as_bytes()].concat();
            prop_assert_eq!(Fingerprint::of(&crawl, &canonical).0, xxh3_128(&whole).to_be_bytes());
        }

        #[test]
        fn a_fingerprint_reads_back_from_its_text(bytes: [u8; 16]) {
            let fingerprint = Fingerprint(bytes);
            prop_assert_eq!(fingerprint.to_string().parse::<Fingerprint>(), Ok(fingerprint));
        }

        #[test]
        fn a_text_that_is_no_fingerprint_is_refused(text in ".{0,40}") {
            let valid = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            prop_assert_eq!(text.parse::<Fingerprint>().is_ok(), valid);
        }
    }
}
