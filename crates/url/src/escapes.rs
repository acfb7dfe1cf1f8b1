//! Normalization of percent-encoding.

use std::borrow::Cow;

/// Component that a text belongs to, which determines how its escapes are normalized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Path: unreserved characters are decoded, and a `%` that begins no escape becomes `%25`.
    Path,
    /// Query that is not decoded: escapes become upper case, and characters that RFC 3986 does not allow are escaped.
    Query,
    /// Query that is read as a form: as in a path, and `%20` becomes `+`.
    Form,
}

impl Place {
    fn mask(self) -> u8 {
        if self == Self::Path { PATH } else { QUERY }
    }

    fn decodes(self) -> bool {
        self != Self::Query
    }
}

/// Returns the text with normalized escapes, borrowed if nothing changes. `text` is part of a WHATWG serialization:
/// ASCII.
pub(crate) fn normalize(text: &str, place: Place) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let Some(first) = first_change(bytes, place) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    let mut at = first;
    while at < bytes.len() {
        let byte = bytes[at];
        let escape = (byte == b'%').then(|| escaped_byte(bytes, at)).flatten();
        match escape {
            Some(value) if place.decodes() && is_unreserved(value) => out.push(char::from(value)),
            Some(b' ') if place == Place::Form => out.push('+'),
            Some(value) => push_escape(&mut out, value),
            None if CLASSES[usize::from(byte)] & place.mask() != 0 || (byte == b'%' && place.decodes()) => {
                push_escape(&mut out, byte);
            }
            None => out.push(char::from(byte)),
        }
        at += if escape.is_some() { 3 } else { 1 };
    }
    Cow::Owned(out)
}

/// Returns the offset at which the text first differs from its normal form.
fn first_change(bytes: &[u8], place: Place) -> Option<usize> {
    let mask = place.mask();
    let mut at = 0;
    while at < bytes.len() {
        let class = CLASSES[usize::from(bytes[at])];
        if class & (mask | ESCAPE) == 0 {
            at += 1;
            continue;
        }
        if class & mask != 0 {
            return Some(at);
        }
        match escaped_byte(bytes, at) {
            Some(value) if place.decodes() && is_unreserved(value) => return Some(at),
            Some(b' ') if place == Place::Form => return Some(at),
            Some(_) if bytes[at + 1].is_ascii_lowercase() || bytes[at + 2].is_ascii_lowercase() => return Some(at),
            Some(_) => at += 3,
            None if place.decodes() => return Some(at),
            None => at += 1,
        }
    }
    None
}

/// Returns the byte that the escape at `at` encodes, if there is one.
fn escaped_byte(bytes: &[u8], at: usize) -> Option<u8> {
    let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(at + 1)? << 4 | digit(at + 2)?)
}

fn push_escape(out: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(char::from(DIGITS[usize::from(byte >> 4)]));
    out.push(char::from(DIGITS[usize::from(byte & 15)]));
}

/// Returns `true` for `unreserved` of RFC 3986 section 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Class of bytes to escape in a path.
const PATH: u8 = 1;
/// Class of bytes to escape in a query.
const QUERY: u8 = 2;
/// Class of the percent sign.
const ESCAPE: u8 = 4;

/// Classes of each byte of a WHATWG serialization.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    classes[b'%' as usize] = ESCAPE;
    let both = b"[]|^`";
    let mut i = 0;
    while i < both.len() {
        classes[both[i] as usize] = PATH | QUERY;
        i += 1;
    }
    classes[b'{' as usize] = QUERY;
    classes[b'}' as usize] = QUERY;
    classes[b'\\' as usize] = QUERY;
    classes
};
