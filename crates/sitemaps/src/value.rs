//! Text of one element, bounded.

use std::borrow::Cow;

use quick_xml::escape::unescape;

/// Maximum length of a URL, in bytes; a longer one is dropped. Equal to `orbweaver_url::MAX_URL_BYTES`, which refuses
/// longer URLs; crates of the lowest layer do not depend on each other.
pub const MAX_URL_BYTES: usize = 8192;

/// Returns `true` for white space, and for characters without a width that Unicode does not count as such: byte order
/// mark, zero width space.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ['\u{feff}', '\u{200b}'].contains(&c)
}

/// Text of an element, of at most [`MAX_URL_BYTES`].
#[derive(Debug, Default)]
pub(crate) struct Value {
    text: String,
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Usable,
    TooLong,
    /// Contains an entity of the document type definition, which is never expanded.
    Unknown,
}

impl Value {
    /// Appends a piece of text. White space at the start is left out.
    pub(crate) fn push(&mut self, piece: &str) {
        let piece = if self.text.is_empty() { piece.trim_start_matches(is_space) } else { piece };
        if self.state != State::Usable || piece.is_empty() {
            return;
        }
        let room = MAX_URL_BYTES - self.text.len();
        let end = if piece.len() > room { piece.trim_end_matches(is_space) } else { piece };
        if end.len() > room {
            self.state = State::TooLong;
            self.text.clear();
        } else {
            self.text.push_str(end);
        }
    }

    /// Makes the text unusable: an entity in it has no known value.
    pub(crate) fn spoil(&mut self) {
        self.text.clear();
        self.state = State::Unknown;
    }

    /// Returns the text without white space at its ends; empty if unusable.
    pub(crate) fn get(&self) -> &str {
        self.text.trim_matches(is_space)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.get().is_empty()
    }

    /// Returns `true` if the text was longer than [`MAX_URL_BYTES`].
    pub(crate) fn is_too_long(&self) -> bool {
        self.state == State::TooLong
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.state = State::Usable;
    }

    /// Replaces the text by the value of an attribute as written in the file.
    pub(crate) fn set_attribute(&mut self, raw: &str) {
        self.clear();
        // An entity is longer than its value: a raw value of some times the limit may still be a valid URL.
        if raw.len() > 8 * MAX_URL_BYTES {
            self.state = State::TooLong;
        } else {
            // A `&` without an entity is common in URLs; the library reports an error then.
            self.push(&unescape(raw).unwrap_or_else(|_| Cow::Owned(raw.replace("&amp;", "&"))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_the_maximum_length_is_kept_and_a_longer_one_is_dropped() {
        let mut value = Value::default();
        value.push(&"a".repeat(MAX_URL_BYTES));
        value.push(" \n ");
        assert_eq!(value.get().len(), MAX_URL_BYTES);
        assert!(!value.is_too_long());
        value.push("b");
        assert!(value.is_too_long() && value.is_empty());
        value.push("c");
        assert_eq!(value.get(), "");
    }

    #[test]
    fn white_space_of_unicode_is_removed_at_both_ends() {
        let mut value = Value::default();
        value.push(" \u{a0}\u{2003}\n");
        value.push("\u{feff}http://a.example/ b\u{200b}\u{3000}");
        assert_eq!(value.get(), "http://a.example/ b");
    }

    #[test]
    fn an_attribute_is_unescaped_and_a_lone_ampersand_is_kept() {
        let mut value = Value::default();
        value.set_attribute("/?a=1&amp;b=&#50;");
        assert_eq!(value.get(), "/?a=1&b=2");
        value.set_attribute("/?a=1&b=2&amp;c");
        assert_eq!(value.get(), "/?a=1&b=2&c");
        value.set_attribute(&"a".repeat(MAX_URL_BYTES * 9));
        assert!(value.is_too_long());
    }
}
