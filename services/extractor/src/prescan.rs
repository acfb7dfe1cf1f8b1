//! Encoding that a document declares.
//!
//! The algorithms are those of WHATWG HTML 13.2.3.2: "prescan a byte stream to determine its encoding", "get an
//! attribute", "get an XML encoding", and "extracting a character encoding from a meta element" (2.6.5).

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Number of bytes within which a declaration counts.
const WINDOW: usize = 1024;
/// Maximum number of attributes of a `meta` element that are read.
const MAX_ATTRIBUTES: usize = 32;

/// Returns the encoding that the first 1024 bytes of a document declare.
pub(crate) fn declared(body: &[u8]) -> Option<&'static Encoding> {
    let window = &body[..body.len().min(WINDOW)];
    if window.starts_with(b"<\0?\0x\0") {
        return Some(UTF_16LE);
    }
    if window.starts_with(b"\0<\0?\0x") {
        return Some(UTF_16BE);
    }
    Scanner { bytes: window, at: 0 }.scan().or_else(|| xml_encoding(window))
}

/// Returns the encoding that a `meta` element anywhere in a document declares: where the first bytes declare none, browsers
/// change to it (WHATWG HTML 13.2.3.4).
pub(crate) fn declared_later(body: &[u8]) -> Option<&'static Encoding> {
    Scanner { bytes: body, at: 0 }.scan()
}

/// Returns the encoding that the content of a `meta` element names.
fn charset_parameter(text: &[u8]) -> Option<&'static Encoding> {
    let mut rest = text;
    loop {
        let found = rest.windows(7).position(|word| word.eq_ignore_ascii_case(b"charset"))?;
        rest = rest[found + 7..].trim_ascii_start();
        if let Some(value) = rest.strip_prefix(b"=") {
            rest = value.trim_ascii_start();
            break;
        }
    }
    let label = match rest.first()? {
        quote @ (b'"' | b'\'') => {
            let value = &rest[1..];
            &value[..value.iter().position(|byte| byte == quote)?]
        }
        _ => &rest[..rest.iter().position(|&byte| byte.is_ascii_whitespace() || byte == b';').unwrap_or(rest.len())],
    };
    Encoding::for_label(label)
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn scan(&mut self) -> Option<&'static Encoding> {
        while self.at < self.bytes.len() {
            let rest = &self.bytes[self.at..];
            if rest.starts_with(b"<!--") {
                // The dashes that open a comment may close it too: `<!-->`.
                self.at += 2 + find(&rest[2..], b"-->")? + 3;
            } else if rest.len() > 5
                && rest[..5].eq_ignore_ascii_case(b"<meta")
                && (rest[5].is_ascii_whitespace() || rest[5] == b'/')
            {
                self.at += 5;
                if let Some(encoding) = self.meta()? {
                    return Some(encoding);
                }
            } else if begins_tag(rest) {
                self.at += rest.iter().position(|&byte| byte.is_ascii_whitespace() || byte == b'>')?;
                while self.attribute()?.is_some() {}
            } else if matches!(rest, [b'<', b'!' | b'/' | b'?', ..]) {
                self.at += rest.iter().position(|&byte| byte == b'>')? + 1;
            } else {
                self.at += 1;
            }
        }
        None
    }

    /// Returns the encoding that a `meta` element declares. The outer `None`: the bytes end within the element.
    fn meta(&mut self) -> Option<Option<&'static Encoding>> {
        let mut seen: Vec<Vec<u8>> = Vec::new();
        let mut has_pragma = false;
        // The encoding, and whether it needs the pragma `content-type` to count.
        let mut found: Option<(Option<&'static Encoding>, bool)> = None;
        while let Some((name, value)) = self.attribute()? {
            if seen.contains(&name) || seen.len() == MAX_ATTRIBUTES {
                continue;
            }
            match name.as_slice() {
                b"http-equiv" => has_pragma |= value == b"content-type",
                b"content" if found.is_none() => {
                    found = charset_parameter(&value).map(|encoding| (Some(encoding), true));
                }
                b"charset" => found = Some((Encoding::for_label(&value), false)),
                _ => {}
            }
            seen.push(name);
        }
        Some(match found {
            Some((encoding, needs_pragma)) if has_pragma || !needs_pragma => encoding.map(usable),
            _ => None,
        })
    }

    /// Returns the next attribute of a tag, in lower case; the inner `None` at the end of the tag, the outer at the
    /// end of the bytes.
    fn attribute(&mut self) -> Option<Option<(Vec<u8>, Vec<u8>)>> {
        while self.peek()?.is_ascii_whitespace() || self.peek()? == b'/' {
            self.at += 1;
        }
        if self.peek()? == b'>' {
            return Some(None);
        }
        let mut name = Vec::new();
        loop {
            match self.peek()? {
                b'=' if !name.is_empty() => break,
                byte if byte.is_ascii_whitespace() => {
                    self.skip_white()?;
                    if self.peek()? != b'=' {
                        return Some(Some((name, Vec::new())));
                    }
                    break;
                }
                b'/' | b'>' => return Some(Some((name, Vec::new()))),
                byte => name.push(byte.to_ascii_lowercase()),
            }
            self.at += 1;
        }
        self.at += 1;
        self.skip_white()?;
        let mut value = Vec::new();
        match self.peek()? {
            quote @ (b'"' | b'\'') => loop {
                self.at += 1;
                let byte = self.peek()?;
                if byte == quote {
                    self.at += 1;
                    return Some(Some((name, value)));
                }
                value.push(byte.to_ascii_lowercase());
            },
            _ => loop {
                let byte = self.peek()?;
                if byte.is_ascii_whitespace() || byte == b'>' {
                    return Some(Some((name, value)));
                }
                value.push(byte.to_ascii_lowercase());
                self.at += 1;
            },
        }
    }

    fn skip_white(&mut self) -> Option<()> {
        while self.peek()?.is_ascii_whitespace() {
            self.at += 1;
        }
        Some(())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }
}

