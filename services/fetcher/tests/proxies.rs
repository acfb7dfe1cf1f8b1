//! Requests through proxies on loopback, which end with the test.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use orbweaver_fetcher::{
    Attempt, Body, Client, Destination, FetchError, FetcherConfig, HttpClient, Purpose, Request, RequestProfile,
};
use orbweaver_messages::FetchProfile;
use orbweaver_stage::{ByteBudget, SystemClock};
use orbweaver_url::Url;
use prometheus::IntGauge;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// A server with the heads of its requests; of SOCKS, the user and the destination.
struct Server {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    _connections: JoinSet<()>,
}

#[derive(Debug, Clone, Copy)]
enum Role {
    /// A site that answers each request with this.
    Site(&'static str),
    /// A proxy that forwards requests.
    Proxy,
    /// A proxy that answers each request with this itself.
    Refuses(&'static str),
    /// A SOCKS proxy that answers each request with this code.
    SocksCode(u8),
}

const PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 8\r\n\r\n<p>hello";

/// First byte of a connection with TLS.
const TLS_HANDSHAKE: u8 = 0x16;

impl Server {
    async fn start(role: Role) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, heads) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let seen = Arc::clone(&heads);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let seen = Arc::clone(&seen);
                // A connection that the client closes ends with an error.
                connections.spawn(async move { drop(serve(stream, role, &seen).await) });
            }
        });
        Self { address, heads, _connections: tasks }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, role: Role, heads: &Mutex<Vec<String>>) -> std::io::Result<()> {
    loop {
        let mut head = vec![stream.read_u8().await?];
        if head == [5] {
            return socks(stream, role, heads).await;
        }
        if head == [TLS_HANDSHAKE] {
            return stream.write_all(b"no TLS").await;
        }
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let text = String::from_utf8(head).unwrap();
        heads.lock().unwrap().push(text.clone());
        let target = text.split(' ').nth(1).unwrap();
        match role {
            Role::Site(answer) | Role::Refuses(answer) => stream.write_all(answer.as_bytes()).await?,
            _ if text.starts_with("CONNECT ") => {
                let mut site = TcpStream::connect(target).await?;
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
                copy_bidirectional(&mut stream, &mut site).await?;
            }
            _ => {
                let url = Url::parse(target).unwrap();
                let mut site = TcpStream::connect((url.host_str().unwrap(), url.port().unwrap())).await?;
                site.write_all(text.as_bytes()).await?;
                copy_bidirectional(&mut stream, &mut site).await?;
            }
        }
    }
}

