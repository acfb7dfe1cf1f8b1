//! Lines of a robots.txt: numbers, directives, values.

/// Directive of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Directive {
    UserAgent,
    Allow,
    Disallow,
    CrawlDelay,
    Sitemap,
    ContentSignal,
    ContentUsage,
}

/// Directive names in lower case, with the frequent misspellings that Google's parser accepts.
const NAMES: &[(&[u8], Directive)] = &[
    (b"disallow", Directive::Disallow),
    (b"allow", Directive::Allow),
    (b"user-agent", Directive::UserAgent),
    (b"crawl-delay", Directive::CrawlDelay),
    (b"useragent", Directive::UserAgent),
    (b"user agent", Directive::UserAgent),
    (b"crawldelay", Directive::CrawlDelay),
    (b"sitemap", Directive::Sitemap),
    (b"site-map", Directive::Sitemap),
    (b"dissallow", Directive::Disallow),
    (b"dissalow", Directive::Disallow),
    (b"disalow", Directive::Disallow),
    (b"diasllow", Directive::Disallow),
    (b"disallaw", Directive::Disallow),
    (b"content-signal", Directive::ContentSignal),
    (b"content-usage", Directive::ContentUsage),
];

/// Splits at CR, LF and CRLF; yields the number of each line, from 1, and its bytes.
pub(super) fn numbered(bytes: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let mut rest = Some(bytes);
    let lines = std::iter::from_fn(move || {
        let bytes = rest?;
        let Some(end) = memchr::memchr2(b'\r', b'\n', bytes) else {
            return rest.take();
        };
        let ending = if bytes[end..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = Some(&bytes[end + ending..]);
        Some(&bytes[..end])
    });
    (1..).zip(lines)
}

/// Returns the directive of a line and its value, without comment and surrounding white space; `None` for an unknown
/// directive.
pub(super) fn directive(line: &[u8]) -> Option<(Directive, &[u8])> {
    let line = &line[..memchr::memchr(b'#', line).unwrap_or(line.len())];
    let (name, value) = match memchr::memchr(b':', line) {
        Some(colon) => (&line[..colon], &line[colon + 1..]),
        None => two_words(line.trim_ascii())?,
    };
    let name = name.trim_ascii();
    let (_, directive) = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some((*directive, value.trim_ascii()))
}

/// Splits a line without a colon, which is accepted if it has exactly two words.
fn two_words(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let gap = line.iter().position(u8::is_ascii_whitespace)?;
    let value = line[gap..].trim_ascii();
    let one = !value.is_empty() && !value.iter().any(u8::is_ascii_whitespace);
    one.then_some((&line[..gap], value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_any_ending_and_keep_their_numbers() {
        let lines: Vec<_> = numbered(b"a\r\nb\rc\n\nd").collect();
        assert_eq!(lines, [(1, &b"a"[..]), (2, b"b"), (3, b"c"), (4, b""), (5, b"d")]);
    }

    #[test]
    fn a_directive_is_read_whatever_its_case_spelling_and_space() {
        assert_eq!(directive(b" DISALLOW :  /x y  # why"), Some((Directive::Disallow, &b"/x y"[..])));
        assert_eq!(directive(b"disallow /x"), Some((Directive::Disallow, &b"/x"[..])));
        assert_eq!(directive(b"disallow /x y"), None);
        assert_eq!(directive(b"dissallow: /"), Some((Directive::Disallow, &b"/"[..])));
        assert_eq!(directive(b"Noindex: /x"), None);
        assert_eq!(directive(b"# User-agent: x"), None);
    }
}
