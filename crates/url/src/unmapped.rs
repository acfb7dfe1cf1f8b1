//! Hosts with `xn--` labels that UTS 46 rejects: invalid Punycode, or Punycode that decodes to disallowed characters.
//!
//! Such names are registered and served, and browsers open them: since June 2026 the URL Standard accepts an ASCII
//! domain unchanged, in lower case (section 3.3, whatwg/url pull request 914). The crate `url` (2.5.8) rejects them.

use url::{ParseError, Url};

use crate::{
    read::scheme_of,
    respell::{replaced, truly_spelled},
};

/// Returns `true` if the host is such a name. Libraries that parse the URL again reject it.
#[must_use]
pub fn is_unmapped(url: &Url) -> bool {
    url.host_str().is_some_and(|host| host.contains("xn--")) && Url::parse(url.as_str()).is_err()
}

/// Parses a text, using `parse`, whose host is not a valid international domain name but is ASCII.
pub(crate) fn read(
    text: &str,
    base: Option<&Url>,
    parse: impl Fn(&str, Option<&Url>) -> Result<Url, ParseError>,
) -> Result<Url, ParseError> {
    let known = base.map_or("", Url::as_str);
    let free = |letter: &u8| [text, known].iter().all(|text| !has_prefix(text, *letter));
    let Some(other) = (b'a'..=b'z').find(free).filter(|_| has_ascii_host(text)) else {
        return Err(ParseError::IdnaError);
    };
    truly_spelled(&parse(&respelled(text, b'n', other), base)?, |text| respelled(text, other, b'n'))
}

/// Returns `true` if a text contains `x`, the letter and `--`, in any case.
fn has_prefix(text: &str, letter: u8) -> bool {
    text.as_bytes().windows(4).any(|four| is_prefix(four, letter))
}

fn is_prefix(four: &[u8], letter: u8) -> bool {
    matches!(four, [b'x' | b'X', second, b'-', b'-'] if second.eq_ignore_ascii_case(&letter))
}

/// Replaces the letter after the `x` of each such prefix, keeping its case.
fn respelled(text: &str, letter: u8, other: u8) -> String {
    replaced(text, |bytes, at| match bytes[at] {
        byte if at == 0 || !bytes.get(at - 1..at + 3).is_some_and(|four| is_prefix(four, letter)) => byte,
        b'A'..=b'Z' => other.to_ascii_uppercase(),
        _ => other,
    })
}

/// Returns `true` if the host, after the scheme or the slashes, is ASCII without escapes.
fn has_ascii_host(text: &str) -> bool {
    let text = scheme_of(text).map_or(text, |scheme| &text[scheme.len() + 1..]);
    let authority = text.trim_start_matches(['/', '\\']);
    let end = authority.find(['/', '\\', '?', '#']).unwrap_or(authority.len());
    let authority = &authority[..end];
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    host.bytes().all(|byte| byte.is_ascii() && byte != b'%')
}

#[cfg(test)]
mod tests {
    use crate::{is_unmapped, parse, resolve, site_of};

    #[test]
    fn a_host_that_is_no_punycode_is_read_as_it_is_written_in_lower_case() {
        for (text, expected) in [
            ("http://a.b.c.XN--pokxncvks", "http://a.b.c.xn--pokxncvks/"),
            ("https://xn--/", "https://xn--/"),
            ("https://Xn--I29h.kz:8080/?a=xn--b", "https://xn--i29h.kz:8080/?a=xn--b"),
            ("http://\u{e9}@xn--a/XN--Path/xa--%C3%A9?xB--#x", "http://%C3%A9@xn--a/XN--Path/xa--%C3%A9?xB--"),
            ("http:\\\\xn--a\\b", "http://xn--a/b"),
            ("http://x\nn--a/x\ta--", "http://xn--a/xa--"),
            ("http://xn--a.xn--zca/é", "http://xn--a.xn--zca/%C3%A9"),
        ] {
            let url = parse(text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(url.as_str(), expected);
            assert_eq!(parse(url.as_str()).as_ref(), Ok(&url), "it parses to itself");
        }
        let unmapped = |text: &str| is_unmapped(&parse(text).unwrap());
        assert!(unmapped("http://b.xn--a/") && !unmapped("http://b\u{fc}cher.de/") && !unmapped("http://a.b/xn--a"));
    }

    #[test]
    fn links_lead_to_such_a_host_and_away_from_it() {
        let base = parse("https://www.xn--i29h.kz/xa--/b").unwrap();
        let resolved = |link: &str| resolve(&base, link).map(String::from);
        assert_eq!(resolved("../xb--").as_deref(), Ok("https://www.xn--i29h.kz/xb--"));
        assert_eq!(resolved("//xn--a.test/x").as_deref(), Ok("https://xn--a.test/x"));
        assert_eq!(resolved("///xn--a.test/x").as_deref(), Ok("https://xn--a.test/x"));
        assert_eq!(site_of(&base), "xn--i29h.kz");
        assert_eq!(base.host_str(), Some("www.xn--i29h.kz"));
        assert_eq!(base.path(), "/xa--/b");
    }

    #[test]
    fn a_host_that_is_not_ascii_or_names_a_number_must_be_valid() {
        for text in ["http://xn--a.\u{df}/", "http://xn--te\u{161}la/", "http:/xn--a.%C3%9F/", "http://xn--a.1/"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
