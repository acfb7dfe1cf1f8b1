//! Pattern of a URL.

use orbweaver_messages::Pattern;

use crate::{mix, segment::Segment, words::Words};

/// Maximum number of words in a path, and of parameters in a query, that are examined; the rest counts as a single
/// part.
const MOST: usize = 16;
/// Represents a word that is not distinguished from others.
const ANY: u64 = 11;
/// Represents the parts beyond [`MOST`].
const MORE: u64 = 12;
/// Represents a path in which a word is repeated.
const AGAIN: u64 = 13;
const PATH: u64 = 14;
const QUERY: u64 = 15;

/// Returns the pattern of a canonical URL on a site with these words; adds new distinct words to them.
///
/// A pattern consists of host, path and query. Numbers, dates, hashes and so on count as equal within their type, and
/// several of one type in a row as a single one, so that `/2026/11/21/` and `/2026/11/` are equal. All paths of a host
/// in which a word is repeated are equal: a wrong relative link, as in `/a/b/a/b/a`, yields the words in every order.
/// Parameters are examined in the order of their names.
pub(crate) fn pattern(url: &str, words: &mut Words) -> Pattern {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut path = Path { hash: PATH, last: 0, passed: [0; MOST], count: 0 };
    let mut segments = place.as_bytes().split(|byte| *byte == b'/').filter(|segment| !segment.is_empty());
    if let Some(host) = segments.next() {
        path.add(host, words);
    }
    let host = path.hash;
    let hash = loop {
        let added = segments.next().map(|segment| path.add(segment, words));
        match added {
            Some(Added::Whole) => {}
            Some(Added::Again) => break mix(host, AGAIN),
            // A directory differs from a file of the same name.
            Some(Added::Full) | None => break mix(path.hash, u64::from(place.ends_with('/'))),
        }
    };
    let hash = if query.is_empty() { hash } else { parameters(hash, query, words) };
    #[allow(clippy::cast_possible_truncation, reason = "the upper half of a product has all of its bits mixed")]
    Pattern((mix(hash, QUERY) >> 32) as u32)
}

/// The path up to a segment.
struct Path {
    hash: u64,
    /// The type added last; 0 if it was a distinct word.
    last: u64,
    /// The words of the path.
    passed: [u64; MOST],
    count: usize,
}

/// Result of adding a segment.
enum Added {
    Whole,
    /// The segment is a word that occurred before.
    Again,
    /// The path has the maximum number of words.
    Full,
}

impl Path {
    fn add(&mut self, segment: &[u8], words: &mut Words) -> Added {
        let segment = Segment::of(segment);
        let Segment::Words(word) = segment else {
            self.add_kind(segment.tag());
            return Added::Whole;
        };
        if self.passed[..self.count].contains(&word) {
            return Added::Again;
        }
        if self.count == MOST {
            self.add_kind(MORE);
            return Added::Full;
        }
        self.passed[self.count] = word;
        self.count += 1;
        let with = mix(self.hash, mix(word, PATH));
        if words.is_distinct(self.hash, with) {
            (self.hash, self.last) = (with, 0);
        } else {
            self.add_kind(ANY);
        }
        Added::Whole
    }

    fn add_kind(&mut self, kind: u64) {
        if self.last != kind {
            (self.hash, self.last) = (mix(self.hash, kind), kind);
        }
    }
}

/// Adds the query to the hash of a path.
fn parameters(path: u64, query: &str, words: &mut Words) -> u64 {
    let mut found = [(&b""[..], &b""[..]); MOST];
    let mut count = 0;
    let mut all = query.as_bytes().split(|byte| matches!(byte, b'&' | b'#')).filter(|pair| !pair.is_empty());
    for pair in all.by_ref().take(MOST) {
        let end = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        found[count] = (&pair[..end], pair.get(end + 1..).unwrap_or_default());
        count += 1;
    }
    let found = &mut found[..count];
    found.sort_by_key(|(name, _)| *name);
    let (mut hash, mut last) = (mix(path, QUERY), 0);
    let here = hash;
    for (name, value) in found {
        let name = known(here, Segment::of(name), words);
        let parameter = mix(name, known(mix(here, name), Segment::of(value), words));
        // `a=1&a=2` equals `a=1`.
        if parameter != last {
            (hash, last) = (mix(hash, parameter), parameter);
        }
    }
    if all.next().is_some() { mix(hash, MORE) } else { hash }
}