/// Returns the encoding of an XML declaration.
fn xml_encoding(window: &[u8]) -> Option<&'static Encoding> {
    let declaration = window.strip_prefix(b"<?xml")?;
    let declaration = &declaration[..find(declaration, b">")?];
    let rest = &declaration[find(declaration, b"encoding")? + 8..];
    let rest = trim_control(trim_control(rest).strip_prefix(b"=")?);
    let quote = rest.first().copied().filter(|byte| matches!(byte, b'"' | b'\''))?;
    let label = &rest[1..];
    let label = &label[..label.iter().position(|&byte| byte == quote)?];
    if label.iter().any(|&byte| byte <= b' ') {
        return None;
    }
    Encoding::for_label(label).map(usable)
}

/// Returns the encoding to use: a document whose ASCII was readable is not UTF-16, whatever it declares, and
/// `x-user-defined` means windows-1252.
fn usable(encoding: &'static Encoding) -> &'static Encoding {
    if encoding == UTF_16BE || encoding == UTF_16LE {
        UTF_8
    } else if encoding == encoding_rs::X_USER_DEFINED {
        WINDOWS_1252
    } else {
        encoding
    }
}

fn begins_tag(rest: &[u8]) -> bool {
    matches!(rest, [b'<', b'/', letter, ..] | [b'<', letter, ..] if letter.is_ascii_alphabetic())
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

fn trim_control(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.iter().position(|&byte| byte > b' ').unwrap_or(bytes.len())..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_scanned_to_an_end(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = declared(&body);
        }

        #[test]
        fn any_markup_is_scanned_to_an_end(body in "(<|>|/|meta|!--|-->|charset|=|\"|'| |content|\\?xml|encoding|utf-8|x){0,40}") {
            let _ = declared(body.as_bytes());
        }
    }

    #[test]
    fn a_declaration_counts_within_the_first_1024_bytes_only() {
        let at = |padding: usize| format!("{}<meta charset=koi8-r>", " ".repeat(padding));
        assert_eq!(declared(at(1003).as_bytes()), Some(encoding_rs::KOI8_R));
        assert_eq!(declared(at(1004).as_bytes()), None);
    }

    #[test]
    fn a_later_declaration_is_found_outside_of_comments_in_linear_time() {
        let later = format!("{}<!-- <meta charset=big5> --><p><meta charset=koi8-r>", " ".repeat(5000));
        assert_eq!((declared(later.as_bytes()), declared_later(later.as_bytes())), (None, Some(encoding_rs::KOI8_R)));
        for part in ["<meta a", "<!--", "<", "<p a=\"", "<meta charset", "<meta a=1 b=2 "] {
            assert_eq!(declared_later(part.repeat(200_000).as_bytes()), None);
        }
        let attributes: String = (0..200_000).map(|number| format!("a{number} ")).collect();
        assert_eq!(declared_later(format!("<meta {attributes}charset=koi8-r>").as_bytes()), None);
    }

    #[test]
    fn an_xml_declaration_counts_when_no_meta_does() {
        assert_eq!(declared(b"<?xml version='1.0' encoding='euc-kr'?><html>"), Some(encoding_rs::EUC_KR));
        assert_eq!(declared(b"<?xml encoding='euc-kr'?><meta charset=big5>"), Some(encoding_rs::BIG5));
    }
}
