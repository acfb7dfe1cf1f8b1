//! Heads of HTTP messages: the start line, header fields and the empty line.

use std::fmt::Write as _;

use http::StatusCode;

use crate::{
    Capture, Protocol,
    fields::{clean_name, push_clean, push_value},
};

/// Prefix of fields that describe the body as it was transferred.
const ORIGINAL: &str = "X-Archive-Orig-";

/// Returns the head of a response with a body of `body_bytes`; `None` if the length of the body is unknown.
pub(crate) fn response_head(capture: &Capture<'_>, body_bytes: Option<usize>) -> String {
    let version = match capture.protocol {
        Protocol::Http10 => "HTTP/1.0",
        Protocol::Http11 | Protocol::Http2 => "HTTP/1.1",
    };
    let status = capture.status.min(999);
    let usual = || StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let mut head = String::new();
    let _infallible = write!(head, "{version} {status:03} ");
    push_value(&mut head, capture.reason.or_else(usual).unwrap_or_default());
    head.push_str("\r\n");
    push_headers(&mut head, capture.headers, body_bytes);
    head
}

/// Returns the head of a GET request for a target URI.
pub(crate) fn request_head(uri: &str, headers: &[(String, String)]) -> String {
    let mut head = String::from("GET ");
    let rest = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    let rest = rest.split('#').next().unwrap_or_default();
    let path = rest.find(['/', '?']).and_then(|start| rest.get(start..)).unwrap_or_default();
    if !path.starts_with('/') {
        head.push('/');
    }
    head.push_str(path);
    head.push_str(" HTTP/1.1\r\n");
    push_headers(&mut head, headers, None);
    head
}

/// Appends the fields in order and an empty line. Exactly one field has the length of the body, if it is known, and
/// none has another length or an encoding.
fn push_headers(head: &mut String, headers: &[(String, String)], body_bytes: Option<usize>) {
    let mut missing = body_bytes.map(|bytes| bytes.to_string());
    for (name, value) in headers {
        let Some(name) = clean_name(name) else { continue };
        let is_right =
            name.eq_ignore_ascii_case("content-length") && missing.take_if(|right| value.trim() == right).is_some();
        let describes = |field: &&str| name.eq_ignore_ascii_case(field);
        if !is_right && ["content-length", "content-encoding", "transfer-encoding"].iter().any(describes) {
            head.push_str(ORIGINAL);
        }
        push_clean(head, &name, value);
    }
    if let Some(bytes) = missing {
        push_clean(head, "Content-Length", &bytes);
    }
    head.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(headers: &[(&str, &str)], body_bytes: Option<usize>) -> String {
        let headers: Vec<_> = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut head = String::new();
        push_headers(&mut head, &headers, body_bytes);
        head
    }

    #[test]
    fn fields_of_the_transferred_body_are_kept_under_another_name() {
        assert_eq!(
            head(&[("content-encoding", "br"), ("A", "1"), ("Transfer-Encoding", "chunked"), ("A", "2")], Some(7)),
            "X-Archive-Orig-content-encoding: br\r\nA: 1\r\nX-Archive-Orig-Transfer-Encoding: chunked\r\nA: 2\r\n\
             Content-Length: 7\r\n\r\n"
        );
    }

    #[test]
    fn one_field_has_the_length_of_the_body() {
        assert_eq!(head(&[("content-length", " 7 "), ("B", "")], Some(7)), "content-length: 7\r\nB: \r\n\r\n");
        assert_eq!(
            head(&[("Content-Length", "8"), ("Content-Length", "7"), ("Content-Length", "7")], Some(7)),
            "X-Archive-Orig-Content-Length: 8\r\nContent-Length: 7\r\nX-Archive-Orig-Content-Length: 7\r\n\r\n"
        );
        assert_eq!(head(&[("Content-Length", "8")], None), "X-Archive-Orig-Content-Length: 8\r\n\r\n");
    }

    #[test]
    fn the_request_line_has_path_and_query() {
        let line = |uri| request_head(uri, &[]);
        for (uri, target) in [
            ("http://a.example", "/"),
            ("http://a.example?b", "/?b"),
            ("http://a.example/b?c=/d#e?f", "/b?c=/d"),
            ("http://a.example#/b", "/"),
            ("a", "/"),
        ] {
            assert_eq!(line(uri), format!("GET {target} HTTP/1.1\r\n\r\n"));
        }
    }
}
