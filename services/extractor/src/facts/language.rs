//! Language of a text.

use isolang::Language;
use whatlang::{Detector, Info, Lang};

/// Number of bytes that are examined first, and if they leave doubt. Both are in the middle: menus are at the start.
const FIRST_BYTES: usize = 4 << 10;
const MOST_BYTES: usize = 16 << 10;

/// Returns the language of a text by its code of ISO 639-1, or 639-3 if it has no shorter one; `None` if in doubt.
pub(crate) fn detect(text: &str) -> Option<String> {
    let further = || (text.len() > FIRST_BYTES).then(|| reliable(middle(text, MOST_BYTES))).flatten();
    let found = reliable(middle(text, FIRST_BYTES)).or_else(further)?;
    // Mandarin in particular; ISO 639-1 has the code of all kinds of Chinese.
    let code = if found == Lang::Cmn { "zho" } else { found.code() };
    let language = Language::from_639_3(code)?;
    Some(language.to_639_1().unwrap_or(code).to_owned())
}

fn reliable(text: &str) -> Option<Lang> {
    Detector::new().detect(text).filter(Info::is_reliable).map(|found| found.lang())
}

/// Returns at most this number of bytes from the middle of a text.
fn middle(text: &str, bytes: usize) -> &str {
    let start = text.floor_char_boundary(text.len().saturating_sub(bytes) / 2);
    let text = &text[start..];
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_text_has_whole_characters_and_no_more_than_the_bytes() {
        assert_eq!(middle("abcdef", 2), "cd");
        assert_eq!(middle("abc", 4), "abc");
        assert_eq!(middle("éééé", 3), "é");
        assert_eq!(middle("", 3), "");
    }

    #[test]
    fn a_text_that_begins_with_a_menu_in_another_language_has_that_of_its_middle() {
        let menu = "Home Products Contact About us Privacy policy Terms and conditions Newsletter ".repeat(60);
        let text = "Der Fluss entspringt in den Bergen und fließt nach vielen Windungen durch das Tal in das Meer. "
            .repeat(200);
        assert_eq!(detect(&format!("{menu}{text}")).as_deref(), Some("de"));
    }
}