/// Returns the part of a name or value that counts here.
fn known(place: u64, segment: Segment, words: &mut Words) -> u64 {
    match segment {
        Segment::Words(word) => {
            let with = mix(place, mix(word, QUERY));
            if words.is_distinct(place, with) { with } else { ANY }
        }
        other => other.tag(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Returns the number of patterns that these URLs have.
    fn count(words: &mut Words, urls: &[&str]) -> usize {
        let patterns: BTreeSet<_> = urls.iter().map(|url| pattern(&format!("http://h.test{url}"), words)).collect();
        patterns.len()
    }

    #[test]
    fn urls_that_differ_in_numbers_hashes_dates_and_order_are_similar() {
        let mut words = Words::default();
        for urls in [
            &["/article/7", "/article/801"][..],
            &["/2026/11/21/", "/1999/", "/1/2/3/4/5/"],
            &["/s/d41d8cd98f00b204/x", "/s/00000000000000ab/x"],
            &["/s/a8f3kz91/page-7.html?d=2026-11-21", "/s/q1w2e3/page-12.html?d=2027-01-01"],
            &["/x?b=1&a=2", "/x?a=7&b=8", "/x?a=7&a=9&b=1"],
            &["/docs/guide/docs/", "/docs/guide/docs/guide/docs/", "/docs/guide/guide/docs/index.html"],
            &["/docs/guide/docs/", "/guide/2/guide/"],
            &["/l?u=http%3A%2F%2Fa", "/l?u=a%20b%20c"],
        ] {
            assert_eq!(count(&mut words, urls), 1, "{urls:?}");
        }
    }

    #[test]
    fn urls_that_differ_in_a_word_a_parameter_or_a_level_are_not() {
        let mut words = Words::default();
        for urls in [
            &["/article/7", "/calendar/7", "/article/7/", "/article/7/print", "/article/7?print", "/"][..],
            &["/x?page=article&n=1", "/x?page=calendar&n=1", "/x?n=1", "/x?page=article", "/x?n="],
            &["/docs/guide/", "/docs/guide/docs/", "/docs/"],
        ] {
            assert_eq!(count(&mut words, urls), urls.len(), "{urls:?}");
        }
        let mut of = |url: &str| pattern(url, &mut words);
        assert_ne!(of("http://a.h.test/1"), of("http://b.h.test/1"));
        assert_eq!(of("http://a.h.test/1"), of("https://a.h.test/2"));
    }

    #[test]
    fn where_there_are_too_many_words_the_later_ones_are_one_and_the_earlier_stay() {
        let mut words = Words::default();
        let words = &mut words;
        assert_eq!(count(words, &["/article/1", "/calendar/1"]), 2);
        let letters = |number: usize| ["ab", "cd", "ef", "gh", "ij"][number % 5].repeat(1 + number / 5);
        let many: Vec<_> = (0..100).map(|number| format!("/{}/1", letters(number))).collect();
        let known = count(words, &many.iter().map(String::as_str).collect::<Vec<_>>());
        assert!((25..40).contains(&known), "{known}");
        assert_eq!(count(words, &["/article/1", "/calendar/1", "/zz/1"]), 3);
        assert_eq!(count(words, &["/zz/1", "/yy/2", "/xx/3"]), 1);
    }

    proptest! {
        #[test]
        fn any_text_has_a_pattern_and_the_same_one_again(url in ".{0,80}", path in "[a-z0-9/%.=&?-]{0,200}") {
            let mut words = Words::default();
            for url in [url, format!("http://h.test/{path}")] {
                prop_assert_eq!(pattern(&url, &mut words), pattern(&url, &mut words));
            }
        }
    }
}
