//! Text with folded white space, bounded.

/// Collector of text: runs of white space become one space, there is none at either end, control characters are
/// dropped.
///
/// White space is the Unicode property `White_Space`, including no-break and ideographic spaces.
#[derive(Debug)]
pub(crate) struct FoldedText {
    bytes: Vec<u8>,
    limit: usize,
    /// First bytes of a character that may be white space, until its other bytes arrive.
    partial: Vec<u8>,
    /// Whether a space is due before the next word.
    space: bool,
    cut: bool,
    /// Bytes of the whole text.
    total: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Plain,
    /// ASCII white space.
    Space,
    /// An ASCII control character.
    Control,
    /// First byte of a character that may be white space.
    Lead,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Plain; 256];
    let mut byte = 0;
    while byte < classes.len() {
        classes[byte] = match byte {
            0x09..=0x0d | 0x20 => Class::Space,
            0x00..=0x08 | 0x0e..=0x1f | 0x7f => Class::Control,
            0xc2 | 0xe1..=0xe3 => Class::Lead,
            _ => Class::Plain,
        };
        byte += 1;
    }
    classes
};

/// Number of bytes examined together.
const STRIDE: usize = 16;

/// Returns 1 for a byte that is neither plain nor a space: without a branch, so that the compiler vectorizes it.
const fn is_rare(byte: u8) -> u8 {
    (byte < b' ') as u8 | (byte == 0x7f) as u8 | (byte == 0xc2) as u8 | (byte.wrapping_sub(0xe1) < 3) as u8
}

/// Returns the length of a prefix of `text` that is copied unchanged: plain bytes and single spaces between them. More
/// such bytes may follow.
fn common(text: &[u8]) -> usize {
    if text.first() == Some(&b' ') {
        return 0;
    }
    let mut at = 0;
    while let Some(window) = text[at..].first_chunk::<{ STRIDE + 1 }>() {
        let mut rare = is_rare(window[STRIDE]);
        for place in 0..STRIDE {
            let (byte, next) = (window[place], window[place + 1]);
            rare |= is_rare(byte) | (u8::from(byte == b' ') & u8::from(next == b' '));
        }
        if rare != 0 {
            break;
        }
        at += STRIDE;
    }
    at
}

impl FoldedText {
    /// Creates an empty text with a limit of `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, partial: Vec::new(), space: false, cut: false, total: 0 }
    }

    /// Reserves capacity for `bytes` bytes, within the limit.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes.min(self.limit));
    }

    /// Returns `true` if text was cut at the limit.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Returns the length of the whole text so far, in bytes, including the part that was cut.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Separates the next text from the last word.
    pub(crate) fn break_word(&mut self) {
        self.space = true;
    }

    /// Adds text; characters may be split between calls.
    pub(crate) fn push(&mut self, text: &[u8]) {
        if self.partial.is_empty() {
            self.push_after_partial(text);
        } else {
            let mut whole = std::mem::take(&mut self.partial);
            whole.extend_from_slice(text);
            self.push_after_partial(&whole);
        }
    }

    fn push_after_partial(&mut self, text: &[u8]) {
        let mut start = 0;
        let mut at = 0;
        // Position at which to examine many bytes at a time again: not before as many were examined one by one.
        let mut look_at = 0;
        while let Some(&byte) = text.get(at) {
            if at >= look_at {
                let length = common(&text[at..]);
                look_at = at + length + STRIDE;
                if length > 0 {
                    at += length;
                    continue;
                }
            }
            match CLASSES[usize::from(byte)] {
                Class::Plain => at += 1,
                // The common case, a single space between two words, is copied along with them.
                Class::Space
                    if byte == b' '
                        && at > start
                        && text.get(at + 1).is_some_and(|&next| CLASSES[usize::from(next)] == Class::Plain) =>
                {
                    at += 2;
                }
                class => {
                    let space = if class == Class::Lead { white_space(&text[at..]) } else { Some(1) };
                    match space {
                        Some(0) => at += 1,
                        Some(space) => {
                            self.append(&text[start..at]);
                            self.space |= class != Class::Control;
                            at += space;
                            start = at;
                        }
                        None => {
                            self.append(&text[start..at]);
                            self.partial = text[at..].to_vec();
                            return;
                        }
                    }
                }
            }
        }
        self.append(&text[start..]);
    }

    /// Returns the text and resets the collector.
    pub(crate) fn take(&mut self) -> String {
        let partial = std::mem::take(&mut self.partial);
        self.append(&partial);
        self.space = false;
        self.cut = false;
        self.total = 0;
        // All input is UTF-8; only the last character may be incomplete, if it arrived in pieces and the limit was
        // between them.
        let mut bytes = std::mem::take(&mut self.bytes);
        if let Err(error) = std::str::from_utf8(&bytes) {
            bytes.truncate(error.valid_up_to());
            bytes.truncate(bytes.trim_ascii_end().len());
        }
        String::from_utf8(bytes).unwrap_or_default()
    }

    fn append(&mut self, words: &[u8]) {
        if words.is_empty() {
            return;
        }
        self.total += words.len() + usize::from(self.space && self.total > 0);
        if self.cut {
            self.space = false;
            return;
        }
        let space = usize::from(self.space && !self.bytes.is_empty());
        let mut end = words.len().min(self.limit.saturating_sub(self.bytes.len() + space));
        if end < words.len() {
            self.cut = true;
            while end > 0 && words[end] & 0xc0 == 0x80 {
                end -= 1;
            }
            // A single space between two words is copied along with them.
            end -= usize::from(words[..end].ends_with(b" "));
        }
        if end > 0 {
            if space == 1 {
                self.bytes.push(b' ');
            }
            self.bytes.extend_from_slice(&words[..end]);
        }
        self.space = false;
    }
}

