//! Content types that are missing, false or odd.

use std::time::Duration;

use orbweaver_fetcher::Purpose;

use super::{
    client::{Asker, config},
    server::{HOSTILE, Server, Step},
};

const HTML: &[u8] = b"<!doctype html><p>x";

/// Requests a page with these headers and this body, which does not end.
async fn page(headers: &str, body: &[u8], again: &[u8]) -> String {
    let head = format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: 4000000000\r\n\r\n");
    let endless = Step::Repeat(again.into(), Duration::ZERO);
    let server = Server::start(vec![Step::Send([head.as_bytes(), body].concat()), endless]).await;
    let asker = Asker::new(&config()).with(Purpose::Page);
    let found = asker.ask(&server.url(HOSTILE)).await.text();
    asker.assert_serves(&server, "/next").await;
    found
}

#[tokio::test]
async fn a_type_decides_before_the_body_and_the_limit_whatever_the_body_is() {
    let (cut, video) = ("200, 65536 bytes, cut", b"\0\0\0\x20ftypisom");
    let block = [b'x'; 16 << 10];
    for (headers, body, expected) in [
        ("Content-Type: text/html\r\n", &video[..], cut),
        ("Content-Type: text/html\r\n", HTML, cut),
        ("Content-Type: text/html; charset=utf-7\r\n", HTML, cut),
        ("Content-Type: text/html\r\nContent-Type: application/pdf\r\n", HTML, cut),
        ("Content-Type: application/pdf\r\nContent-Type: text/html\r\n", HTML, "200, unread"),
        ("Content-Type: application/octet-stream\r\n", HTML, "200, unread"),
        ("Content-Type: application/pdf\r\n", b"%PDF-1.7", "200, unread"),
        ("Content-Type: \x01\r\n", HTML, cut),
        ("Content-Type: ;;;\r\n", HTML, cut),
        ("Content-Type: /\r\n", HTML, "200, unread"),
        ("", HTML, cut),
        ("", b"%PDF-1.7", "200, unwanted"),
        ("", video, "200, unwanted"),
    ] {
        assert_eq!(page(headers, body, &block).await, expected, "{headers:?} {body:?}");
    }
    let long = format!("Content-Type: text/html; charset={}\r\n", "x".repeat(100 << 10));
    assert_eq!(page(&long, HTML, &block).await, cut, "a value that long counts as none");
}
