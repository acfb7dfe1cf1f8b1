//! Choice of a body's encoding: byte order mark, then the header, then the document's declaration, then valid UTF-8, then a later
//! declaration, then detection.
//!
//! This is the order of WHATWG HTML 13.2.3.2, with chardetng (the detector of Firefox) as its last step.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8};

use crate::prescan::{declared, declared_later};

/// Maximum number of bytes examined by detection.
const DETECTION_BYTES: usize = 64 << 10;

/// Source of an encoding, from the most to the least reliable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CharsetSource {
    ByteOrderMark,
    /// Parameter of the content type.
    Header,
    /// `meta` element or XML declaration.
    Declared,
    /// Guess from the bytes and the top-level domain.
    Detected,
}

impl CharsetSource {
    /// Returns the label for metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ByteOrderMark => "bom",
            Self::Header => "header",
            Self::Declared => "declared",
            Self::Detected => "detected",
        }
    }
}

/// Returns the encoding of `body`, which arrived with `content_type` from a host below `top_level_domain`, and its
/// source.
#[must_use]
pub fn choose(
    body: &[u8],
    content_type: Option<&str>,
    top_level_domain: Option<&str>,
) -> (&'static Encoding, CharsetSource) {
    if let Some((encoding, _)) = Encoding::for_bom(body) {
        return (encoding, CharsetSource::ByteOrderMark);
    }
    if let Some(encoding) = content_type.and_then(header_encoding) {
        return (encoding, CharsetSource::Header);
    }
    if let Some(encoding) = declared(body) {
        return (encoding, CharsetSource::Declared);
    }
    // Cheap, and reliable: bytes beyond ASCII are not valid UTF-8 by chance.
    let is_ascii = body.is_ascii();
    if !is_ascii && std::str::from_utf8(body).is_ok() {
        return (UTF_8, CharsetSource::Detected);
    }
    if let Some(encoding) = declared_later(body) {
        return (encoding, CharsetSource::Declared);
    }
    // ASCII is the same text in every guess.
    (if is_ascii { UTF_8 } else { detect(body, top_level_domain) }, CharsetSource::Detected)
}

/// Decodes `body`; undecodable bytes become U+FFFD, a byte order mark of the encoding is removed.
#[must_use]
pub fn decode<'a>(body: &'a [u8], encoding: &'static Encoding) -> Cow<'a, str> {
    encoding.decode_with_bom_removal(body).0
}

/// Returns the encoding of the first parameter `charset` that names one. Accepts common errors of servers: white space
/// around `=`, single quotes, and several content types joined by commas.
fn header_encoding(content_type: &str) -> Option<&'static Encoding> {
    let mut rest = content_type;
    loop {
        rest = rest.split_once([';', ','])?.1;
        let name_end = rest.find(['=', ';', ',']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(name_end);
        let Some(value) = after.strip_prefix('=').map(str::trim_start) else { continue };
        let (value, after) = match value.strip_prefix(['"', '\'']) {
            Some(quoted) => quoted.split_once(&value[..1]).unwrap_or((quoted, "")),
            None => value.split_at(value.find([';', ',']).unwrap_or(value.len())),
        };
        if name.trim().eq_ignore_ascii_case("charset")
            && let Some(encoding) = Encoding::for_label(value.as_bytes())
        {
            return Some(encoding);
        }
        rest = after;
    }
}

fn detect(body: &[u8], top_level_domain: Option<&str>) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(&body[..body.len().min(DETECTION_BYTES)], body.len() <= DETECTION_BYTES);
    // The detector accepts a label in Punycode and lower case, like the hosts of parsed URLs.
    let label = top_level_domain
        .map(str::as_bytes)
        .filter(|label| label.iter().all(|&c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-'));
    detector.guess(label, Utf8Detection::Allow)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(body: &[u8], content_type: Option<&str>) -> (&'static str, CharsetSource) {
        let (encoding, source) = choose(body, content_type, None);
        (encoding.name(), source)
    }

    #[test]
    fn a_byte_order_mark_beats_the_header_and_the_header_beats_the_document() {
        let body = b"\xef\xbb\xbf<meta charset=koi8-r>";
        let header = Some("text/html; charset=big5");
        assert_eq!(chosen(body, header), ("UTF-8", CharsetSource::ByteOrderMark));
        assert_eq!(chosen(&body[3..], header), ("Big5", CharsetSource::Header));
        assert_eq!(chosen(&body[3..], Some("text/html; charset=nonsense")), ("KOI8-R", CharsetSource::Declared));
    }

    #[test]
    fn a_declaration_after_the_first_bytes_beats_detection_unless_the_bytes_are_utf_8() {
        let page = |text: &[u8]| [&[b' '; 2000][..], b"<meta charset=iso-8859-2><p>", text].concat();
        assert_eq!(chosen(&page(b"\xb1"), None), ("ISO-8859-2", CharsetSource::Declared));
        assert_eq!(chosen(&page("ą".as_bytes()), None), ("UTF-8", CharsetSource::Detected));
    }

    #[test]
    fn unlabelled_bytes_are_guessed() {
        assert_eq!(chosen("Größe".as_bytes(), None), ("UTF-8", CharsetSource::Detected));
        assert_eq!(chosen(b"plain", None), ("UTF-8", CharsetSource::Detected));
        let russian = encoding_rs::WINDOWS_1251.encode("Привет, это обычный русский текст без объявления кодировки").0;
        assert_eq!(chosen(&russian, None).0, "windows-1251");
    }

    #[test]
    fn what_cannot_be_decoded_is_replaced() {
        assert_eq!(decode(b"a\xffb", UTF_8), "a\u{fffd}b");
    }
}
