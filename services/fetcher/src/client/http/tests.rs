//! Flow control of HTTP/2, without TLS, against a server that knows just enough of the protocol.

use std::time::Duration;

use orbweaver_stage::{ByteBudget, SystemClock};
use orbweaver_url::Url;
use prometheus::IntGauge;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use super::*;
use crate::{RequestProfile, client::clients::STREAM_WINDOW_BYTES};

mod floods;

/// Size of the page, in bytes.
const PAGE_BYTES: usize = 8 << 20;
/// Largest payload of a frame, in bytes.
const FRAME_BYTES: usize = 16 << 10;

/// Type, flags and stream of a frame (RFC 9113 section 6): of the connection (0), or of the only stream (1).
type Head = (u8, u8, u8);
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Identifier of the setting of a stream's window.
const INITIAL_WINDOW_SIZE: [u8; 2] = [0, 4];
/// Status 200 and the content type of a page, by their numbers in the static table (RFC 7541 appendix A).
const PAGE_HEADERS: &[u8] = b"\x88\x0f\x10\x09text/html";

fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, &byte| (number << 8) | usize::from(byte))
}

async fn receive(from: &mut TcpStream) -> io::Result<(Head, Vec<u8>)> {
    let mut head = [0; 9];
    from.read_exact(&mut head).await?;
    let [high, middle, low, kind, flags, _, _, _, stream] = head;
    let mut payload = vec![0; number(&[high, middle, low])];
    from.read_exact(&mut payload).await?;
    Ok(((kind, flags, stream), payload))
}

async fn send(to: &mut TcpStream, (kind, flags, stream): Head, payload: &[u8]) -> io::Result<()> {
    let [_, high, middle, low] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [high, middle, low, kind, flags, 0, 0, 0, stream];
    to.write_all(&[&head[..], payload].concat()).await
}

/// Sends a page as fast as the windows of the client allow. Whenever they are used up, and the client has processed all
/// bytes, reports their number and the window that remains for other streams of the connection.
async fn serve(listener: TcpListener, stalls: watch::Sender<(usize, usize)>) -> io::Result<()> {
    let (mut client, _) = listener.accept().await?;
    client.set_nodelay(true)?;
    let mut preface = [0; 24];
    client.read_exact(&mut preface).await?;
    send(&mut client, (SETTINGS, 0, 0), &[]).await?;
    // Windows of the connection and of the stream.
    let (mut windows, mut sent, mut is_asked) = ([65_535_usize; 2], 0, false);
    loop {
        let ((kind, flags, stream), payload) = receive(&mut client).await?;
        match kind {
            SETTINGS if flags & ACK == 0 => {
                for setting in payload.chunks(6).filter(|setting| setting.starts_with(&INITIAL_WINDOW_SIZE)) {
                    windows[1] = number(&setting[2..]);
                }
                send(&mut client, (SETTINGS, ACK, 0), &[]).await?;
            }
            WINDOW_UPDATE => windows[usize::from(stream)] += number(&payload),
            HEADERS => {
                is_asked = true;
                send(&mut client, (HEADERS, END_HEADERS, 1), PAGE_HEADERS).await?;
            }
            PING if windows.contains(&0) => {
                stalls.send_replace((sent, windows[0]));
            }
            _ => {}
        }
        while is_asked && sent < PAGE_BYTES && !windows.contains(&0) {
            let length = FRAME_BYTES.min(PAGE_BYTES - sent).min(windows[0]).min(windows[1]);
            windows = windows.map(|window| window - length);
            sent += length;
            let flags = if sent == PAGE_BYTES { END_STREAM } else { 0 };
            send(&mut client, (DATA, flags, 1), &vec![b'x'; length]).await?;
            if windows.contains(&0) {
                // The client acknowledges it after these bytes.
                send(&mut client, (PING, 0, 0), &[0; 8]).await?;
            }
        }
    }
}

#[tokio::test]
async fn without_memory_an_http2_server_sends_no_more_than_a_window_and_goes_on_when_there_is_some() {
    let config = FetcherConfig { allow_private: true, max_body_bytes: PAGE_BYTES, ..FetcherConfig::default() };
    let (stream_window, concurrency) = (STREAM_WINDOW_BYTES as usize, config.concurrency);
    let profile = Arc::new(RequestProfile::of(&config));
    let mut client = HttpClient::new(&config, Arc::new(SystemClock)).unwrap();
    client.direct = Clients::build(|| Ok(builder(&config, client.hosts.clone()).http2_prior_knowledge())).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let (stalls, mut stalled) = watch::channel((0, 0));
    let server = tokio::spawn(serve(listener, stalls));

    let memory = ByteBudget::new(1 << 20, IntGauge::new("bytes", "in use").unwrap());
    let mut greedy = memory.reservation();
    greedy.grow(memory.bytes()).await;
    // Only one reservation may exceed the budget, and this one does.
    greedy.grow(1).await;
    let mut own = memory.reservation();
    let destination = Destination::Unlocated;
    let request = Request { url, purpose: Purpose::Page, cookie: None, known: None, profile, destination };
    let attempt = client.ask(request, &mut own);
    let release = async {
        let stall = *timeout(Duration::from_secs(10), stalled.wait_for(|(sent, _)| *sent > 0)).await.unwrap().unwrap();
        drop(greedy);
        stall
    };
    let (attempt, (sent, connection_window)) = tokio::join!(attempt, release);
    // The frame is the one that waits for its reservation.
    assert!(sent <= stream_window + FRAME_BYTES, "{sent} bytes were sent");
    assert!(connection_window + sent >= concurrency * stream_window, "{connection_window} bytes for other streams");
    let Body::Read { bytes, truncated } = attempt.result.unwrap().body else { panic!() };
    assert_eq!((bytes.len(), truncated), (PAGE_BYTES, false));
    assert!(own.bytes() >= PAGE_BYTES, "{} bytes are reserved", own.bytes());
    server.abort();
}
