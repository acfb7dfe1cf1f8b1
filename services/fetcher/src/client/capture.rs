//! Data of a request and its response for the archive.

use hyper::ext::ReasonPhrase;
use orbweaver_messages::{Capture, Protocol};
use reqwest::{
    Response, Version,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HOST, HeaderMap},
};
use url::{Position, Url};

use super::decoding::ACCEPTED;

/// Maximum length of an IP address as text, in bytes.
const MAX_ADDRESS_BYTES: usize = 45;
/// Maximum length of a reason phrase, in bytes.
const MAX_REASON_BYTES: usize = 256;
/// Longest duration of a part of a request, in milliseconds: the timeouts allow less.
const MOST_MILLIS: u64 = 999_999;

/// Returns the headers of a request as they are sent, with those that the client adds. With HTTP/2
/// the host is a pseudo-header.
pub(crate) fn sent_headers(url: &Url, headers: &HeaderMap) -> Vec<(String, String)> {
    let host = (HOST.as_str().to_owned(), url[Position::BeforeHost..Position::AfterPort].to_owned());
    let given = headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
    let encodings = (ACCEPT_ENCODING.as_str().to_owned(), ACCEPTED.to_owned());
    let encodings = Some(encodings).filter(|_| !headers.contains_key(ACCEPT_ENCODING));
    std::iter::once(host).chain(given).chain(encodings).collect()
}

/// Returns the data of a response to a request with these headers; the times are not known yet.
/// The address of a proxy is not that of the server.
pub(super) fn of(response: &Response, request_headers: Vec<(String, String)>, has_proxy: bool) -> Capture {
    let address = response.remote_addr().filter(|_| !has_proxy);
    Capture {
        address: address.map(|address| address.ip().to_canonical().to_string()),
        protocol: match response.version() {
            Version::HTTP_09 | Version::HTTP_10 => Protocol::Http10,
            Version::HTTP_2 => Protocol::Http2,
            _ => Protocol::Http11,
        },
        reason: response.extensions().get::<ReasonPhrase>().map(|reason| text_of(reason.as_bytes())),
        request_headers,
        content_length: declared_length(response.headers()),
        ..Capture::default()
    }
}

/// Returns the beginning of a reason phrase as text.
fn text_of(reason: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(reason.get(..MAX_REASON_BYTES).unwrap_or(reason)).into_owned();
    text.truncate(text.floor_char_boundary(MAX_REASON_BYTES));
    text
}

/// Returns the declared length of an encoded body.
fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_ENCODING)?;
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns the largest data of a request with these headers.
pub(crate) fn largest(url: &Url, headers: &HeaderMap) -> Capture {
    Capture {
        requested_at_ms: i64::MIN,
        answered_at_ms: i64::MIN,
        address: Some("f".repeat(MAX_ADDRESS_BYTES)),
        protocol: Protocol::Http10,
        // Quotation marks are escaped.
        reason: Some("\"".repeat(MAX_REASON_BYTES)),
        request_headers: sent_headers(url, headers),
        unchanged: true,
        content_length: Some(u64::MAX),
        lookup_ms: Some(MOST_MILLIS),
        connect_ms: Some(MOST_MILLIS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_phrase_is_cut_to_its_limit_at_a_character_and_never_too_long() {
        for (reason, expected) in [
            (&b"No entry"[..], "No entry".to_owned()),
            (b"", String::new()),
            (&"\"".repeat(300).into_bytes(), "\"".repeat(256)),
            (&"a\u{e4}".repeat(100).into_bytes(), "a\u{e4}".repeat(85) + "a"),
            (&[0xe4; 300], "\u{fffd}".repeat(85)),
        ] {
            assert_eq!(text_of(reason), expected);
        }
    }
}
