//! Cursors of lists. Pure.

use data_encoding::BASE64URL_NOPAD;
use orbweaver_messages::Millis;
use orbweaver_url::Fingerprint;
use xxhash_rust::xxh3::xxh3_64;

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

/// Position in a list of pages: the entry that was read last. Its text belongs to one list, and is opaque to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PagesCursor(pub(crate) Fingerprint);

impl PagesCursor {
    /// Returns the text of the cursor in a list, of which `list` is the description.
    pub(crate) fn encode(self, list: &str) -> String {
        let check = xxh3_64(&[&self.0.0, list.as_bytes()].concat()).to_be_bytes();
        BASE64URL_NOPAD.encode(&[&self.0.0[..], &check].concat())
    }

    /// Returns `None` for a text that is not that of a cursor in this list.
    pub(crate) fn decode(text: &str, list: &str) -> Option<Self> {
        let decoded = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        let cursor = Self(Fingerprint(*decoded.first_chunk()?));
        (cursor.encode(list) == text).then_some(cursor)
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
        fn a_cursor_of_pages_reads_back_in_its_list_alone(bytes: [u8; 16], list in "[a-c]{0,2}", other in "[a-c]{0,2}") {
            let cursor = PagesCursor(Fingerprint(bytes));
            let found = PagesCursor::decode(&cursor.encode(&list), &other);
            prop_assert_eq!(found, (list == other).then_some(cursor));
        }

        #[test]
        fn a_changed_cursor_of_pages_is_refused(bytes: [u8; 16], position in 0_usize..32, character in "[A-Za-z0-9_-]") {
            let text = PagesCursor(Fingerprint(bytes)).encode("a");
            let mut changed = text.clone();
            changed.replace_range(position..=position, &character);
            prop_assert_eq!(PagesCursor::decode(&changed, "a").is_some(), changed == text);
            for cut in [&text[1..], &text[..31], ""] {
                prop_assert_eq!(PagesCursor::decode(cut, "a"), None);
            }
        }

        #[test]
        fn a_text_that_no_cursor_has_is_refused(text in "\\PC{0,30}|[A-Za-z0-9_-]{0,30}") {
            prop_assert!(Cursor::decode(&text).is_none_or(|cursor| cursor.encode() == text));
        }
    }
}
