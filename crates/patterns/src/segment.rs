//! Type of a path segment, or of a name or value in a query.

use crate::mix;

/// Maximum length of a segment that is examined, in bytes; a longer one is `Long`.
const LONG: usize = 64;
/// Minimum length of a run of hexadecimal digits that counts as a hash, in bytes.
const SHORTEST_HASH: usize = 16;

/// Type of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Segment {
    /// No text.
    Empty,
    /// Digits, possibly with separators.
    Number,
    /// A day or month: `2026-11-21`, `20261121`, `2026.11`.
    Date,
    /// A time of day: `12:30`, `12:30:00`.
    Time,
    /// A UUID (RFC 9562, section 4).
    Uuid,
    /// At least 16 hexadecimal digits.
    Hash,
    /// More than 64 bytes.
    Long,
    /// Text with percent-encoded ASCII: a URL, a phrase, binary data.
    Encoded,
    /// Letters and digits in no apparent order, such as session identifiers.
    Mixed,
    /// Words, as a hash in which all numbers are equal: `part-7.html` equals `part-8.html`. Percent-encoded letters of
    /// other alphabets count as letters.
    Words(u64),
}

impl Segment {
    /// Returns the type of a text.
    pub(crate) fn of(text: &[u8]) -> Self {
        match text.len() {
            0 => return Self::Empty,
            length if length > LONG => return Self::Long,
            _ => {}
        }
        let seen = Seen::of(text);
        if seen.encoded_ascii {
            return Self::Encoded;
        }
        if !seen.letters || seen.is_moment(text) {
            return if seen.digits { numeric(text) } else { Self::Words(words(text).unwrap_or(0)) };
        }
        if seen.hexadecimal && seen.digits {
            if is_uuid(text) {
                return Self::Uuid;
            }
            if text.len() >= SHORTEST_HASH && text.iter().all(u8::is_ascii_hexdigit) {
                return Self::Hash;
            }
        }
        words(text).map_or(Self::Mixed, Self::Words)
    }

    /// Returns a small number that identifies the type; all words share one.
    pub(crate) fn tag(self) -> u64 {
        match self {
            Self::Empty => 1,
            Self::Number => 2,
            Self::Date => 3,
            Self::Time => 4,
            Self::Uuid => 5,
            Self::Hash => 6,
            Self::Long => 7,
            Self::Encoded => 8,
            Self::Mixed => 9,
            Self::Words(_) => 10,
        }
    }
}

/// Kinds of characters in a text.
struct Seen {
    digits: bool,
    letters: bool,
    /// All letters are hexadecimal digits.
    hexadecimal: bool,
    encoded_ascii: bool,
}

impl Seen {
    fn of(text: &[u8]) -> Self {
        let mut seen = Self { digits: false, letters: false, hexadecimal: true, encoded_ascii: false };
        let mut at = 0;
        while let Some(byte) = text.get(at) {
            at += 1;
            match byte {
                b'0'..=b'9' => seen.digits = true,
                b'a'..=b'f' | b'A'..=b'F' => seen.letters = true,
                b'g'..=b'z' | b'G'..=b'Z' | 0x80.. => (seen.letters, seen.hexadecimal) = (true, false),
                b'%' => match text.get(at..at + 2) {
                    Some([b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F', low]) if low.is_ascii_hexdigit() => {
                        (seen.letters, seen.hexadecimal) = (true, false);
                        at += 2;
                    }
                    _ => seen.encoded_ascii = true,
                },
                _ => {}
            }
        }
        seen
    }

    /// Returns `true` for a date with a time, such as `2026-11-21T12:30:00Z`, whose letters are not words.
    fn is_moment(&self, text: &[u8]) -> bool {
        self.digits
            && !self.hexadecimal
            && text.iter().all(|byte| !byte.is_ascii_alphabetic() || matches!(byte, b'T' | b'Z' | b't' | b'z'))
            && is_date(text.get(..10).unwrap_or_default())
    }
}

/// Returns the type of a text without words: a date, a time or a number.
fn numeric(text: &[u8]) -> Segment {
    if is_date(text) || is_date(text.get(..10).unwrap_or_default()) {
        return Segment::Date;
    }
    let mut parts = text.split(|byte| *byte == b':');
    let of_two = |part: &[u8]| matches!(part.len(), 1 | 2) && part.iter().all(u8::is_ascii_digit);
    if (2..=3).contains(&parts.clone().count()) && parts.all(of_two) { Segment::Time } else { Segment::Number }
}

/// Returns `true` for a year from 1900 to 2199 with a month and possibly a day, separated by the same separator, or by
/// none if there is a day.
fn is_date(text: &[u8]) -> bool {
    let number = |digits: &[u8]| digits.iter().fold(0u32, |sum, digit| sum * 10 + u32::from(digit.wrapping_sub(b'0')));
    let (year, month, day) = match text {
        [year @ .., m1, m2, d1, d2] if year.len() == 4 => (year, [*m1, *m2], [*d1, *d2]),
        [year @ .., s, m1, m2] if year.len() == 4 && is_separator(*s) => (year, [*m1, *m2], *b"01"),
        [year @ .., s, m1, m2, t, d1, d2] if year.len() == 4 && is_separator(*s) && s == t => {
            (year, [*m1, *m2], [*d1, *d2])
        }
        _ => return false,
    };
    year.iter().chain(&month).chain(&day).all(u8::is_ascii_digit)
        && (1900..2200).contains(&number(year))
        && (1..=12).contains(&number(&month))
        && (1..=31).contains(&number(&day))
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b'-' | b'.' | b'_')
}