/// Returns the length of the white-space character outside ASCII that `text` begins with; 0 if there is none, and
/// `None` if more bytes are needed. Those characters are U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029,
/// U+202F, U+205F and U+3000.
fn white_space(text: &[u8]) -> Option<usize> {
    match text {
        [0xc2, 0x85 | 0xa0, ..] => Some(2),
        [0xe1, 0x9a, 0x80, ..]
        | [0xe2, 0x80, 0x80..=0x8a | 0xa8 | 0xa9 | 0xaf, ..]
        | [0xe2, 0x81, 0x9f, ..]
        | [0xe3, 0x80, 0x80, ..] => Some(3),
        [_] | [0xe1, 0x9a] | [0xe2, 0x80 | 0x81] | [0xe3, 0x80] => None,
        _ => Some(0),
    }
}

/// Folds a whole text. Returns it, and whether it was cut.
pub(crate) fn folded(text: &str, limit: usize) -> (String, bool) {
    let mut folded = FoldedText::new(limit);
    folded.push(text.as_bytes());
    let cut = folded.is_cut();
    (folded.take(), cut)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plainly(text: &str) -> String {
        let visible: String = text.chars().filter(|c| c.is_whitespace() || !c.is_ascii_control()).collect();
        visible.split(char::is_whitespace).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }

    proptest! {
        #[test]
        fn folding_is_splitting_at_white_space_and_joining_with_spaces(
            text in "([ \t\na-cé\u{1}\u{a0}\u{3000}\u{2003}]{0,60}|([a-c—]{1,9}[ \n]{1,2}){0,20})",
        ) {
            prop_assert_eq!(folded(&text, usize::MAX).0, plainly(&text));
        }

        #[test]
        fn folding_never_exceeds_its_limit_and_cuts_whole_characters(text in "[ a-zé\u{a0}\u{1f600}]{0,99}", limit in 0usize..99) {
            let (cut, was_cut) = folded(&text, limit);
            let whole = plainly(&text);
            prop_assert!(cut.len() <= limit);
            prop_assert!(whole.starts_with(&cut) && !cut.ends_with(' '));
            prop_assert_eq!(was_cut, cut != whole);
            let mut counted = FoldedText::new(limit);
            text.as_bytes().chunks(5).for_each(|piece| counted.push(piece));
            prop_assert_eq!(counted.total(), whole.len());
        }

        #[test]
        fn folding_does_not_depend_on_how_the_text_is_split(words in "[ a-zé\n\u{a0}\u{3000}\u{2003}]{0,40}", size in 1usize..6) {
            let mut pieces = FoldedText::new(usize::MAX);
            words.as_bytes().chunks(size).for_each(|piece| pieces.push(piece));
            prop_assert_eq!(pieces.take(), plainly(&words));
        }
    }

    #[test]
    fn a_byte_is_rare_exactly_when_it_is_neither_plain_nor_a_space() {
        for byte in 0..=u8::MAX {
            let plain = byte == b' ' || CLASSES[usize::from(byte)] == Class::Plain;
            assert_eq!(is_rare(byte) == 0, plain, "{byte:#x}");
        }
    }

    #[test]
    fn a_character_that_comes_in_pieces_is_cut_as_a_whole() {
        let mut text = FoldedText::new(2);
        "aé".as_bytes().chunks(1).for_each(|piece| text.push(piece));
        assert!(text.is_cut());
        assert_eq!(text.take(), "a");
    }

    #[test]
    fn a_broken_word_is_two_words() {
        let mut text = FoldedText::new(100);
        text.push(b"one");
        text.break_word();
        text.push(b"two");
        assert_eq!(text.take(), "one two");
    }
}
