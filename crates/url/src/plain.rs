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
    /// Begins the fragment.
    Hash,
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
            b'#' => Class::Hash,
            _ => Class::Other,
        };
        byte += 1;
    }
    classes
};

/// Resolves a link as [`crate::resolve`] does, if it leads to the host of the base and a parser would leave its characters
/// unchanged. `None`: it has to be parsed.
#[must_use]
pub fn resolve_plain(base: &Url, link: &str) -> Option<String> {
    if !matches!(base.scheme(), "http" | "https") || link.len() > MAX_URL_BYTES {
        return None;
    }
    let origin = &base[..Position::BeforePath];
    let without_scheme = &origin[base.scheme().len() + 1..];
    let path = link.strip_prefix(origin).or_else(|| link.strip_prefix(without_scheme));
    let (before, rest) = match path.filter(|path| path.starts_with('/')) {
        Some(path) => (origin, path),
        None => match link.bytes().next() {
            Some(b'/') => (origin, link),
            Some(b'?') => (&base[..Position::AfterPath], link),
            Some(b'#') | None => (&base[..Position::AfterQuery], link),
            Some(_) => within_directory(base, link),
        },
    };
    let rest = &rest[..plain_length(rest)?];
    (before.len() + rest.len() <= MAX_URL_BYTES).then(|| [before, rest].concat())
}

/// Returns the URL of the directory to which a relative path leads by its first segments, if these are dots, and the
/// other segments.
fn within_directory<'a>(base: &'a Url, link: &'a str) -> (&'a str, &'a str) {
    let first = base[..Position::BeforePath].len() + 1;
    let directory = |path: &str| path.rfind('/').map_or(first, |slash| first.max(slash + 1));
    let url = &base[..Position::AfterPath];
    let (mut end, mut rest) = (directory(url), link);
    loop {
        if let Some(next) = rest.strip_prefix("./") {
            rest = next;
        } else if let Some(next) = rest.strip_prefix("../") {
            end = directory(&url[..end - 1]);
            rest = next;
        } else {
            return (&url[..end], rest);
        }
    }
}

/// Returns the length of a path and query without the fragment; `None` if a parser may change them, or if the fragment
/// may be kept.
fn plain_length(path: &str) -> Option<usize> {
    // A relative path begins with a segment.
    let (mut is_in_query, mut before) = (false, if path.starts_with('/') { Class::Plain } else { Class::Slash });
    for (at, byte) in path.bytes().enumerate() {
        let class = CLASSES[usize::from(byte)];
        match class {
            Class::Plain => {}
            // `//` begins a host, unless it is within the path.
            Class::Slash | Class::Dot if !is_in_query && before == Class::Slash => return None,
            Class::Slash | Class::Dot => {}
            Class::QuestionMark => is_in_query = true,
            Class::InQuery if is_in_query => {}
            // Control characters are removed, so that `!` may follow them.
            Class::Hash => return path.as_bytes().get(at + 1).is_none_or(|&next| next > b'!').then_some(at),
            Class::InQuery | Class::Other => return None,
        }
        before = class;
    }
    Some(path.len())
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
            let without_scheme = &origin[base.scheme().len() + 1..];
            for link in ["/", "/a/b.html", "/a/?b=%C3%A9&c=http://x/../y", "/A;b=1/~c/(d)?.", "/a?", "/a#b", "/a?b#"] {
                for link in [link, &format!("{origin}{link}"), &format!("{without_scheme}{link}")] {
                    assert_eq!(resolve_plain(&base, link).unwrap(), resolve(&base, link).unwrap().as_str(), "{link}");
                }
            }
            for link in
                ["", "#a", "?a", "?", "a", "a/b?c/../d#e", "./", "./?a", "../", "../a", "..//a", ".././../../a.b/"]
            {
                assert_eq!(resolve_plain(&base, link).unwrap(), resolve(&base, link).unwrap().as_str(), "{link}");
            }
            let long = format!("/{}", "a".repeat(MAX_URL_BYTES));
            let long_with_host = &long[..MAX_URL_BYTES];
            let long_fragment = format!("#{}", "a".repeat(MAX_URL_BYTES));
            for link in [
                "//h/a",
                "/a//b",
                "/a/../b",
                "/.",
                "/%2e/a",
                "/c:/a",
                "/a b",
                "/a#!b",
                "#\t!b",
                "/é",
                "/a?'",
                "/a\\b",
                "..",
                ".a",
                "a/./b",
                "a:b",
                "a b",
                "?'",
                &long,
                &long_fragment,
                long_with_host,
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
            base in "https?://(u(:p)?@)?[a-z]{1,3}(\\.[a-z]{2})?(:[0-9]{1,3})?(/[a-c:.]{0,3}){0,4}(\\?[a/]{0,2})?(#[a-c/]{0,2})?",
            link in "(\\.{1,2}/){0,3}(/?[a-zA-Z0-9._~!$&'()*+,;=:@%|^`{}\\[\\]\"<>/?# -]{0,3}){0,5}([ -~]{0,4}|.{0,2})",
            from in prop::sample::select(vec![None, Some(Position::BeforeScheme), Some(Position::AfterScheme)]),
        ) {
            let Ok(base) = Url::parse(&base) else { return Ok(()) };
            let link = match from {
                Some(from) => format!("{}{link}", base[from..Position::BeforePath].trim_start_matches(':')),
                None => link,
            };
            if let Some(plain) = resolve_plain(&base, &link) {
                prop_assert_eq!(Ok(plain), resolve(&base, &link).map(String::from));
            }
        }
    }
}