fn is_uuid(text: &[u8]) -> bool {
    let dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    text.len() == 36 && text.iter().enumerate().all(|(at, byte)| dash(at) == (*byte == b'-'))
}

/// Returns the hash of words, of numbers between or after them, and of separators. `None` if letters follow digits
/// directly.
fn words(text: &[u8]) -> Option<u64> {
    let (mut hash, mut in_number) = (0, false);
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'0'..=b'9' => {
                if !in_number {
                    hash = mix(hash, u64::from(b'#'));
                }
                in_number = true;
            }
            b'a'..=b'z' | b'A'..=b'Z' | 0x80.. if in_number => return None,
            b'%' if in_number => return None,
            b'%' => {
                // Both digits of the octet are hashed as they are: they do not belong to a number.
                let octet = text.get(at..at + 2).unwrap_or_default();
                hash = octet.iter().fold(hash, |hash, digit| mix(hash, u64::from(digit.to_ascii_lowercase())));
                at += octet.len();
            }
            byte => {
                in_number = false;
                hash = mix(hash, u64::from(*byte));
            }
        }
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_what_they_look_like() {
        for (expected, texts) in [
            (Segment::Number, &["7", "007", "1.5", "12-34", "1,000", "99999999", "20261399"][..]),
            (Segment::Date, &["2026-11-21", "20261121", "2026.11", "1999_12_31", "2026-11-21T12:30:00Z"]),
            (Segment::Time, &["12:30", "9:05", "23:59:59"]),
            (Segment::Uuid, &["f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "00000000-0000-0000-0000-00000000000A"]),
            (Segment::Hash, &["d41d8cd98f00b204e9800998ecf8427e", "0123456789ABCDEF"]),
            (Segment::Encoded, &["a%20b", "http%3A%2F%2Fx", "%", "%zz"]),
            (Segment::Mixed, &["a8f3kz91", "2nd", "x1y", "%d0%b01%d0%b8"]),
            (Segment::Empty, &[""]),
        ] {
            for text in texts {
                assert_eq!(Segment::of(text.as_bytes()), expected, "{text}");
            }
        }
        assert_eq!(Segment::of(&[b'a'; 65]), Segment::Long);
    }

    #[test]
    fn words_are_themselves_but_for_their_numbers() {
        let of = |text: &str| Segment::of(text.as_bytes());
        let is_words = |text: &str| matches!(of(text), Segment::Words(_));
        for text in ["about", "part-7.html", "index.php", "~user", "%D0%B8%D0%B9", "-", "facade", "p12", "a_b-c.d"] {
            assert!(is_words(text), "{text}: {:?}", of(text));
        }
        assert_eq!(of("part-7.html"), of("part-801.html"));
        assert_eq!(of("%D0%B8"), of("%d0%b8"));
        for (one, other) in [("part-7.html", "part.html"), ("about", "About"), ("a-b", "a_b"), ("%D0%B8", "%D0%B9")] {
            assert_ne!(of(one), of(other), "{one}, {other}");
        }
    }
}
