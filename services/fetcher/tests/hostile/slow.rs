//! Servers that send nothing, or little at a time.

use std::time::Duration;

use orbweaver_fetcher::{FetchError, FetcherConfig};

use super::{
    client::{Asker, config},
    server::{HOSTILE, Server, Step},
};

const PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n";

/// Pause between two packets: far below each timeout, so that no idle timer would ever fire.
const PAUSE: Duration = Duration::from_millis(20);

fn repeat(bytes: &[u8]) -> Step {
    Step::Repeat(bytes.to_vec(), PAUSE)
}

fn send(text: impl Into<Vec<u8>>) -> Step {
    Step::Send(text.into())
}

/// Limits of which only that of the headers is short.
fn short_headers() -> FetcherConfig {
    let long = Duration::from_mins(1);
    FetcherConfig {
        headers_timeout: Duration::from_millis(300),
        connect_timeout: long,
        request_timeout: long,
        ..config()
    }
}

/// Limits of which only that of the whole request is short; no other may be longer.
fn short_request() -> FetcherConfig {
    let short = Duration::from_millis(500);
    FetcherConfig { headers_timeout: short, connect_timeout: short, request_timeout: short, ..config() }
}

async fn assert_timeout(config: FetcherConfig, script: Vec<Step>) {
    let server = Server::start(script.clone()).await;
    let asker = Asker::new(&config);
    assert_eq!(asker.ask(&server.url(HOSTILE)).await.failure(), FetchError::Timeout, "{script:?}");
    // The connection is closed, not kept for another request.
    server.played().await;
    asker.assert_serves(&server, "/next").await;
    assert_eq!(server.connections(), 2, "{script:?}");
}

#[tokio::test]
async fn headers_have_one_deadline_however_busy_the_server_is() {
    let early_hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let cases = [
        vec![Step::Hang],
        vec![send("HTTP/1.1 200 OK"), Step::Hang],
        vec![send(PAGE), Step::Hang],
        vec![send("HTTP/1.1 200 "), repeat(b"O")],
        vec![send(format!("{PAGE}X: ")), repeat(b"y")],
        vec![send(PAGE), repeat(b"X: y\r\n")],
        vec![repeat(b"\r\n")],
        vec![repeat(early_hints)],
        vec![Step::Repeat(early_hints.to_vec(), Duration::ZERO)],
    ];
    futures::future::join_all(cases.map(|script| assert_timeout(short_headers(), script))).await;
}

#[tokio::test]
async fn a_body_has_the_deadline_of_its_request_however_slowly_it_arrives() {
    let chunked = format!("{PAGE}Transfer-Encoding: chunked\r\n\r\n");
    let cases = [
        vec![send(format!("{PAGE}\r\n")), Step::Hang],
        vec![send(format!("{PAGE}\r\n")), repeat(b"x")],
        vec![send(format!("{PAGE}Content-Length: 1000000\r\n\r\n")), repeat(b"x")],
        vec![send(chunked.clone()), repeat(b"1\r\nx\r\n")],
        vec![send(format!("{chunked}0")), repeat(b"0")],
        vec![send(format!("{chunked}1;")), repeat(b"x")],
        vec![send(format!("{chunked}5\r\n")), Step::Hang],
        vec![send(format!("{chunked}0\r\nX-")), repeat(b"y")],
    ];
    futures::future::join_all(cases.map(|script| assert_timeout(short_request(), script))).await;
}

/// Limits of which only that of the rate of bodies is short.
fn least_rate(min_body_rate: usize, body_grace: Duration) -> FetcherConfig {
    let long = Duration::from_secs(30);
    FetcherConfig {
        headers_timeout: long,
        connect_timeout: long,
        request_timeout: long,
        min_body_rate,
        body_grace,
        ..config()
    }
}

#[tokio::test]
async fn a_body_that_drips_ends_long_before_the_deadline_of_its_request() {
    let chunked = format!("{PAGE}Transfer-Encoding: chunked\r\n\r\n");
    let gzip = format!("{PAGE}Content-Encoding: gzip\r\n\r\n");
    let drip = |bytes: &[u8]| Step::Repeat(bytes.to_vec(), Duration::from_millis(200));
    let cases = [
        vec![send(format!("{PAGE}\r\n")), drip(b"x")],
        vec![send(format!("{PAGE}Content-Length: 1000000\r\n\r\nx")), Step::Hang],
        vec![send(chunked.clone()), drip(b"1\r\nx\r\n")],
        vec![send(format!("{chunked}1\r\nx\r\n1;")), drip(b"x")],
        vec![send(format!("{chunked}1\r\nx\r\n0\r\nX-")), drip(b"y")],
        // The header of the encoded data has ten bytes, and may have a name of any length.
        vec![send(gzip), send([0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3]), drip(b"x")],
    ];
    let assert_slow = async |script: Vec<Step>| {
        let server = Server::start(script.clone()).await;
        let asker = Asker::new(&least_rate(50, Duration::from_millis(500)));
        assert_eq!(asker.ask(&server.url(HOSTILE)).await.failure(), FetchError::SlowBody, "{script:?}");
        // The connection is closed, not kept for another request.
        server.played().await;
        asker.assert_serves(&server, "/next").await;
        assert_eq!(server.connections(), 2, "{script:?}");
    };
    futures::future::join_all(cases.map(assert_slow)).await;
}

#[tokio::test]
async fn a_slow_server_that_keeps_the_least_rate_is_read_to_its_end() {
    // Its first bytes suffice for twenty seconds, and the others arrive after the grace period.
    let head = format!("{PAGE}Content-Length: 40\r\n\r\n{}", "x".repeat(20));
    let drip = (0..20).flat_map(|_| [Step::Wait(PAUSE), send(b"x")]);
    let server = Server::start([send(head)].into_iter().chain(drip).collect()).await;
    let asked = Asker::new(&least_rate(1, Duration::from_millis(100))).ask(&server.url(HOSTILE)).await;
    assert_eq!(asked.text(), "200, 40 bytes");
}

#[tokio::test]
async fn a_tls_handshake_has_the_deadline_of_a_connection() {
    let long = Duration::from_mins(1);
    let config = FetcherConfig { connect_timeout: Duration::from_millis(300), headers_timeout: long, ..config() };
    let config = FetcherConfig { request_timeout: long, ..config };
    // A record of a handshake, of 16 KiB, of which one byte arrives at a time.
    let record = send([0x16, 3, 3, 0x40, 0, 2, 0, 0x3f, 0xfc]);
    for script in [vec![Step::Hang], vec![record, repeat(&[3])]] {
        let server = Server::early(script).await;
        let asked = Asker::new(&config).ask(&format!("https://{}/", server.address)).await;
        assert_eq!(asked.failure(), FetchError::Connect);
    }
}
