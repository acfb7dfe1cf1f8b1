//! Path segments of a letter and `:` or `|`. The crate `url` (2.5.8) treats them as Windows drive letters under every
//! scheme, and does not let `..` remove them; the URL Standard does so for `file` only (section 4.4, "shorten a url's
//! path").

use url::{ParseError, Url};

use crate::respell::{replaced, truly_spelled};

/// Bytes that can replace `:` and `|` during parsing, if they occur nowhere else: parsing leaves them unchanged.
const MARKS: &[u8] = b"!*,;=_~";

/// Returns `true` if a text may climb out of such a segment, of its own or of its base.
pub(crate) fn may_be_left(text: &str, base: Option<&Url>) -> bool {
    let climbs = text.contains("..") || text.contains("%2e") || text.contains("%2E");
    climbs && (has_drive(text) || base.is_some_and(|base| has_drive(base.path())))
}

/// Parses a text with such segments, using `parse`, as if they were ordinary segments.
pub(crate) fn read(
    text: &str,
    base: Option<&Url>,
    parse: impl Fn(&str, Option<&Url>) -> Result<Url, ParseError>,
) -> Result<Url, ParseError> {
    let known = base.map_or("", Url::as_str);
    let mut free =
        MARKS.iter().copied().filter(|mark| ![text, known].iter().any(|text| text.as_bytes().contains(mark)));
    let (Some(colon), Some(bar)) = (free.next(), free.next()) else { return parse(text, base) };
    let marked = |text: &str| {
        replaced(text, |bytes, at| match bytes[at] {
            b':' if is_drive(bytes, at) => colon,
            b'|' if is_drive(bytes, at) => bar,
            byte => byte,
        })
    };
    let given = base.map(|base| truly_spelled(base, marked)).transpose()?;
    match parse(&marked(text), given.as_ref()) {
        Ok(url) if !url.authority().contains([char::from(colon), char::from(bar)]) => truly_spelled(&url, |text| {
            replaced(text, |bytes, at| match bytes[at] {
                byte if byte == colon => b':',
                byte if byte == bar => b'|',
                byte => byte,
            })
        }),
        // It was a host with an empty port.
        _ => parse(text, base),
    }
}

fn has_drive(text: &str) -> bool {
    (0..text.len()).any(|at| matches!(text.as_bytes()[at], b':' | b'|') && is_drive(text.as_bytes(), at))
}

/// Returns `true` if the byte at `at` and a letter before it form a segment.
fn is_drive(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(2).and_then(|start| bytes.get(start..at));
    matches!(before, Some([b'/' | b'\\', letter]) if letter.is_ascii_alphabetic())
        && matches!(bytes.get(at + 1), None | Some(b'/' | b'\\' | b'?' | b'#'))
}

#[cfg(test)]
mod tests {
    use crate::{parse, resolve};

    #[test]
    fn a_letter_and_a_colon_are_a_segment_like_any_other() {
        for (text, expected) in [
            ("http://h/c:/../x", "http://h/x"),
            ("http://h/a/C|/%2e%2E/x", "http://h/a/x"),
            ("http://h\\c:\\..\\x", "http://h/x"),
            ("http://h/a/c:/..", "http://h/a/"),
            ("http://h/c:/d|/e:/../../x?/c:/../y", "http://h/c:/x?/c:/../y"),
            ("http://h:/./x", "http://h/x"),
            ("http://h/c\t:/.\n./x", "http://h/x"),
            ("http://h/c:/../!*,;=_~/d:/../é", "http://h/c:/!*,;=_~/d:/%C3%A9"),
        ] {
            assert_eq!(parse(text).map(String::from).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_link_climbs_out_of_such_a_segment_of_its_page() {
        let base = parse("http://xn--a/c:/d|/e").unwrap();
        let resolved = |link: &str| resolve(&base, link).map(String::from);
        assert_eq!(resolved("../x").as_deref(), Ok("http://xn--a/c:/x"));
        assert_eq!(resolved("../../x").as_deref(), Ok("http://xn--a/x"));
        assert_eq!(resolved("x").as_deref(), Ok("http://xn--a/c:/d|/x"));
        assert_eq!(resolved("//xn--b/f:/../x").as_deref(), Ok("http://xn--b/x"));
    }
}
