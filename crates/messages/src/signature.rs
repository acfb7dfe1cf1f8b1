//! `crawl.signatures`: signatures of texts, by which near duplicates are recognized.

use std::{fmt, str::FromStr};

use orbweaver_url::{CrawlName, Fingerprint, SiteName};
use serde::{Deserialize, Serialize};

/// Record header with the fingerprint of the page of which a document is a near duplicate, as text.
pub const NEAR_DUPLICATE_HEADER: &str = "near_duplicate_of";

/// Signature of a text: signatures of similar texts differ in few bits. Written as 32 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TextSignature(pub u128);

/// Error of a text that is not a signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a signature; a signature is 32 hexadecimal digits")]
pub struct TextSignatureError(pub String);

impl TextSignature {
    /// Returns the number of bits that differ.
    #[must_use]
    pub fn distance(self, other: Self) -> u32 {
        (self.0 ^ other.0).count_ones()
    }
}

impl fmt::Display for TextSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for TextSignature {
    type Err = TextSignatureError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = (text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(text);
        let bits = digits.and_then(|digits| u128::from_str_radix(digits, 16).ok());
        bits.map(Self).ok_or_else(|| TextSignatureError(text.to_owned()))
    }
}

impl TryFrom<String> for TextSignature {
    type Error = TextSignatureError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<TextSignature> for String {
    fn from(signature: TextSignature) -> Self {
        signature.to_string()
    }
}

/// Signature of a page of which no earlier page of its site is a near duplicate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageSignature {
    pub crawl: CrawlName,
    pub site: SiteName,
    /// Signature of the main text.
    pub signature: TextSignature,
}

/// Hash of a crawl and a site: the pages that are compared with one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SignatureGroup(pub u64);

impl SignatureGroup {
    /// Returns the group of the pages of a site in a crawl.
    #[must_use]
    pub fn of(crawl: &CrawlName, site: &SiteName) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = Fingerprint::of(crawl, site).0;
        Self(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }
}

/// Returns the record key of the signature of a page.
#[must_use]
pub fn signature_key(SignatureGroup(group): SignatureGroup, page: Fingerprint) -> String {
    format!("{group:016x}/{page}")
}

/// Returns the group and the page of a [`signature_key`]; `None` if it is not one.
#[must_use]
pub fn parse_signature_key(key: &str) -> Option<(SignatureGroup, Fingerprint)> {
    let (group, page) = key.split_once('/')?;
    Some((SignatureGroup(u64::from_str_radix(group, 16).ok()?), page.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_and_keys_survive_a_round_trip_and_other_text_is_an_error() {
        let signature = TextSignature(0x0123_4567_89ab_cdef << 64);
        assert_eq!(signature.to_string(), "0123456789abcdef0000000000000000");
        assert_eq!("0123456789abcdef0000000000000000".parse(), Ok(signature));
        assert_eq!(signature.distance(TextSignature(0x0123_4567_89ab_cde0 << 64)), 4);
        let digits = "0123456789abcdef0123456789abcde";
        for wrong in ["", digits, &format!("{digits}f0"), &format!("{digits}g"), &format!("+{digits}")] {
            assert_eq!(wrong.parse::<TextSignature>(), Err(TextSignatureError(wrong.to_owned())), "{wrong}");
        }
        let (crawl, site) = ("docs".parse().unwrap(), SiteName::from("a.test"));
        let (group, page) = (SignatureGroup::of(&crawl, &site), Fingerprint::of(&crawl, "http://a.test/"));
        assert_eq!(parse_signature_key(&signature_key(group, page)), Some((group, page)));
        for wrong in ["", "1/2", "0123456789abcdef", "x/00112233445566778899aabbccddeeff"] {
            assert_eq!(parse_signature_key(wrong), None, "{wrong}");
        }
    }
}
