//! The HTTP client against servers that behave and servers that do not. All of them listen on loopback and end with
//! the test.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::{
    io::Write,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use orbweaver_fetcher::{
    Attempt, Body, Client, Destination, FetchError, FetcherConfig, HttpClient, HttpResponse, Purpose, Request,
    RequestProfile,
};
use orbweaver_messages::{CrawlPurpose, FetchProfile, PageKind};
use orbweaver_settings::Section as _;
use orbweaver_stage::{ByteBudget, SystemClock};
use orbweaver_url::Url;
use prometheus::IntGauge;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Behaviour of a server on a connection: it sends this after each request, and then does as said.
type Act = (Vec<u8>, Then);

#[derive(Clone)]
enum Then {
    /// Reads the next request.
    Continue,
    /// Closes the connection.
    Close,
    /// Keeps the connection open silently.
    Hang,
    /// Sends this repeatedly, with this pause in between.
    Repeat(Vec<u8>, Duration),
    /// Resets the connection.
    Reset,
}

/// A server with one behaviour.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<std::sync::Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    async fn start(act: Act) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, requests) = (Arc::<AtomicUsize>::default(), Arc::<std::sync::Mutex<Vec<String>>>::default());
        let (counted, seen) = (connections.clone(), requests.clone());
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                connections.spawn(serve(stream, act.clone(), seen.clone()));
            }
        });
        Self { address, connections, requests, task }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, act: Act, seen: Arc<std::sync::Mutex<Vec<String>>>) {
    loop {
        let mut request = vec![];
        while !request.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => request.push(byte),
                Err(_closed) => return,
            }
        }
        seen.lock().unwrap().push(String::from_utf8(request).unwrap().to_lowercase());
        let (bytes, then) = &act;
        drop(stream.write_all(bytes).await);
        match then {
            Then::Continue => continue,
            Then::Close => {}
            Then::Hang => std::future::pending().await,
            Then::Repeat(again, pause) => {
                while stream.write_all(again).await.is_ok() {
                    tokio::time::sleep(*pause).await;
                }
            }
            Then::Reset => stream.set_zero_linger().unwrap(),
        }
        return;
    }
}

fn config() -> FetcherConfig {
    FetcherConfig {
        user_agent: "Testbot/1.0".into(),
        headers: vec![("X-From".into(), "ops@bot.example".into())],
        allow_private: true,
        connect_timeout: Duration::from_secs(2),
        headers_timeout: Duration::from_millis(500),
        request_timeout: Duration::from_secs(2),
        max_body_bytes: 1 << 20,
        ..FetcherConfig::default()
    }
}

async fn ask_with(config: FetcherConfig, url: &str) -> Attempt {
    config.check().unwrap();
    let client = HttpClient::new(&config, Arc::new(SystemClock)).unwrap();
    let profile = Arc::new(RequestProfile::of(&config));
    asked(&client, Request { profile, ..page_request(url) }).await
}

fn memory(bytes: usize) -> ByteBudget {
    ByteBudget::new(bytes, IntGauge::new("bytes", "in use").unwrap())
}

async fn asked(client: &HttpClient, request: Request) -> Attempt {
    client.ask(request, &mut memory(64 << 20).reservation()).await
}

async fn ask(url: &str) -> Attempt {
    ask_with(config(), url).await
}

fn page_request(url: &str) -> Request {
    let profile = Arc::new(RequestProfile::of(&config()));
    Request {
        url: Url::parse(url).unwrap(),
        purpose: Purpose::Page,
        cookie: None,
        known: None,
        profile,
        destination: Destination::Unlocated,
    }
}

async fn answer_of(act: Act) -> Result<HttpResponse, FetchError> {
    let server = Server::start(act).await;
    ask(&server.url("/")).await.result
}

