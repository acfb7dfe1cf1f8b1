//! Parsing of a text into the URL as found, which is the one that is requested.

use std::borrow::Cow;

use url::{ParseError, Url};

use crate::{canonical::is_hash_bang, drive, site::is_dns_name, unmapped};

/// Reason why a text is not a URL that can be crawled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// Not an absolute URL.
    #[error("not a url: {0}")]
    Malformed(String),
    /// Scheme other than http or https.
    #[error("scheme `{0}` is not crawled; allowed: http and https")]
    Scheme(String),
    /// A seed whose host no name server can hold.
    #[error("the host `{0}` cannot exist; allowed: labels of 1 to 63 bytes between dots, 253 bytes in all")]
    Host(String),
    /// Longer than [`MAX_URL_BYTES`].
    #[error("the url has {0} bytes; allowed: {max}", max = MAX_URL_BYTES)]
    TooLong(usize),
}

/// Maximum length of a URL in bytes, both as given and as serialized (RFC 9110 section 4.1 recommends at least 8000).
pub const MAX_URL_BYTES: usize = 8192;

/// Function that encodes the text of a query in the character encoding of a page.
pub type QueryEncoding<'a> = &'a dyn Fn(&str) -> Cow<'_, [u8]>;

/// Parses an absolute http or https URL as found: resolved and serialized, without its fragment unless that begins with
/// `!` and may thus name a page (`Rule::KeepHashBang`), otherwise unchanged. Fragments are never sent. Leading and
/// trailing control characters and spaces are removed, as are tabs and newlines within (WHATWG URL, basic parser, steps
/// 1 to 3).
///
/// # Errors
/// Returns an error if the text is not a URL, has another scheme or is too long.
pub fn parse(text: &str) -> Result<Url, UrlError> {
    let text = &*trim(text)?;
    accept(text, read(text, None, None))
}

/// Resolves a link against the URL of its page (RFC 3986 section 5, as specified by WHATWG) to the URL as found.
///
/// # Errors
/// Returns an error if the result is not a URL, has another scheme or is too long.
pub fn resolve(base: &Url, link: &str) -> Result<Url, UrlError> {
    resolve_encoded(base, link, None)
}

/// Resolves a link of a page in an encoding other than UTF-8, in which its query is then sent (WHATWG URL, query
/// state).
///
/// # Errors
/// Returns an error if the result is not a URL, has another scheme or is too long.
pub fn resolve_encoded(base: &Url, link: &str, encoding: Option<QueryEncoding<'_>>) -> Result<Url, UrlError> {
    let link = &*trim(link)?;
    // Pages are full of such links; no parser is needed to refuse them.
    if let Some(scheme) = scheme_of(link).filter(|scheme| !is_crawled(scheme)) {
        return Err(UrlError::Scheme(scheme.to_ascii_lowercase()));
    }
    let join = |link: &str| read(link, Some(base), encoding);
    let parsed = match join(link) {
        // Browsers read `///host/path` as `//host/path`; the parser does so for absolute URLs only.
        Err(ParseError::EmptyHost) if link.starts_with(['/', '\\']) => {
            join(&format!("//{}", link.trim_start_matches(['/', '\\'])))
        }
        parsed => parsed,
    };
    accept(link, parsed)
}

/// Parses user input: as [`parse`], but a bare host (`example.com/x`, `localhost:8080`, `//example.com`) means https. A
/// bare host is no number, and the host must be one that DNS can hold.
///
/// # Errors
/// Returns an error if the text is not a URL, has another scheme or host or is too long.
pub fn parse_seed(text: &str) -> Result<Url, UrlError> {
    let url = parse_input(text)?;
    match url.domain() {
        Some(host) if !is_dns_name(host) => Err(UrlError::Host(shown(host).to_owned())),
        _ => Ok(url),
    }
}

fn parse_input(text: &str) -> Result<Url, UrlError> {
    let text = &*trim(text)?;
    if text.is_empty() {
        return Err(UrlError::Malformed("the text is empty".to_owned()));
    }
    if let Some(scheme) = scheme_of(text) {
        let rest = &text[scheme.len() + 1..];
        let port = &rest[..rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len())];
        if is_crawled(scheme) || rest.starts_with("//") || port.parse::<u16>().is_err() {
            return parse(text);
        }
    }
    let bare = text.strip_prefix("//").unwrap_or(text);
    let host = &bare[..bare.find(['/', '?', '#', '\\']).unwrap_or(bare.len())];
    if host.is_empty() || host.contains('@') {
        return Err(UrlError::Malformed(format!("`{}` has no host; give https://HOST/PATH", shown(text))));
    }
    // `100` would be the address 0.0.0.100; it is more likely the value of an option, without its `=`.
    if host.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(UrlError::Malformed(format!("`{}` is a number; give https://HOST/PATH", shown(text))));
    }
    parse(&format!("https://{bare}"))
}

/// Parses a text; corrects deviations of `url` from the URL Standard.
fn read(text: &str, base: Option<&Url>, encoding: Option<QueryEncoding<'_>>) -> Result<Url, ParseError> {
    let parse = |text: &str, base: Option<&Url>| {
        let parse =
            |text: &str, base: Option<&Url>| Url::options().base_url(base).encoding_override(encoding).parse(text);
        if drive::may_be_left(text, base) { drive::read(text, base, parse) } else { parse(text, base) }
    };
    match parse(text, base) {
        Err(ParseError::IdnaError) => unmapped::read(text, base, parse),
        read => read,
    }
}

/// Removes the characters that WHATWG removes; returns an error if the text is too long.
fn trim(text: &str) -> Result<Cow<'_, str>, UrlError> {
    let text = text.trim_matches(|c| c <= ' ');
    if text.len() > MAX_URL_BYTES {
        return Err(UrlError::TooLong(text.len()));
    }
    let controls = text.bytes().fold(false, |found, byte| found | (byte < b' '));
    Ok(if controls { Cow::Owned(text.replace(['\t', '\n', '\r'], "")) } else { Cow::Borrowed(text) })
}

/// Returns the scheme at the beginning of a text (RFC 3986 section 3.1), without the colon.
pub(crate) fn scheme_of(text: &str) -> Option<&str> {
    let end = text.bytes().position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')))?;
    (text.as_bytes()[end] == b':' && text.as_bytes()[0].is_ascii_alphabetic()).then(|| &text[..end])
}

fn is_crawled(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http")
}

/// Checks scheme and length of the URL parsed from a text, and removes a fragment that names no page.
fn accept(text: &str, parsed: Result<Url, ParseError>) -> Result<Url, UrlError> {
    let mut url = parsed.map_err(|error| match scheme_of(text).filter(|scheme| !is_crawled(scheme)) {
        Some(scheme) => UrlError::Scheme(scheme.to_ascii_lowercase()),
        None => UrlError::Malformed(format!("`{}`: {error}", shown(text))),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(UrlError::Scheme(url.scheme().to_owned()));
    }
    if url.fragment().is_some_and(|fragment| !is_hash_bang(fragment)) {
        url.set_fragment(None);
    }
    if url.as_str().len() > MAX_URL_BYTES {
        return Err(UrlError::TooLong(url.as_str().len()));
    }
    Ok(url)
}

/// Returns the beginning of a text, for an error message.
fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(100)]
}