/// Serves a SOCKS connection (RFC 1928, RFC 1929), whose first byte was read.
async fn socks(mut stream: TcpStream, role: Role, heads: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let text = async |stream: &mut TcpStream| -> std::io::Result<String> {
        let mut bytes = vec![0; stream.read_u8().await?.into()];
        stream.read_exact(&mut bytes).await?;
        Ok(String::from_utf8(bytes).unwrap())
    };
    let methods = text(&mut stream).await?;
    let user = if methods.contains('\u{2}') {
        stream.write_all(&[5, 2]).await?;
        stream.read_u8().await?;
        let user = [text(&mut stream).await?, text(&mut stream).await?].join(":");
        stream.write_all(&[1, 0]).await?;
        user
    } else {
        stream.write_all(&[5, 0]).await?;
        String::new()
    };
    let mut request = [0; 4];
    stream.read_exact(&mut request).await?;
    let host = match request[3] {
        1 => std::net::Ipv4Addr::from(stream.read_u32().await?).to_string(),
        _ => text(&mut stream).await?,
    };
    let port = stream.read_u16().await?;
    heads.lock().unwrap().push(format!("{user}@{host}"));
    let code = if let Role::SocksCode(code) = role { code } else { 0 };
    stream.write_all(&[5, code, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    let mut site = TcpStream::connect((host.as_str(), port)).await?;
    copy_bidirectional(&mut stream, &mut site).await?;
    Ok(())
}

/// Sends a request of an archived crawl through a proxy.
async fn ask(config: &FetcherConfig, proxy: &str, url: &str) -> Attempt {
    let own = FetchProfile { archive: Some(true), proxy: Some(proxy.to_owned().into()), ..FetchProfile::default() };
    let request = Request {
        url: Url::parse(url).unwrap(),
        purpose: Purpose::Page,
        cookie: None,
        known: None,
        profile: Arc::new(RequestProfile::of_crawl(config, &own)),
        destination: Destination::Unlocated,
    };
    let client = HttpClient::new(config, Arc::new(SystemClock)).unwrap();
    let memory = ByteBudget::new(64 << 20, IntGauge::new("bytes", "in use").unwrap());
    client.ask(request, &mut memory.reservation()).await
}

fn private() -> FetcherConfig {
    FetcherConfig { allow_private: true, ..FetcherConfig::default() }
}

#[tokio::test]
async fn a_proxy_gets_the_name_of_the_host_and_its_own_password_and_is_not_taken_for_the_server() {
    let (site, proxy) = (Server::start(Role::Site(PAGE)).await, Server::start(Role::Proxy).await);
    let url = format!("http://localhost:{}/x?y", site.address.port());
    let proxy_url = format!("http://me:hunter2@localhost:{}", proxy.address.port());
    let attempt = ask(&private(), &proxy_url, &url).await;
    let answer = attempt.result.unwrap();
    assert_eq!(answer.body, Body::Read { bytes: b"<p>hello".to_vec(), truncated: false });
    let [head] = &proxy.heads()[..] else { panic!() };
    assert!(head.starts_with(&format!("GET {url} HTTP/1.1\r\n")), "{head}");
    assert!(head.to_lowercase().contains("proxy-authorization: basic "), "{head}");
    assert_eq!(site.heads().len(), 1);
    let capture = answer.capture.unwrap();
    assert_eq!(capture.address, None);
    assert!(!capture.request_headers.iter().any(|(name, _)| name == "proxy-authorization"));
    assert!(attempt.measured.connect.is_some());
}

#[tokio::test]
async fn a_socks_proxy_gets_the_checked_address_or_the_name_by_its_scheme() {
    for (scheme, host) in [("socks5", "127.0.0.1"), ("socks5h", "localhost")] {
        let (site, proxy) = (Server::start(Role::Site(PAGE)).await, Server::start(Role::Proxy).await);
        let url = format!("http://localhost:{}/", site.address.port());
        let attempt = ask(&private(), &format!("{scheme}://me:hunter2@{}", proxy.address), &url).await;
        assert!(matches!(attempt.result.unwrap().body, Body::Read { .. }));
        assert_eq!(proxy.heads(), [format!("me:hunter2@{host}")], "{scheme}");
    }
}

#[tokio::test]
async fn a_host_with_private_addresses_is_refused_before_its_request_goes_to_the_proxy() {
    let proxy = Server::start(Role::Refuses(PAGE)).await;
    for scheme in ["http", "socks5h"] {
        for url in ["http://localhost/", "http://127.0.0.1/"] {
            let attempt = ask(&FetcherConfig::default(), &format!("{scheme}://{}", proxy.address), url).await;
            assert_eq!(attempt.result.unwrap_err(), FetchError::Private, "{url}");
        }
    }
    assert_eq!(proxy.heads(), Vec::<String>::new());
}

#[tokio::test]
async fn a_proxy_that_cannot_be_used_is_no_failure_of_the_site_and_what_it_reports_of_the_site_is_one() {
    const UNKNOWN_USER: Role = Role::Refuses("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
    const UNREACHABLE: Role = Role::Refuses("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
    let site = Server::start(Role::Site("HTTP/1.1 400 Bad Request\r\n\r\n")).await;
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for (role, proxy, url, expected) in [
        (None, "http", "http", FetchError::Proxy),
        (None, "http", "https", FetchError::Proxy),
        (None, "socks5", "http", FetchError::Proxy),
        (Some(UNREACHABLE), "https", "http", FetchError::Proxy),
        (Some(UNREACHABLE), "https", "https", FetchError::Proxy),
        (Some(UNKNOWN_USER), "http", "http", FetchError::Proxy),
        (Some(UNKNOWN_USER), "http", "https", FetchError::Proxy),
        (Some(UNREACHABLE), "http", "https", FetchError::Connect),
        (Some(Role::SocksCode(1)), "socks5", "http", FetchError::Connect),
        (Some(Role::SocksCode(4)), "socks5", "http", FetchError::Connect),
        (Some(Role::SocksCode(5)), "socks5h", "https", FetchError::Connect),
        (Some(Role::Proxy), "http", "https", FetchError::Tls),
    ] {
        let server = if let Some(role) = role { Some(Server::start(role).await) } else { None };
        let address = server.as_ref().map_or(gone, |server| server.address);
        let url = format!("{url}://localhost:{}/", site.address.port());
        let attempt = ask(&private(), &format!("{proxy}://{address}"), &url).await;
        assert_eq!(attempt.result.unwrap_err(), expected, "{role:?} {proxy} {url}");
    }
}