fn ok(headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Answers each request with a page.
fn page(headers: &str, body: &[u8]) -> Act {
    (ok(&format!("Content-Type: text/html\r\n{headers}"), body), Then::Continue)
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn read(bytes: &[u8]) -> Body {
    Body::Read { bytes: bytes.to_vec(), truncated: false }
}

#[tokio::test]
async fn a_page_is_asked_for_by_name_and_read_decoded_with_its_headers() {
    let headers =
        "Content-Type: text/html; charset=utf-8\r\nContent-Encoding: gzip\r\nETag: \"1\"\r\nX-Odd: caf\u{e9}\r\n";
    let server = Server::start((ok(headers, &gzip(b"<p>hello</p>")), Then::Continue)).await;
    let attempt = ask(&server.url("/a?b=%7C|")).await;
    let answer = attempt.result.unwrap();
    assert_eq!((answer.status, answer.body), (200, read(b"<p>hello</p>")));
    assert_eq!(answer.content_type.as_deref(), Some("text/html; charset=utf-8"));
    assert_eq!(answer.etag.as_deref(), Some("\"1\""));
    assert!(answer.headers.contains(&("x-odd".into(), "caf\u{e9}".into())), "{:?}", answer.headers);
    assert!(attempt.requested_at_ms <= attempt.answered_at_ms && attempt.answered_at_ms <= attempt.ended_at_ms);
    let request = server.requests().remove(0);
    for part in ["get /a?b=%7c| http/1.1\r\n", "user-agent: testbot/1.0\r\n", "x-from: ops@bot.example\r\n"] {
        assert!(request.contains(part), "{part} in {request}");
    }
    for coding in ["gzip", "br", "zstd", "deflate"] {
        let accepted = request.lines().find(|line| line.starts_with("accept-encoding:")).unwrap();
        assert!(accepted.contains(coding), "{accepted}");
    }
}

#[tokio::test]
async fn one_connection_serves_many_requests_also_after_answers_that_are_not_read() {
    for bytes in [
        ok("Content-Type: text/html\r\n", b"<p>x"),
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nnope!".to_vec(),
        b"HTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n".to_vec(),
    ] {
        let server = Server::start((bytes, Then::Continue)).await;
        let client = HttpClient::new(&config(), Arc::new(SystemClock)).unwrap();
        for _ in 0..5 {
            asked(&client, page_request(&server.url("/"))).await.result.unwrap();
            // Yields to the client's connection task, which returns the connection to the pool.
            tokio::time::timeout(Duration::from_secs(1), tokio::task::yield_now()).await.unwrap();
        }
        assert_eq!(server.requests().len(), 5);
        assert!(server.connections.load(Ordering::SeqCst) <= 2, "{:?}", server.connections);
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_its_cookies_are_told_and_sent_only_when_asked_to() {
    let bytes = b"HTTP/1.1 302 Found\r\nLocation: /y\r\nSet-Cookie: a=1; Path=/\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n";
    let server = Server::start((bytes.to_vec(), Then::Continue)).await;
    let client = HttpClient::new(&config(), Arc::new(SystemClock)).unwrap();
    let mut request = page_request(&server.url("/x"));
    let answer = asked(&client, request.clone()).await.result.unwrap();
    assert_eq!((answer.status, answer.location.as_deref()), (302, Some("/y")));
    assert_eq!(answer.set_cookie, ["a=1; Path=/", "b=2"]);
    asked(&client, request.clone()).await.result.unwrap();
    request.cookie = Some("a=1; b=2".into());
    asked(&client, request).await.result.unwrap();
    let cookies: Vec<_> = server.requests().iter().map(|request| request.contains("cookie: a=1; b=2\r\n")).collect();
    assert_eq!(cookies, [false, false, true]);
}

#[tokio::test]
async fn what_stands_before_the_host_is_never_sent_as_a_password() {
    let server = Server::start(page("", b"x")).await;
    ask(&format!("http://user:secret@{}/", server.address)).await.result.unwrap();
    assert!(!server.requests()[0].contains("authorization"));
}

#[tokio::test]
async fn a_gzip_bomb_is_cut_at_the_limit_of_decoded_bytes() {
    let bomb = gzip(&vec![b' '; 64 << 20]);
    assert!(bomb.len() < 1 << 20);
    let answer = answer_of(page("Content-Encoding: gzip\r\n", &bomb)).await.unwrap();
    assert!(matches!(answer.body, Body::Read { bytes, truncated: true } if bytes.len() == 1 << 20));
}

#[tokio::test]
async fn an_endless_body_is_cut_at_the_limit_and_an_endless_drip_at_the_time() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let chunk = [b"4000\r\n".to_vec(), vec![b'x'; 0x4000], b"\r\n".to_vec()].concat();
    let answer = answer_of((head.clone(), Then::Repeat(chunk, Duration::ZERO))).await.unwrap();
    assert!(matches!(answer.body, Body::Read { bytes, truncated: true } if bytes.len() == 1 << 20));
    let drip = (head, Then::Repeat(b"1\r\nx\r\n".to_vec(), Duration::from_millis(50)));
    assert_eq!(answer_of(drip).await.unwrap_err(), FetchError::Timeout);
}

#[tokio::test]
async fn a_failure_tells_where_the_answer_broke() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n";
    let many: String = (0..300).map(|number| format!("X-{number}: y\r\n")).collect();
    let slowly = Then::Repeat(b"X-A: b\r\n".to_vec(), Duration::from_millis(20));
    for (bytes, then, failure) in [
        (String::new(), Then::Reset, FetchError::Connection),
        (String::new(), Then::Close, FetchError::Connection),
        ("not http at all\r\n\r\n".to_owned(), Then::Close, FetchError::Connection),
        (format!("{head}{many}Content-Length: 1\r\n\r\nx"), Then::Continue, FetchError::Connection),
        (String::new(), Then::Hang, FetchError::Timeout),
        ("HTTP/1.1 200 OK\r\n".to_owned(), slowly, FetchError::Timeout),
        (format!("{head}Content-Length: 1000\r\n\r\n<p>"), Then::Close, FetchError::Body),
        (format!("{head}Content-Length: 1000000000000000000\r\n\r\n<p>"), Then::Close, FetchError::Body),
        (format!("{head}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n"), Then::Close, FetchError::Body),
        (
            format!("{head}Content-Encoding: gzip\r\nContent-Length: 15\r\n\r\nthis is no gzip"),
            Then::Continue,
            FetchError::Body,
        ),
    ] {
        assert_eq!(answer_of((bytes.clone().into(), then)).await.unwrap_err(), failure, "{bytes}");
    }

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    assert_eq!(ask(&format!("http://{closed}/")).await.result.unwrap_err(), FetchError::Connect);
    // Without a name server the client cannot determine that the name does not exist.
    let unknown = ask("http://no-such-host.invalid/").await.result.unwrap_err();
    assert!(matches!(unknown, FetchError::UnknownHost | FetchError::Dns), "{unknown:?}");
}

#[tokio::test]
async fn what_follows_an_answer_is_never_accepted_as_the_next_one() {
    let second = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\nPOISON";
    let (first, then) = page("", b"<p>");
    let server = Server::start(([&first[..], second].concat(), then)).await;
    let client = HttpClient::new(&config(), Arc::new(SystemClock)).unwrap();
    for _ in 0..3 {
        let answer = asked(&client, page_request(&server.url("/"))).await.result.unwrap();
        assert_eq!(answer.body, read(b"<p>"));
    }
}

#[tokio::test]
async fn plain_http_where_tls_is_asked_for_is_a_failure_of_tls() {
    // The client's first message has no empty line, so this server responds without waiting for one.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        let mut rest = vec![];
        drop(stream.read_to_end(&mut rest).await);
    });
    assert_eq!(ask(&format!("https://{address}/")).await.result.unwrap_err(), FetchError::Tls);
    server.await.unwrap();
}

