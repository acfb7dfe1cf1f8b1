//! Cursors of lists of links. Pure.

use data_encoding::BASE64URL_NOPAD;
use orbweaver_messages::Millis;

/// Position in the links of a page as they were at a fetch. Its text is opaque to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Event time of the links.
    pub(crate) at_ms: Millis,
    /// Number of the links before it.
    pub(crate) offset: usize,
}

impl Cursor {
    pub(crate) fn encode(self) -> String {
        BASE64URL_NOPAD.encode(format!("{}:{}", self.at_ms, self.offset).as_bytes())
    }

    /// Returns `None` for a text that is not that of a cursor.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let decoded = String::from_utf8(BASE64URL_NOPAD.decode(text.as_bytes()).ok()?).ok()?;
        let (at_ms, offset) = decoded.split_once(':')?;
        let cursor = Self { at_ms: at_ms.parse().ok()?, offset: offset.parse().ok()? };
        (cursor.encode() == text).then_some(cursor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_cursor_reads_back_from_its_text(at_ms: Millis, offset: usize) {
            let cursor = Cursor { at_ms, offset };
            prop_assert_eq!(Cursor::decode(&cursor.encode()), Some(cursor));
        }

        #[test]
        fn a_text_that_no_cursor_has_is_refused(text in "\\PC{0,30}|[A-Za-z0-9_-]{0,30}") {
            prop_assert!(Cursor::decode(&text).is_none_or(|cursor| cursor.encode() == text));
        }
    }
}
