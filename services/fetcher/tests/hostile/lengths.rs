//! Bodies without an end, with a false length, and in broken chunks.

use std::time::Duration;

use futures::future::join_all;
use orbweaver_fetcher::FetcherConfig;

use super::{
    client::{Asked, Asker, config},
    server::{Server, Step},
};

const OK: &str = "HTTP/1.1 200 OK\r\n";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
/// Response that must not be the answer to another request.
const POISON: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\nPOISON";

fn send(text: impl Into<Vec<u8>>) -> Step {
    Step::Send(text.into())
}

fn endless(bytes: &[u8]) -> Step {
    Step::Repeat(bytes.to_vec(), Duration::ZERO)
}

fn chunk(data: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

/// Plays a script; the next request must get its own answer.
async fn asked(script: Vec<Step>, config: &FetcherConfig) -> Asked {
    let server = Server::start(script).await;
    Asker::new(config).ask_before_next(&server).await
}

async fn assert_outcomes(cases: Vec<(Vec<Step>, &str)>, config: &FetcherConfig) {
    let found = join_all(cases.iter().map(|(script, _)| asked(script.clone(), config))).await;
    assert!(found.iter().all(|found| found.reserved <= config.max_body_bytes));
    let shown = |script: &[Step]| match script {
        [Step::Send(bytes), ..] => String::from_utf8_lossy(&bytes[..bytes.len().min(100)]).into_owned(),
        _ => String::new(),
    };
    let found: Vec<_> = found.iter().zip(&cases).map(|(found, (script, _))| (shown(script), found.text())).collect();
    let expected: Vec<_> = cases.iter().map(|(script, expected)| (shown(script), (*expected).to_owned())).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_body_without_an_end_is_cut_at_the_limit() {
    let block = [b'x'; 16 << 10];
    let cut = "200, 65536 bytes, cut";
    let cases = vec![
        (vec![send(format!("{OK}\r\n")), endless(&block)], cut),
        (vec![send(format!("{OK}Content-Length: 1000000000000000000\r\n\r\n")), endless(&block)], cut),
        (vec![send(CHUNKED), endless(&chunk(&block))], cut),
        (vec![send(CHUNKED), endless(&chunk(b"x").repeat(1000))], cut),
        (vec![send(format!("{CHUNKED}7fffffffffffffff\r\n")), endless(&block)], cut),
    ];
    assert_outcomes(cases, &config()).await;
}

#[tokio::test]
async fn no_memory_is_reserved_for_a_length_that_is_only_declared() {
    let config = FetcherConfig { max_body_bytes: 256 << 20, ..config() };
    let heads = [
        format!("{OK}Content-Length: 1000000000000000000\r\n\r\n<p>"),
        format!("{OK}Content-Length: 200000000\r\n\r\n<p>"),
        format!("{CHUNKED}fffffff\r\n<p>"),
    ];
    let ends = [(Step::Hang, "failed: timeout"), (Step::Close, "failed: body")];
    let cases = heads.iter().flat_map(|head| ends.clone().map(|(then, expected)| (head, then, expected)));
    join_all(cases.map(async |(head, then, expected)| {
        let asked = asked(vec![send(head.clone()), then], &config).await;
        assert_eq!(asked.text(), expected, "{head}");
        assert!(asked.reserved <= 256 << 10, "{} bytes, {head}", asked.reserved);
    }))
    .await;
}

#[tokio::test]
async fn a_false_length_spoils_neither_its_page_nor_the_next_one() {
    let with = |headers: &str, body: &str, then: Option<Step>| -> Vec<Step> {
        std::iter::once(send(format!("{OK}{headers}\r\n{body}"))).chain(then).collect()
    };
    let poison = format!("hello{POISON}");
    let chunks = "5\r\nhello\r\n0\r\n\r\n";
    let cases = vec![
        (with("Content-Length: 5\r\n", &poison, None), "200, 5 bytes"),
        (with("Content-Length: 0\r\n", POISON, None), "200, 0 bytes"),
        (with("Content-Length: 500\r\n", "hello", Some(Step::Close)), "failed: body"),
        (with("Content-Length: 500\r\n", "hello", Some(Step::HalfClose)), "failed: body"),
        (with("Content-Length: 500\r\n", "hello", None), "failed: timeout"),
        (with("Content-Length: -5\r\n", "hello", None), "failed: connection"),
        (with("Content-Length: +5\r\n", "hello", None), "failed: connection"),
        (with("Content-Length: 0x5\r\n", "hello", None), "failed: connection"),
        (with("Content-Length: 5 5\r\n", "hello", None), "failed: connection"),
        (with("Content-Length: \r\n", "hello", None), "failed: connection"),
        (with("Content-Length: 5, 6\r\n", "hello!", None), "failed: connection"),
        (with("Content-Length: 5, 5\r\n", "hello", None), "200, 5 bytes"),
        (with("Content-Length: 5\r\nContent-Length: 5\r\n", "hello", None), "200, 5 bytes"),
        (with("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!", None), "failed: connection"),
        (with("Content-Length: 18446744073709551616\r\n", "hello", None), "failed: connection"),
        (with("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", chunks, None), "200, 5 bytes"),
        (with("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", chunks, None), "200, 5 bytes"),
    ];
    assert_outcomes(cases, &config()).await;
}

#[tokio::test]
async fn broken_chunks_are_a_broken_body() {
    let with = |body: &str, then: Option<Step>| -> Vec<Step> {
        std::iter::once(send(format!("{CHUNKED}{body}"))).chain(then).collect()
    };
    let long = "x".repeat(1 << 20);
    let (extension, trailer) =
        (format!("5;a={long}\r\nhello\r\n0\r\n\r\n"), format!("5\r\nhello\r\n0\r\nX: {long}\r\n\r\n"));
    let cases = vec![
        (with("5\r\nhello\r\n0\r\n\r\n", None), "200, 5 bytes"),
        (with(&format!("5\r\nhello\r\n0\r\n\r\n{POISON}"), None), "200, 5 bytes"),
        (with("5\r\nhello\r\n0\r\nX-Trailer: y\r\n\r\n", None), "200, 5 bytes"),
        (with("5\r\nhello\r\nzz\r\n", None), "failed: body"),
        (with("-5\r\nhello\r\n0\r\n\r\n", None), "failed: body"),
        (with("0x5\r\nhello\r\n0\r\n\r\n", None), "failed: body"),
        (with("5\r\nhello", Some(Step::Close)), "failed: body"),
        (with("5\r\nhello\r\n", Some(Step::Close)), "failed: body"),
        (with("5\r\nhello\r\n", Some(Step::HalfClose)), "failed: body"),
        (with("5\r\nhello!\r\n0\r\n\r\n", None), "failed: body"),
        (with("10000000000000000\r\nhello", None), "failed: body"),
        (with("fffffffffffffffff\r\nhello", None), "failed: body"),
        (with(&extension, None), "failed: body"),
        (with(&trailer, None), "failed: body"),
        (with("", Some(Step::Close)), "failed: body"),
        (with("\r\n\r\n", None), "failed: body"),
    ];
    assert_outcomes(cases, &config()).await;
}

#[tokio::test]
async fn a_million_chunks_of_a_byte_are_one_body() {
    let config = FetcherConfig { max_body_bytes: 1 << 20, request_timeout: Duration::from_secs(15), ..config() };
    let chunks = [chunk(b"x").repeat(1_000_000), b"0\r\n\r\n".to_vec()].concat();
    let cases = vec![(vec![send(CHUNKED), send(chunks)], "200, 1000000 bytes")];
    assert_outcomes(cases, &config).await;
}