#[tokio::test]
async fn a_header_longer_than_what_is_kept_is_left_out() {
    let answer = answer_of(page(&format!("X-Long: {}\r\n", "y".repeat(40_000)), b"x")).await.unwrap();
    assert!(!answer.headers.is_empty() && answer.headers.iter().all(|(name, _)| name != "x-long"));
}

#[tokio::test]
async fn what_is_no_html_ends_after_its_headers() {
    for content_type in ["application/pdf", "image/png", "text/plain; charset=utf-8"] {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: 4000000000\r\n\r\n");
        let server = Server::start((head.into(), Then::Hang)).await;
        let attempt = ask(&server.url("/")).await;
        assert_eq!(attempt.result.unwrap().body, Body::Unread, "{content_type}");
    }
}

#[tokio::test]
async fn a_page_whose_headers_refuse_the_purpose_of_the_crawl_ends_after_them_however_few_are_kept() {
    let refused = ok("content-type: text/html\r\nx-robots-tag: noarchive\r\nX-Robots-Tag: noindex\r\n", b"");
    let server = Server::start((refused, Then::Hang)).await;
    let purpose = vec![CrawlPurpose::Search];
    let answer = ask_with(FetcherConfig { purpose, max_header_bytes: 0, ..config() }, &server.url("/")).await.result;
    let answer = answer.unwrap();
    assert!(
        answer.refusal.is_some_and(|refusal| refusal.purposes.contains(CrawlPurpose::Search))
            && answer.body == Body::Unread
    );
}

