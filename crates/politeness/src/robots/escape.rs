//! Percent-encoding: rules and paths are normalized before they are compared (RFC 9309 section 2.2.2).
//!
//! Unreserved characters are unescaped, reserved ones stay as given (`/` and `%2F` differ), all others are
//! percent-encoded in upper case. Literal `*` and `$` are encoded too, since they are operators in a rule (section
//! 2.2.3).

use std::borrow::Cow;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Returns `true` for an unreserved character (RFC 3986 section 2.3).
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Returns `true` for a byte that is never encoded: unreserved, or reserved (RFC 3986 section 2.2) and no operator in
/// rules.
fn is_plain(byte: u8) -> bool {
    let reserved = matches!(
        byte,
        b':' | b'/' | b'?' | b'#' | b'[' | b']' | b'@' | b'!' | b'&' | b'\'' | b'(' | b')' | b'+' | b',' | b';' | b'='
    );
    reserved || is_unreserved(byte)
}

/// Appends the normalized form of `raw`.
pub(super) fn push_comparable(raw: &[u8], out: &mut Vec<u8>) {
    let mut rest = raw;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        if is_plain(*byte) {
            out.push(*byte);
        } else if let (b'%', Some(decoded)) = (*byte, escaped_octet(tail)) {
            rest = &tail[2..];
            if is_unreserved(decoded) {
                out.push(decoded);
            } else {
                push_escaped(decoded, out);
            }
        } else if *byte == b'%' {
            // A stray percent sign stays: `/foo%` is to match `/foo%20bar`, as its author intended.
            out.push(b'%');
        } else {
            push_escaped(*byte, out);
        }
    }
}

/// Returns the octet of a `%XX` whose `XX` begins `digits`.
fn escaped_octet(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| digits.get(at).and_then(|&c| char::from(c).to_digit(16));
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

pub(super) fn push_escaped(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}

/// Returns the normalized form of a path and query: begins with `/`, has no fragment.
pub(super) fn comparable_path(path: &str) -> Cow<'_, [u8]> {
    let bytes = path.as_bytes();
    let bytes = &bytes[..memchr::memchr(b'#', bytes).unwrap_or(bytes.len())];
    if bytes.first() == Some(&b'/') && bytes.iter().copied().all(is_plain) {
        return Cow::Borrowed(bytes);
    }
    let mut out = Vec::with_capacity(bytes.len() + 16);
    if bytes.first() != Some(&b'/') {
        out.push(b'/');
    }
    push_comparable(bytes, &mut out);
    Cow::Owned(out)
}

/// Returns the path and query of an absolute URL, as written; of any other text, the part from its first `/` or `?`
/// on.
#[must_use]
pub fn path_and_query(url: &str) -> &str {
    let url = &url[..url.find('#').unwrap_or(url.len())];
    let after_scheme = match url.find("://") {
        Some(at) if !url[..at].contains(['/', '?']) => &url[at + 3..],
        _ => url.strip_prefix("//").unwrap_or(url),
    };
    after_scheme.find(['/', '?']).map_or("", |at| &after_scheme[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparable(raw: &str) -> String {
        String::from_utf8(comparable_path(raw).into_owned()).unwrap()
    }

    #[test]
    fn equal_paths_have_one_form_and_different_ones_keep_theirs() {
        assert_eq!(comparable("/%62%61%7A"), "/baz");
        assert_eq!(comparable("/ツ"), "/%E3%83%84");
        assert_eq!(comparable("/%e3%83%84"), "/%E3%83%84");
        assert_eq!(comparable("/9%2f11"), "/9%2F11");
        assert_eq!(comparable("/a<d"), comparable("/a%3cd"));
        assert_eq!(comparable("/x-*-$"), "/x-%2A-%24");
        assert_eq!(comparable("/100%"), "/100%");
        assert_eq!(comparable("/%zz"), "/%zz");
    }

    #[test]
    fn a_path_begins_with_a_slash_and_has_no_fragment() {
        assert_eq!(comparable(""), "/");
        assert_eq!(comparable("?q=1#top"), "/?q=1");
    }

    #[test]
    fn path_and_query_are_cut_out_of_a_url() {
        assert_eq!(path_and_query("http://foo.bar/x/y?z#f"), "/x/y?z");
        assert_eq!(path_and_query("http://foo.bar"), "");
        assert_eq!(path_and_query("http://foo.bar?q"), "?q");
        assert_eq!(path_and_query("http://foo.bar/?u=http://x/"), "/?u=http://x/");
        assert_eq!(path_and_query("/only/path"), "/only/path");
        assert_eq!(path_and_query("//foo.bar/p"), "/p");
        assert_eq!(path_and_query("/r?to=http://x/"), "/r?to=http://x/");
    }
}
