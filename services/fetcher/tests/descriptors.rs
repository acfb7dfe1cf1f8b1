//! File descriptors and tasks of the client: a test of its own process, since it counts those of the process.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use orbweaver_fetcher::{Client, Destination, FetcherConfig, HttpClient, Purpose, Request, RequestProfile};
use orbweaver_stage::{ByteBudget, SystemClock};
use orbweaver_url::Url;
use prometheus::IntGauge;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::Handle,
    time::{interval, timeout},
};

const HOSTS: usize = 300;
const AT_ONCE: usize = 32;
/// Longest time until unused connections are closed: five seconds, and time for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Number of open file descriptors of this process.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Answers each request by the first part of its host: with a page, a redirect, a body that never ends, or not at all.
async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    loop {
        let mut head = vec![];
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8_lossy(&head).to_lowercase();
        let kind = head.split("host: ").nth(1).and_then(|host| host.split('.').next()).unwrap_or_default();
        match kind {
            "page" => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n<p>").await?;
            }
            "moved" => {
                stream.write_all(b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n").await?;
            }
            "endless" => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n").await?;
                loop {
                    stream.write_all(&[b'x'; 4096]).await?;
                }
            }
            "broken" => return Ok(()),
            // Until the client closes the connection.
            _ => drop(stream.read_u8().await?),
        }
    }
}

async fn serve(listener: TcpListener) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(answer(stream));
    }
}

#[tokio::test]
async fn descriptors_and_tasks_of_requests_to_many_hosts_end_with_them_and_exceed_the_usual_limit() {
    let config = FetcherConfig {
        user_agent: "Testbot/1.0".into(),
        allow_private: true,
        max_body_bytes: 64 << 10,
        connect_timeout: Duration::from_secs(1),
        headers_timeout: Duration::from_secs(1),
        request_timeout: Duration::from_secs(2),
        ..FetcherConfig::default()
    };
    let profile = Arc::new(RequestProfile::of(&config));
    // Fewer than the connections that are kept.
    let limit = Rlimit { current: Some(128), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let client = HttpClient::new(&config, Arc::new(SystemClock)).unwrap();
    assert_eq!(getrlimit(Resource::Nofile).current, limit.maximum);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(serve(listener));
    let memory = ByteBudget::new(64 << 20, IntGauge::new("bytes", "in use").unwrap());
    let before = (descriptors(), tasks());
    let most = stream::iter(0..HOSTS)
        .map(async |number| {
            let kind = ["page", "moved", "endless", "broken", "silent"][number % 5];
            let request = Request {
                url: Url::parse(&format!("http://{kind}.h{number}.localhost:{port}/")).unwrap(),
                purpose: Purpose::Page,
                cookie: None,
                known: None,
                profile: Arc::clone(&profile),
                destination: Destination::Unlocated,
            };
            let attempt = client.ask(request, &mut memory.reservation()).await;
            let is_answered = ["page", "moved", "endless"].contains(&kind);
            assert_eq!(attempt.result.is_ok(), is_answered, "{kind}: {:?}", attempt.result);
            descriptors()
        })
        .buffer_unordered(AT_ONCE)
        .fold(0, async |most, count| most.max(count))
        .await;
    // Both ends of each connection are of this process. Two kinds of five are kept for the next request.
    let bound = before.0 + 2 * (HOSTS * 2 / 5 + AT_ONCE);
    assert!(most > 128 && most <= bound, "{most} descriptors, not {bound}");
    let ended = async {
        let mut ticks = interval(Duration::from_millis(50));
        while descriptors() > before.0 || tasks() > before.1 {
            ticks.tick().await;
        }
    };
    let left = || format!("{} of {} descriptors, {} of {} tasks", descriptors(), before.0, tasks(), before.1);
    assert!(timeout(PATIENCE, ended).await.is_ok(), "left after unused connections were closed: {}", left());
    server.abort();
}