#[tokio::test]
async fn without_a_content_type_the_first_bytes_decide() {
    let answer = answer_of((ok("", b" <!doctype html><p>x"), Then::Continue)).await.unwrap();
    assert_eq!(answer.body, read(b" <!doctype html><p>x"));
    let pdf = [&b"%PDF-1.7 "[..], &[b'x'; 2000][..]].concat();
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 4000000000\r\n\r\n";
    assert_eq!(answer_of(([&head[..], &pdf].concat(), Then::Hang)).await.unwrap().body, Body::Unwanted);
    assert_eq!(answer_of((ok("", b"short"), Then::Continue)).await.unwrap().body, Body::Unwanted);
}

#[tokio::test]
async fn a_type_that_the_crawl_accepts_is_read_and_any_other_is_not() {
    let ask = async |accept: &[&str], head: &str, body: &[u8]| {
        let accept = accept.iter().map(|&range| range.to_owned()).collect();
        let profile = RequestProfile::of_crawl(&config(), &FetchProfile { accept, ..FetchProfile::default() });
        let server = Server::start((ok(head, body), Then::Continue)).await;
        let client = HttpClient::new(&config(), Arc::new(SystemClock)).unwrap();
        let request = Request { profile: Arc::new(profile), ..page_request(&server.url("/")) };
        let answer = asked(&client, request).await.result.unwrap();
        (server.requests().remove(0), answer.body, answer.kind)
    };
    let (pdf, png) = ("Content-Type: Application/PDF; version=2\r\n", "Content-Type: image/png\r\n");
    let (request, body, kind) = ask(&["application/pdf"], pdf, b"%PDF-1.7 <html>").await;
    assert_eq!((body, kind), (read(b"%PDF-1.7 <html>"), PageKind::Other));
    assert!(request.contains("\r\naccept: text/html,application/xhtml+xml,application/pdf;q=0.9,*/*;q=0.1\r\n"));
    assert_eq!(ask(&["application/pdf"], png, b"x").await.1, Body::Unread);
    assert_eq!(ask(&["application/pdf"], "", b"%PDF-1.7").await.1, Body::Unwanted);
    let (_, body, kind) = ask(&["*/*"], "", b"%PDF-1.7").await;
    assert_eq!((body, kind), (read(b"%PDF-1.7"), PageKind::Other));
    let (_, body, kind) = ask(&["*/*"], "", b"<!doctype html>").await;
    assert_eq!((body, kind), (read(b"<!doctype html>"), PageKind::Html));
}

#[tokio::test]
async fn a_robots_txt_is_read_whatever_its_type_and_cut_at_500_kib() {
    let server = Server::start((ok("Content-Type: text/plain\r\n", &vec![b'#'; 600 << 10]), Then::Continue)).await;
    let client = HttpClient::new(&config(), Arc::new(SystemClock)).unwrap();
    let request = Request { purpose: Purpose::Robots, ..page_request(&server.url("/robots.txt")) };
    let Body::Read { bytes, truncated } = asked(&client, request).await.result.unwrap().body else { panic!() };
    assert_eq!((bytes.len(), truncated), (500 << 10, true));
}

#[tokio::test]
async fn addresses_that_are_not_public_are_not_dialled() {
    let server = Server::start(page("", b"x")).await;
    let port = server.address.port();
    for host in ["127.0.0.1", "127.1", "[::ffff:127.0.0.1]", "localhost", "any.localhost.", "0x7f000001"] {
        let config = FetcherConfig { allow_private: false, ..config() };
        let attempt = ask_with(config, &format!("http://{host}:{port}/")).await;
        assert_eq!(attempt.result.unwrap_err(), FetchError::Private, "{host}");
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 0);
    assert_eq!(ask(&format!("http://any.localhost:{port}/")).await.result.unwrap().status, 200);
}

#[tokio::test]
async fn a_request_goes_to_the_address_for_which_it_was_made_and_to_no_other() {
    let server = Server::start(page("", b"x")).await;
    let client = HttpClient::new(&config(), Arc::new(SystemClock)).unwrap();
    // The name does not exist, so only the address leads to the server.
    let url = format!("http://no-such-host.invalid:{}/", server.address.port());
    let at = |address: [u8; 4]| Request { destination: Destination::At(address.into()), ..page_request(&url) };
    assert_eq!(asked(&client, at([127, 0, 0, 1])).await.result.unwrap().status, 200);
    assert!(server.requests()[0].contains(&format!("host: no-such-host.invalid:{}", server.address.port())));
    // The connection is still open, and would be used again.
    assert_eq!(asked(&client, at([127, 0, 0, 2])).await.result.unwrap_err(), FetchError::Dns);
    assert_eq!(asked(&client, at([127, 0, 0, 1])).await.result.unwrap().status, 200);
    assert_eq!(server.requests().len(), 2);
    let failed = Request { destination: Destination::Failed(FetchError::UnknownHost), ..page_request(&url) };
    assert_eq!(asked(&client, failed).await.result.unwrap_err(), FetchError::UnknownHost);
    assert_eq!(client.locate("any.localhost").await, Ok(Some([127, 0, 0, 1].into())));
}

