//! Links that need no parser: most links of a page to its own host.

use url::{Position, Url};

use crate::MAX_URL_BYTES;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Unchanged by the parser in path and query.
    Plain,
    /// Begins a segment.
    Slash,
    /// Unchanged, except at the beginning of a segment, where it may be a dot segment.
    Dot,
    /// Ends the path, and is unchanged in the query.
    QuestionMark,
    /// Unchanged in the query.
    InQuery,
    Other,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut byte = 0;
    while byte < classes.len() {
        classes[byte] = match byte as u8 {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => Class::Plain,
            b'-' | b'_' | b'~' | b'!' | b'$' | b'&' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b'@' => {
                Class::Plain
            }
            b'/' => Class::Slash,
            b'.' => Class::Dot,
            b'?' => Class::QuestionMark,
            // In a path, a dot segment may be encoded, and a drive letter has a colon.
            b'%' | b':' => Class::InQuery,
            _ => Class::Other,
        };
        byte += 1;
    }
    classes
};

/// Resolves a link as [`crate::resolve`] does, if it is an absolute path, possibly after scheme and host of the base, in
/// characters that a parser leaves unchanged. `None`: it has to be parsed.
#[must_use]
pub fn resolve_plain(base: &Url, link: &str) -> Option<String> {
    let origin = &base[..Position::BeforePath];
    let path = link.strip_prefix(origin).unwrap_or(link);
    if !path.starts_with('/') || !matches!(base.scheme(), "http" | "https") {
        return None;
    }
    let (mut is_in_query, mut before) = (false, Class::Plain);
    for byte in path.bytes() {
        let class = CLASSES[usize::from(byte)];
        match class {
            Class::Plain => {}
            // `//` begins a host, unless it is within the path.
            Class::Slash | Class::Dot if !is_in_query && before == Class::Slash => return None,
            Class::Slash | Class::Dot => {}
            Class::QuestionMark => is_in_query = true,
            Class::InQuery if is_in_query => {}
            Class::InQuery | Class::Other => return None,
        }
        before = class;
    }
    let length = origin.len() + path.len();
    (length <= MAX_URL_BYTES).then(|| [origin, path].concat())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::resolve;

    #[test]
    fn links_to_the_host_of_the_page_need_no_parser_unless_their_characters_or_segments_change() {
        for base in ["https://www.example.org/a/b?c", "http://h:8080", "http://u@[::1]:81/x"] {
            let base = Url::parse(base).unwrap();
            let origin = &base[..Position::BeforePath];
            for link in ["/", "/a/b.html", "/a/?b=%C3%A9&c=http://x/../y", "/A;b=1/~c/(d)?.", "/a?"] {
                for link in [link, &format!("{origin}{link}")] {
                    assert_eq!(resolve_plain(&base, link).unwrap(), resolve(&base, link).unwrap().as_str(), "{link}");
                }
            }
            let long = format!("/{}", "a".repeat(MAX_URL_BYTES));
            for link in [
                "", "a", "?a", "//h/a", "/a//b", "/a/../b", "/.", "/%2e/a", "/c:/a", "/a b", "/a#b", "/é", "/a?'",
                "/a\\b", &long,
            ] {
                assert_eq!(resolve_plain(&base, link), None, "{link}");
            }
        }
        assert_eq!(resolve_plain(&Url::parse("file:///a").unwrap(), "/b"), None);
        assert_eq!(resolve_plain(&Url::parse("http://example.org").unwrap(), "http://example.org.test/"), None);
    }

    proptest! {
        #[test]
        fn a_link_without_a_parser_is_what_the_parser_makes_of_it(
            base in "https?://(u(:p)?@)?[a-z]{1,3}(\\.[a-z]{2})?(:[0-9]{1,3})?(/[a-c:.]{0,3}){0,3}",
            link in "(/[a-zA-Z0-9._~!$&'()*+,;=:@%|^`{}\\[\\]\"<>/?# -]{0,3}){0,5}([ -~]{0,4}|.{0,2})",
            is_absolute: bool,
        ) {
            let Ok(base) = Url::parse(&base) else { return Ok(()) };
            let link = if is_absolute { format!("{}{link}", &base[..Position::BeforePath]) } else { link };
            if let Some(plain) = resolve_plain(&base, &link) {
                prop_assert_eq!(Ok(plain), resolve(&base, &link).map(String::from));
            }
        }
    }
}
