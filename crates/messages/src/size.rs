//! Sizes of messages as JSON, measured before encoding.

use std::io;

use serde::Serialize;

/// Returns the number of bytes that [`encode`](crate::encode) produces for a message.
#[must_use]
pub fn encoded_len<T: Serialize>(message: &T) -> usize {
    let mut counter = Counter(0);
    // The counter never fails, and the message types have no map that can fail to serialize.
    let _ = serde_json::to_writer(&mut counter, message);
    counter.0
}

/// Returns the size of a text as JSON in bytes, including quotes.
#[must_use]
pub fn json_len(text: &str) -> usize {
    2 + text.bytes().map(escaped_len).sum::<usize>()
}

/// Returns the longest prefix of a text that takes at most `room` bytes as JSON, excluding quotes.
#[must_use]
pub fn json_prefix(text: &str, room: usize) -> &str {
    let mut bytes = 0;
    for (at, byte) in text.bytes().enumerate() {
        bytes += escaped_len(byte);
        if bytes > room {
            return &text[..text.floor_char_boundary(at)];
        }
    }
    text
}

/// Returns the number of bytes that a byte of a text takes in JSON (RFC 8259, section 7).
fn escaped_len(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | 0x08 | b'\t' | b'\n' | 0x0c | b'\r' => 2,
        0..0x20 => 6,
        _ => 1,
    }
}

struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::encode;

    /// Texts with many characters that JSON escapes.
    fn text() -> impl Strategy<Value = String> {
        let characters = prop_oneof![any::<char>(), prop::char::range('\0', '#'), Just('\\'), Just('é'), Just('🕷')];
        prop::collection::vec(characters, 0..60).prop_map(|characters| characters.into_iter().collect())
    }

    proptest! {
        #[test]
        fn a_text_is_measured_as_it_is_written(text in text()) {
            prop_assert_eq!(json_len(&text), encode(&text).len());
            prop_assert_eq!(encoded_len(&text), encode(&text).len());
        }

        #[test]
        fn the_longest_beginning_that_fits_is_kept(text in text(), room in 0..100_usize) {
            let kept = json_prefix(&text, room);
            prop_assert!(text.starts_with(kept) && json_len(kept) - 2 <= room);
            if let Some(next) = text[kept.len()..].chars().next() {
                prop_assert!(json_len(&text[..kept.len() + next.len_utf8()]) - 2 > room);
            }
        }
    }
}
