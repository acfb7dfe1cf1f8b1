//! The canonical form of a URL: the policy `standard/1`.
//!
//! It merges what RFC 3986 calls equivalent and what no server can tell apart, and nothing that a server may well tell
//! apart, for a page that is merged wrongly is a page that is never fetched. It starts from the WHATWG serialisation, in
//! which the scheme and host are in lower case, an international name is in Punycode (UTS 46), a numeric host is an IP
//! address, the default port is dropped, dot segments are resolved, an empty path is `/`, and what cannot stand in a URL
//! is percent-encoded as UTF-8. On top of it:
//!
//! | rule | why |
//! |---|---|
//! | the fragment is removed | it is never sent (RFC 9110 section 4.2.5, RFC 3986 section 3.5) |
//! | user information is removed | it names who asks, not what is asked for (RFC 3986 section 7.5, RFC 9110 section 4.2.4) |
//! | one trailing dot of the host is removed | `example.com.` is the same name, fully qualified (RFC 1034 section 3.1) |
//! | hexadecimal digits of escapes are upper-cased, in path and query | RFC 3986 section 6.2.2.1 |
//! | escaped unreserved characters are decoded, in the path | RFC 3986 section 6.2.2.2; `%7Euser` is `~user` |
//! | a `%` in the path that begins no escape becomes `%25` | it can mean nothing else, and decoding beside it stays idempotent |
//! | ``[ ] \| ^ ` `` in paths, and ``[ ] \| ^ ` { } \ `` in queries, are escaped | they are in no RFC 3986 `pchar`; strict clients must send them so |
//! | an empty query is removed with its `?` | three of five normalisers do; frameworks do not tell them apart |
//!
//! Kept, since servers do tell them apart: the order and the emptiness of query parameters, escapes in queries (a decoded
//! `+` or `&` is another query; a `%` that begins no escape may be a legacy `%u20AC`), repeated slashes, a trailing slash,
//! `www.`, the scheme, directory indexes, session identifiers, and upper case in paths.

use std::borrow::Cow;

use url::{Position, Url};

/// Name and version of the rules above, pinned when a crawl is created.
pub const CANONICAL_POLICY: &str = "standard/1";

/// A URL in canonical form: the key under which a page is known. At most three times as long as the URL, since escaping
/// may lengthen it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CanonicalUrl(String);

impl CanonicalUrl {
    /// The canonical form as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The canonical form as an owned text.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

/// The canonical form of a URL. Borrows from `url` where it is canonical already, which most URLs are.
#[must_use]
pub fn canonical_text(url: &Url) -> Cow<'_, str> {
    let host = url.host_str().unwrap_or_default();
    let relative_host = without_root_dot(host);
    let as_found = &url[..Position::AfterQuery];
    let has_user_info = !url.username().is_empty() || url.password().is_some();
    let rest = path_and_query(url);
    if !has_user_info && relative_host.len() == host.len() {
        match rest {
            Cow::Borrowed(rest) if rest.len() == as_found.len() - url[..Position::BeforePath].len() => {
                return Cow::Borrowed(as_found);
            }
            Cow::Borrowed(rest) => {
                // Only the `?` of an empty query is too much, and it stands at the end.
                return Cow::Borrowed(&as_found[..url[..Position::BeforePath].len() + rest.len()]);
            }
            Cow::Owned(_) => {}
        }
    }
    let mut text = String::with_capacity(as_found.len() + rest.len());
    text.push_str(url.scheme());
    text.push_str("://");
    text.push_str(relative_host);
    text.push_str(&url[Position::AfterHost..Position::BeforePath]);
    text.push_str(&rest);
    Cow::Owned(text)
}

/// The canonical form of a URL, owned.
#[must_use]
pub fn canonicalize(url: &Url) -> CanonicalUrl {
    CanonicalUrl(canonical_text(url).into_owned())
}

/// The host without the dot that stands for the root. A host of empty labels (`a..`) is left alone: it names nothing, and
/// what would be left of it could read as another host.
pub(crate) fn without_root_dot(host: &str) -> &str {
    match host.strip_suffix('.') {
        Some(name) if !name.is_empty() && !name.ends_with('.') => name,
        _ => host,
    }
}

/// Path and query in canonical form; borrowed where they are so already, save for the `?` of an empty query.
fn path_and_query(url: &Url) -> Cow<'_, str> {
    let text = &url[Position::BeforePath..Position::AfterQuery];
    let path_len = url.path().len();
    let text = if text.len() == path_len + 1 { &text[..path_len] } else { text };
    let bytes = text.as_bytes();
    let Some(first) = first_change(bytes, path_len) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    let mut at = first;
    while at < bytes.len() {
        let place = if at < path_len { PATH } else { QUERY };
        let byte = bytes[at];
        let escape = (byte == b'%').then(|| escaped_byte(bytes, at)).flatten();
        match escape {
            Some(value) if place == PATH && is_unreserved(value) => out.push(char::from(value)),
            Some(value) => push_escape(&mut out, value),
            None if CLASSES[usize::from(byte)] & place != 0 || (byte == b'%' && place == PATH) => {
                push_escape(&mut out, byte);
            }
            // The WHATWG serialisation is ASCII, so that every byte is a character.
            None => out.push(char::from(byte)),
        }
        at += if escape.is_some() { 3 } else { 1 };
    }
    Cow::Owned(out)
}

/// Where the text first differs from its canonical form.
fn first_change(bytes: &[u8], path_len: usize) -> Option<usize> {
    let path_len = path_len.min(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let place = if at < path_len { PATH } else { QUERY };
        let class = CLASSES[usize::from(bytes[at])];
        if class & (place | ESCAPE) == 0 {
            at += 1;
            continue;
        }
        if class & place != 0 {
            return Some(at);
        }
        match escaped_byte(bytes, at) {
            Some(value) if place == PATH && is_unreserved(value) => return Some(at),
            Some(_) if bytes[at + 1].is_ascii_lowercase() || bytes[at + 2].is_ascii_lowercase() => return Some(at),
            Some(_) => at += 3,
            None if place == PATH => return Some(at),
            None => at += 1,
        }
    }
    None
}

/// The byte that the escape at `at` stands for, if there is one.
fn escaped_byte(bytes: &[u8], at: usize) -> Option<u8> {
    let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(at + 1)? << 4 | digit(at + 2)?)
}

fn push_escape(out: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(char::from(DIGITS[usize::from(byte >> 4)]));
    out.push(char::from(DIGITS[usize::from(byte & 15)]));
}

/// `unreserved` of RFC 3986 section 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// To be escaped in a path.
const PATH: u8 = 1;
/// To be escaped in a query.
const QUERY: u8 = 2;
/// The percent sign.
const ESCAPE: u8 = 4;

/// What is to be done with each byte of a WHATWG serialisation.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    classes[b'%' as usize] = ESCAPE;
    let both = b"[]|^`";
    let mut i = 0;
    while i < both.len() {
        classes[both[i] as usize] = PATH | QUERY;
        i += 1;
    }
    classes[b'{' as usize] = QUERY;
    classes[b'}' as usize] = QUERY;
    classes[b'\\' as usize] = QUERY;
    classes
};
