//! Connections that break, close or are not what they should be.

use futures::future::join_all;
use orbweaver_fetcher::FetchError;

use super::{
    client::{Asker, config},
    server::{HOSTILE, Server, Step},
};

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n";

fn send(text: impl Into<Vec<u8>>) -> Step {
    Step::Send(text.into())
}

#[tokio::test]
async fn a_connection_that_breaks_fails_its_own_request_alone() {
    let cases = [
        (vec![Step::Reset], "failed: connection"),
        (vec![Step::Close], "failed: connection"),
        (vec![Step::HalfClose], "failed: connection"),
        (vec![send("HTTP/1.1 200 OK\r\nX: "), Step::Reset], "failed: connection"),
        (vec![send("HTTP/1.1 200 OK\r\nX: "), Step::Close], "failed: connection"),
        (vec![send("HTTP/1.1 200 OK\r\nX: "), Step::HalfClose], "failed: connection"),
        (vec![send(format!("{HEAD}he")), Step::Close], "failed: body"),
        (vec![send(format!("{HEAD}he")), Step::HalfClose], "failed: body"),
        (vec![send(format!("{HEAD}hello")), Step::Close], "200, 5 bytes"),
        (vec![send(format!("{HEAD}hello")), Step::HalfClose], "200, 5 bytes"),
        (vec![send("HTTP/1.1 200 OK\r\n\r\nhello"), Step::HalfClose], "200, 5 bytes"),
    ];
    let found = cases.clone().map(|(script, _)| async {
        let server = Server::start(script).await;
        let asker = Asker::new(&config());
        let found = asker.ask_before_next(&server).await.text();
        assert_eq!(server.connections(), 2);
        found
    });
    for (found, (script, expected)) in join_all(found).await.iter().zip(cases) {
        assert_eq!(found, expected, "{script:?}");
    }
}

#[tokio::test]
async fn a_reset_after_a_part_of_the_answer_is_a_failure() {
    // The reset may overtake the bytes before it.
    for (sent, failures) in [
        (HEAD.to_owned(), [FetchError::Body, FetchError::Connection]),
        (format!("{HEAD}he"), [FetchError::Body, FetchError::Connection]),
    ] {
        let server = Server::start(vec![send(sent), Step::Reset]).await;
        let asker = Asker::new(&config());
        let failure = asker.ask(&server.url(HOSTILE)).await.failure();
        assert!(failures.contains(&failure), "{failure:?}");
        asker.assert_serves(&server, "/next").await;
    }
}

#[tokio::test]
async fn a_request_on_a_kept_connection_that_closes_at_that_moment_is_not_sent_twice() {
    let server = Server::start(vec![Step::Close]).await;
    let asker = Asker::new(&config());
    asker.assert_serves(&server, "/first").await;
    // The server closes the connection instead of an answer: another request would violate the interval of the site.
    assert_eq!(asker.ask(&server.url(HOSTILE)).await.failure(), FetchError::Connection);
    assert_eq!((server.connections(), server.paths()), (1, vec!["/first".to_owned(), HOSTILE.to_owned()]));
    asker.assert_serves(&server, "/next").await;
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn what_is_no_tls_is_a_failure_of_tls() {
    for bytes in
        [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"SSH-2.0-OpenSSH_9.6\r\n", &[0; 100], &[0x16, 3, 1, 0xff, 0xff]]
    {
        let server = Server::early(vec![send(bytes), Step::Hang]).await;
        let asked = Asker::new(&config()).ask(&format!("https://{}/", server.address)).await;
        assert_eq!(asked.failure(), FetchError::Tls, "{bytes:?}");
    }
}

#[tokio::test]
async fn an_answer_before_its_request_is_the_answer_to_none() {
    let server = Server::early(vec![send(format!("{HEAD}hello")), Step::Hang]).await;
    let asked = Asker::new(&config()).ask(&server.url("/x")).await;
    assert_eq!(asked.failure(), FetchError::Connection);
    assert_eq!(server.heads(), Vec::<String>::new());
}
