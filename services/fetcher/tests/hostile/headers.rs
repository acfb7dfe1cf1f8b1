//! Heads of responses that are large, broken or odd.

use std::time::Duration;

use futures::future::join_all;
use orbweaver_fetcher::FetcherConfig;

use super::{
    client::{Asked, Asker, config},
    server::{HOSTILE, Server, Step},
};

const END: &[u8] = b"Content-Length: 2\r\n\r\nhi";

/// Sends these bytes; the next request must get its own answer.
async fn asked(bytes: Vec<u8>) -> Asked {
    let server = Server::start(vec![Step::Send(bytes)]).await;
    Asker::new(&config()).ask_before_next(&server).await
}

/// Compares the outcomes of heads that are followed by [`END`].
async fn assert_outcomes(cases: Vec<(Vec<u8>, &str)>) {
    let found = join_all(cases.iter().map(|(head, _)| asked([head, END].concat()))).await;
    let shown = |head: &[u8]| String::from_utf8_lossy(&head[..head.len().min(100)]).into_owned();
    let found: Vec<_> = found.iter().zip(&cases).map(|(found, (head, _))| (shown(head), found.text())).collect();
    let expected: Vec<_> = cases.iter().map(|(head, expected)| (shown(head), (*expected).to_owned())).collect();
    assert_eq!(found, expected);
}

fn with(headers: impl AsRef<[u8]>) -> Vec<u8> {
    [b"HTTP/1.1 200 OK\r\n", headers.as_ref()].concat()
}

fn headers(number: usize, length: usize) -> Vec<u8> {
    (0..number).map(|number| format!("X-{number}: {}\r\n", "y".repeat(length))).collect::<String>().into()
}

#[tokio::test]
async fn headers_are_bounded_in_number_and_bytes() {
    assert_outcomes(vec![
        (with(headers(250, 1000)), "200, 2 bytes"),
        (with(headers(300, 1)), "failed: connection"),
        (with(headers(1750, 170)), "failed: connection"),
        (with(headers(1, 100 << 10)), "200, 2 bytes"),
        (with(headers(1, 1 << 20)), "failed: connection"),
        (with(format!("X-{}: y\r\n", "n".repeat(1 << 20))), "failed: connection"),
        (format!("HTTP/1.1 200 {}\r\n", "O".repeat(1 << 20)).into(), "failed: connection"),
    ])
    .await;
}

#[tokio::test]
async fn a_head_without_an_end_is_cut_off() {
    for (start, again) in [("HTTP/1.1 200 OK\r\nX: ", "y"), ("HTTP/1.1 200 OK\r\n", "X: y\r\n"), ("HTTP/1.1 200 ", "O")]
    {
        let endless = Step::Repeat(again.repeat(1000).into(), Duration::ZERO);
        let server = Server::start(vec![Step::Send(start.into()), endless]).await;
        // Its size ends it, not the time that a busy machine needs to read it.
        let (headers_timeout, request_timeout) = (Duration::from_secs(30), Duration::from_secs(30));
        let patient = FetcherConfig { headers_timeout, request_timeout, ..config() };
        assert_eq!(Asker::new(&patient).ask(&server.url(HOSTILE)).await.text(), "failed: connection", "{start}");
    }
}

#[tokio::test]
async fn an_odd_header_costs_itself_or_its_response_and_nothing_else() {
    assert_outcomes(vec![
        (with("X-No-Colon\r\n"), "200, 2 bytes"),
        (with("X Space: y\r\n"), "200, 2 bytes"),
        (with("X-Space : y\r\n"), "200, 2 bytes"),
        (with(": y\r\n"), "200, 2 bytes"),
        (with(b"X-Raw: \xff\xfe\r\n"), "200, 2 bytes"),
        (with(b"X-\xff: y\r\n"), "200, 2 bytes"),
        (with("X-Nul: a\0b\r\n"), "failed: connection"),
        (with("X-Cr: a\rb\r\n"), "failed: connection"),
        (with("X-Folded: a\r\n b\r\n"), "200, 2 bytes"),
        (with("X-Lf: a\nX: b\n"), "200, 2 bytes"),
    ])
    .await;
}

#[tokio::test]
async fn a_status_line_has_a_version_and_a_status_of_three_digits() {
    assert_outcomes(vec![
        (b"HTTP/1.1 200\r\n".to_vec(), "200, 2 bytes"),
        (b"HTTP/1.1 200 \xe4\xf6\r\n".to_vec(), "200, 2 bytes"),
        ([&b"HTTP/1.1 200 "[..], &b"\xe4".repeat(5000), b"\r\n"].concat(), "200, 2 bytes"),
        (b"HTTP/1.1 000 Zero\r\n".to_vec(), "failed: connection"),
        (b"HTTP/1.1 99 Short\r\n".to_vec(), "failed: connection"),
        (b"HTTP/1.1 099 Low\r\n".to_vec(), "failed: connection"),
        (b"HTTP/1.1 999 Blocked\r\n".to_vec(), "999, unread"),
        (b"HTTP/1.1 600 New\r\n".to_vec(), "600, unread"),
        (b"HTTP/1.1 1000 Long\r\n".to_vec(), "failed: connection"),
        (b"HTTP/9.9 200 OK\r\n".to_vec(), "failed: connection"),
        (b"ICY 200 OK\r\n".to_vec(), "failed: connection"),
        (b"HTTP/1.1 204 No Content\r\n".to_vec(), "204, unread"),
        (b"HTTP/1.1 304 Not Modified\r\n".to_vec(), "304, unread"),
        (b"HTTP/1.1 205 Reset Content\r\n".to_vec(), "205, unread"),
    ])
    .await;
}

#[tokio::test]
async fn a_thousand_interim_responses_precede_an_answer() {
    let interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(500);
    assert_outcomes(vec![([interim, with("")].concat(), "200, 2 bytes")]).await;
}

#[tokio::test]
async fn cookies_are_bounded_in_number_and_bytes() {
    let cookies = |number: usize, length: usize| -> Vec<u8> {
        (0..number).map(|number| format!("Set-Cookie: c{number}={}\r\n", "y".repeat(length))).collect::<String>().into()
    };
    for (number, length, kept) in [(3, 10, 3), (200, 10, 20), (3, 100 << 10, 0)] {
        let answer = asked([with(cookies(number, length)), END.to_vec()].concat()).await.answer();
        assert_eq!(answer.set_cookie.len(), kept, "{number} cookies of {length} bytes");
    }
    assert_outcomes(vec![
        (with(cookies(10_000, 10)), "failed: connection"),
        (with(cookies(1, 1 << 20)), "failed: connection"),
    ])
    .await;
}
