//! Connections that are kept for further requests: a bounded number over all hosts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use orbweaver_fetcher::{Client, Destination, FetcherConfig, HttpClient, Purpose, Request, RequestProfile};
use orbweaver_stage::{ByteBudget, SystemClock};
use orbweaver_url::Url;
use prometheus::IntGauge;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::{Instant, interval},
};

const HOSTS: usize = 40;
const MAX_IDLE: usize = 8;
/// Longest time until a connection is closed, less than that for which unused ones are kept.
const PATIENCE: Duration = Duration::from_secs(4);

/// Answers requests with a page until the client closes the connection.
async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    loop {
        let mut head = vec![];
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n<p>").await?;
    }
}

async fn serve(listener: TcpListener, open: Arc<AtomicUsize>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        open.fetch_add(1, SeqCst);
        let open = Arc::clone(&open);
        tokio::spawn(async move {
            let _ = answer(stream).await;
            open.fetch_sub(1, SeqCst);
        });
    }
}

#[tokio::test]
async fn no_more_connections_than_permitted_are_kept_over_all_hosts() {
    let config = FetcherConfig { allow_private: true, max_idle_connections: MAX_IDLE, ..FetcherConfig::default() };
    let profile = Arc::new(RequestProfile::of(&config));
    let client = HttpClient::new(&config, Arc::new(SystemClock)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let open = Arc::new(AtomicUsize::new(0));
    let server = tokio::spawn(serve(listener, Arc::clone(&open)));
    let memory = ByteBudget::new(64 << 20, IntGauge::new("bytes", "in use").unwrap());
    let mut reused = 0;
    for number in 0..HOSTS {
        for _ in 0..2 {
            let request = Request {
                url: Url::parse(&format!("http://h{number}.localhost:{port}/")).unwrap(),
                purpose: Purpose::Page,
                cookie: None,
                known: None,
                profile: Arc::clone(&profile),
                destination: Destination::Unlocated,
            };
            let attempt = client.ask(request, &mut memory.reservation()).await;
            assert_eq!(attempt.result.unwrap().status, 200);
            reused += usize::from(attempt.measured.connect.is_none());
        }
    }
    let deadline = Instant::now() + PATIENCE;
    let mut ticks = interval(Duration::from_millis(10));
    while open.load(SeqCst) > MAX_IDLE {
        assert!(Instant::now() < deadline, "{} connections of {HOSTS} hosts are open", open.load(SeqCst));
        ticks.tick().await;
    }
    assert_eq!(reused, MAX_IDLE, "second requests on the connections of the first ones");
    server.abort();
}