#[tokio::test]
async fn after_a_refused_connection_the_next_request_goes_to_another_address() {
    // Closed on IPv4, unless another process has just taken the port there.
    let Ok(listener) = TcpListener::bind("[::1]:0").await else { return };
    let port = listener.local_addr().unwrap().port();
    let (answer, _) = page("", b"x");
    let task = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        serve(stream, (answer, Then::Close), Arc::default()).await;
    });
    let client = HttpClient::new(&config(), Arc::new(SystemClock)).unwrap();
    let request = || page_request(&format!("http://two.localhost:{port}/"));
    assert_eq!(asked(&client, request()).await.result.unwrap_err(), FetchError::Connect);
    assert_eq!(asked(&client, request()).await.result.unwrap().status, 200);
    task.await.unwrap();
}

#[tokio::test]
async fn a_request_that_ends_for_want_of_memory_is_no_failure_of_the_site() {
    let config = FetcherConfig { request_timeout: Duration::from_millis(700), ..config() };
    let config = FetcherConfig { connect_timeout: config.headers_timeout, ..config };
    let server = Server::start(page("", &[b'x'; 100 << 10])).await;
    let client = HttpClient::new(&config, Arc::new(SystemClock)).unwrap();
    let memory = memory(1 << 20);
    let mut greedy = memory.reservation();
    greedy.grow(memory.bytes()).await;
    // The reservation that exceeds the budget may continue; others must wait.
    let mut first = memory.reservation();
    assert!(client.ask(page_request(&server.url("/")), &mut first).await.result.is_ok());
    let mut second = memory.reservation();
    let attempt = client.ask(page_request(&server.url("/")), &mut second).await;
    assert_eq!(attempt.result.unwrap_err(), FetchError::Memory);
    assert_eq!(second.bytes(), 0);
}

#[tokio::test]
async fn a_request_of_an_archived_crawl_is_recorded_as_it_was_sent_and_every_body_is_read() {
    let not_found = b"HTTP/1.1 404 Not Found\r\nX-Twice: a\r\nX-Twice: b\r\nContent-Length: 5\r\n\r\nnope!".to_vec();
    let image = ok("Content-Type: image/png\r\n", b"\x89PNG");
    let cut = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 500\r\n\r\nnope!".to_vec();
    for (bytes, then, status, body) in [
        (not_found, Then::Continue, 404, read(b"nope!")),
        (image, Then::Continue, 200, read(b"\x89PNG")),
        (cut, Then::Close, 403, Body::Unread),
    ] {
        let server = Server::start((bytes, then)).await;
        let config = config();
        let client = HttpClient::new(&config, Arc::new(SystemClock)).unwrap();
        let archive = FetchProfile { archive: Some(true), ..FetchProfile::default() };
        let profile = Arc::new(RequestProfile::of_crawl(&config, &archive));
        let request = Request { profile, cookie: Some("a=1".into()), ..page_request(&server.url("/x?y")) };
        let attempt = asked(&client, request).await;
        let answer = attempt.result.unwrap();
        assert_eq!((answer.status, answer.kind, answer.body), (status, PageKind::Response, body));
        let capture = answer.capture.unwrap();
        let mut sent: Vec<String> =
            capture.request_headers.iter().map(|(name, value)| format!("{name}: {value}").to_lowercase()).collect();
        let mut received: Vec<String> = server.requests()[0].trim_end().lines().skip(1).map(str::to_owned).collect();
        sent.sort();
        received.sort();
        assert_eq!(sent, received);
        assert_eq!(capture.address.as_deref(), Some("127.0.0.1"));
        assert_eq!(
            (capture.requested_at_ms, capture.answered_at_ms),
            (attempt.requested_at_ms, attempt.answered_at_ms)
        );
        if status == 404 {
            let twice = answer.headers.iter().filter(|(name, _)| name == "x-twice").count();
            assert_eq!(twice, 2);
        }
    }
}
