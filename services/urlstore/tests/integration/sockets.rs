//! The server behind real sockets.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use orbweaver_store::MemoryStore;
use orbweaver_urlstore::server::{listen, serve};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::world::{Failing, api, config, fill};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

async fn started() -> (tempfile::TempDir, SocketAddr, CancellationToken, JoinHandle<()>) {
    let (dir, store) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new()));
    fill(&*store, dir.path()).await;
    let (listener, address) = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let stop = CancellationToken::new();
    let serving = tokio::spawn(serve(listener, api(store, Some(dir.path()), &config()), None, stop.clone()));
    (dir, address, stop, serving)
}

/// Sends bytes, and returns all that the server answers until it ends the connection.
async fn sent(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may end the connection before it has read everything.
    let _ = stream.write_all(bytes).await;
    let mut answer = vec![];
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_request_is_answered_over_tcp_and_others_of_its_connection_too() {
    let (_dir, address, _stop, _serving) = started().await;
    let one = "GET /v1/url?url=a.example HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let last = one.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    let answer = sent(address, format!("{one}{last}").as_bytes()).await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 2, "{answer}");
    assert_eq!(answer.matches(r#""outcome":"unchanged""#).count(), 2, "{answer}");
}

#[tokio::test]
async fn a_request_that_is_none_is_refused_and_the_server_answers_the_next_one() {
    let (_dir, address, _stop, _serving) = started().await;
    let long = format!("GET /v1/url?url={} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(1 << 20));
    let fields = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "A: b\r\n".repeat(100_000));
    for (request, expected) in [
        (&b"\x16\x03\x01\x02\x00"[..], "400"),
        (b"GET /v1/url?url=\xff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "400"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "400"),
        (b"GET /v1/url?url=a.example HTTP/1.1\r\nHost: rebound.example\r\nConnection: close\r\n\r\n", "421"),
        (b"GET /v1/url?url=a.example HTTP/1.0\r\n\r\n", "421"),
        (b"CONNECT a.example:443 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "404"),
        (long.as_bytes(), "4"),
        (fields.as_bytes(), "431"),
    ] {
        let answer = sent(address, request).await;
        let shown = String::from_utf8_lossy(&request[..request.len().min(60)]).into_owned();
        // A connection that is reset with unread bytes may lose the answer.
        let is_lost = answer.is_empty() && request.len() > 1 << 16;
        assert!(is_lost || answer.split(' ').nth(1).unwrap_or_default().starts_with(expected), "{shown}: {answer}");
    }
    let good = b"GET /v1/url?url=a.example HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert!(sent(address, good).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_server_that_stops_answers_the_request_in_progress_and_accepts_no_other() {
    let (listener, address) = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let stop = CancellationToken::new();
    let config = orbweaver_urlstore::UrlstoreConfig { timeout: Duration::from_secs(1), ..config() };
    let store = Failing::new(None);
    let serving = tokio::spawn(serve(listener, api(store.clone(), None, &config), None, stop.clone()));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /v1/url?url=a.example HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    timeout(PATIENCE, store.reads.notified()).await.unwrap();
    stop.cancel();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    timeout(PATIENCE, serving).await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let (_dir, address, _stop, _serving) = started().await;
    let error = listen(address).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot listen on {address}: ")), "{error}");
}
