//! Lines of an index, as `cdxj-indexer` writes them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use orbweaver_warc::{Capture, Info, Protocol, Revisit, RevisitKind, WarcWriter, index_line};

const PLAIN: Capture<'_> = Capture {
    url: "http://www.a.example/B?d&c",
    date_ms: 1_700_000_000_999,
    ip: None,
    protocol: Protocol::Http11,
    request: None,
    status: 200,
    reason: None,
    headers: &[],
    body: b"body",
    truncated: None,
    revisit: None,
    metadata: &[],
};

/// Returns the line of a capture, with `L` for its length and `O` for its offset, which depend on the compression.
fn line(capture: &Capture<'_>) -> String {
    let mut writer = WarcWriter::new(vec![], &Info { filename: "a.warc.gz", date_ms: 0, fields: &[] }).unwrap();
    let written = writer.write(capture).unwrap();
    let line = index_line("a.warc.gz", capture, &written);
    let (length, offset) = (written.length.to_string(), written.offset.to_string());
    line.replace(&format!("\"length\": \"{length}\""), "L").replace(&format!("\"offset\": \"{offset}\""), "O")
}

fn mime_of(headers: &[(&str, &str)]) -> Option<String> {
    let headers: Vec<_> = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let line = line(&Capture { headers: &headers, ..PLAIN });
    let (_, rest) = line.split_once("\"mime\": \"")?;
    Some(rest.split_once("\", \"status\"").unwrap().0.to_owned())
}

// By the rules of cdxj-indexer 1.5.0 and surt 0.3.1.

#[test]
fn a_line_has_the_key_the_time_and_the_fields_in_this_order() {
    let headers = [("content-type".to_owned(), "Text/HTML; charset=utf-8".to_owned())];
    assert_eq!(
        line(&Capture { headers: &headers, ..PLAIN }),
        r#"example,a)/b?c&d 20231114221320 {"url": "http://www.a.example/B?d&c", "mime": "Text/HTML", "status": "200", "digest": "sha1:AIED6RLZ4CFGCJBFYDA2C7XEPLOXQO4U", L, O, "filename": "a.warc.gz"}"#
    );
}

#[test]
fn a_field_without_a_value_is_left_out() {
    let line_of = |capture: Capture<'_>| line(&capture);
    assert_eq!(
        line_of(Capture { status: 7, body: b"", ..PLAIN }),
        r#"example,a)/b?c&d 20231114221320 {"url": "http://www.a.example/B?d&c", "status": "007", "digest": "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", L, O, "filename": "a.warc.gz"}"#
    );
    let unknown = Revisit { kind: RevisitKind::NotModified, url: None, date_ms: None, payload_digest: None };
    assert_eq!(
        line_of(Capture { status: 304, revisit: Some(unknown), ..PLAIN }),
        r#"example,a)/b?c&d 20231114221320 {"url": "http://www.a.example/B?d&c", "mime": "warc/revisit", "status": "304", L, O, "filename": "a.warc.gz"}"#
    );
}

#[test]
fn the_type_is_that_of_the_first_field_without_its_parameters_in_ascii() {
    for (headers, mime) in [
        (&[("X", "a"), ("Content-Type", "image/png"), ("content-type", "b")][..], Some("image/png")),
        (&[("content-type ", " \u{a0}text/html\u{a0}x")], Some("text/html")),
        (&[("CONTENT-TYPE", "text/html\r\nx")], Some("text/html")),
        (&[("content-type", "a\"b\\c\u{7f}d")], Some("a\\\"b\\\\c")),
        (&[("content-type", "é/日本😀")], Some("\\u00e9/\\u65e5\\u672c\\ud83d\\ude00")),
        (&[("content-type", "")], Some("")),
        (&[("content-type", "; charset=utf-8")], Some("")),
        (&[("content type", "a"), ("", "b")], None),
    ] {
        assert_eq!(mime_of(headers).as_deref(), mime, "{headers:?}");
    }
}
