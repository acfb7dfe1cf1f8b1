//! Hash of a page's text, without the words of its URL.

use crate::{mix, text::words};

/// Maximum length of each text that is hashed, in bytes; the rest is ignored.
const MOST_TEXT: usize = 64 << 10;
/// Maximum number of words that are ignored because the page may echo them.
const MOST_ECHO: usize = 256;
/// Maximum number of links that are searched for such words.
const MOST_LINKS: usize = 256;

/// Returns a hash of the words of a page, or `None` if it has none.
///
/// Pages with equivalent text must have the same hash, even if one is about October and the other about November 2026,
/// or if each repeats its search terms. Ignored are therefore words that contain a digit, words of the page's own URL,
/// and words in the queries of links back to the page's path. All other words count: pages that differ in one of them
/// are different.
#[must_use]
pub fn digest<'a>(texts: &[&str], url: &str, links: impl IntoIterator<Item = &'a str>) -> Option<u32> {
    let mut echo = Vec::new();
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    decoded_words(rest.as_bytes(), &mut echo);
    let path = url.split('?').next().unwrap_or(url);
    for link in links.into_iter().take(MOST_LINKS) {
        if let Some(query) = link.strip_prefix(path).and_then(|rest| rest.strip_prefix('?')) {
            decoded_words(query.as_bytes(), &mut echo);
        }
    }
    echo.sort_unstable();
    echo.dedup();
    // Two bits per word.
    let bits = |word: u64| 1u64 << (word >> 58) | 1 << (word >> 52 & 63);
    let filter = echo.iter().fold(0, |filter, &word| filter | bits(word));
    let (mut hash, mut any) = (0, false);
    for text in texts {
        words(&text.as_bytes()[..text.len().min(MOST_TEXT)], |word| {
            any = true;
            if let Some(word) = word
                && (filter & bits(word) != bits(word) || echo.binary_search(&word).is_err())
            {
                hash = mix(hash, word);
            }
        });
    }
    #[allow(clippy::cast_possible_truncation, reason = "the upper half of a product has all of its bits mixed")]
    any.then_some((mix(hash, 0) >> 32) as u32)
}

/// Adds the words of a part of a URL, percent-decoded.
fn decoded_words(part: &[u8], echo: &mut Vec<u64>) {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut decoded = Vec::with_capacity(part.len());
    let mut at = 0;
    while let Some(byte) = part.get(at) {
        let octet = digit(part.get(at + 1)).zip(digit(part.get(at + 2))).filter(|_| *byte == b'%');
        let octet = octet.and_then(|(high, low)| u8::try_from(16 * high + low).ok());
        decoded.push(octet.unwrap_or(*byte));
        at += if octet.is_some() { 3 } else { 1 };
    }
    words(&decoded, |word| {
        if let Some(word) = word.filter(|_| echo.len() < MOST_ECHO) {
            echo.push(word);
        }
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const URL: &str = "http://h.test/x";

    fn of(text: &str) -> Option<u32> {
        digest(&[text], URL, [])
    }

    #[test]
    fn pages_that_differ_in_numbers_case_and_marks_say_the_same() {
        assert_eq!(of("Calendar of 11/2026: 1 2 3"), of("calendar of 12/2027, 1 2 3 4"));
        assert_eq!(of("Your session is a8f3kz."), of("Your session is 99zz1!"));
        assert_ne!(of("Calendar"), of("Calendars"));
        assert_ne!(of("one two"), of("two one"));
        assert_ne!(of("ab c"), of("a bc"));
        assert_ne!(of("ж"), of("з"));
    }

    #[test]
    fn a_page_without_words_says_nothing_that_is_known_of() {
        assert_eq!(of(""), None);
        assert_eq!(of("-- ..."), None);
        assert!(of("42").is_some(), "a number is something");
    }

    #[test]
    fn what_a_page_repeats_of_its_url_and_of_searches_that_it_offers_does_not_count() {
        let page = |query: &str, links: &[&str]| {
            let url = format!("http://h.test/search?q={query}");
            let decoded = query.replace('+', " ").replace("%C3%A9", "é");
            let text = format!("Nothing found for {decoded}. See also {}", links.join(" "));
            let links: Vec<_> = links.iter().map(|word| format!("http://h.test/search?q={query}+{word}")).collect();
            digest(&["Search", &text], &url, links.iter().map(String::as_str))
        };
        let first = page("red+shoes", &["blue", "cheap"]);
        assert_eq!(first, page("blue+caf%C3%A9", &["green", "new"]));
        let other = digest(&["Search", "Three things found for red shoes."], "http://h.test/search?q=red+shoes", []);
        assert_ne!(first, other);
    }

    proptest! {
        #[test]
        fn any_text_has_a_digest_or_none_and_a_new_word_makes_another(text in ".{0,200}", word in "[a-z]{3,9}", url in ".{0,60}") {
            let with = format!("{text} {word}x");
            let (one, other) = (digest(&[&text], &url, [url.as_str()]), digest(&[&with], &url, []));
            prop_assert_eq!(one, digest(&[&text], &url, [url.as_str()]));
            prop_assert!(other.is_some());
        }
    }
}
