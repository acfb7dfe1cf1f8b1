//! HTTP/2 servers that break the protocol, or flood the client.

use super::*;

const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
/// Error code of a stream that is cancelled.
const CANCEL: [u8; 4] = [0, 0, 0, 8];
/// Literal field with an indexed name of the static table (`vary`), added to the dynamic table, whose value follows.
const LITERAL_VARY: u8 = 0x40 | 59;
/// Field of the dynamic table that was added last.
const LAST_ADDED: u8 = 0x80 | 62;

/// Answer of a server: frames that it sends once, and one that it sends again and again.
#[derive(Clone, Default)]
struct Flood {
    once: Vec<(Head, Vec<u8>)>,
    again: Option<(Head, Vec<u8>)>,
}

async fn flood(listener: TcpListener, flood: Flood) -> io::Result<()> {
    let (mut client, _) = listener.accept().await?;
    let mut preface = [0; 24];
    client.read_exact(&mut preface).await?;
    send(&mut client, (SETTINGS, 0, 0), &[]).await?;
    while receive(&mut client).await?.0.0 != HEADERS {}
    for (head, payload) in &flood.once {
        send(&mut client, *head, payload).await?;
    }
    let (mut from, mut to) = client.split();
    let again = async {
        while let Some(((kind, flags, stream), payload)) = &flood.again {
            let [_, high, middle, low] = u32::try_from(payload.len()).unwrap().to_be_bytes();
            let frame = [&[high, middle, low, *kind, *flags, 0, 0, 0, *stream][..], payload].concat();
            to.write_all(&frame.repeat(100)).await?;
        }
        Ok(())
    };
    // The responses of the client are read, so that it is never held up.
    let mut sink = tokio::io::sink();
    tokio::try_join!(again, tokio::io::copy(&mut from, &mut sink)).map(|_| ())
}

/// Returns the failure of a request.
async fn failure(answer: Flood) -> FetchError {
    let short = Duration::from_millis(500);
    let config = FetcherConfig {
        allow_private: true,
        connect_timeout: short,
        headers_timeout: short,
        request_timeout: short,
        ..FetcherConfig::default()
    };
    let mut client = HttpClient::new(&config, Arc::new(SystemClock)).unwrap();
    client.direct = Clients::build(|| Ok(builder(&config, client.hosts.clone()).http2_prior_knowledge())).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let server = tokio::spawn(flood(listener, answer));
    let memory = ByteBudget::new(1 << 20, IntGauge::new("bytes", "in use").unwrap());
    let (profile, destination) = (Arc::new(RequestProfile::of(&config)), Destination::Unlocated);
    let request = Request { url, purpose: Purpose::Page, cookie: None, known: None, profile, destination };
    let mut own = memory.reservation();
    let result = timeout(Duration::from_secs(20), client.ask(request, &mut own)).await.unwrap().result;
    server.abort();
    result.unwrap_err()
}

fn once(frames: &[(Head, &[u8])]) -> Flood {
    Flood { once: frames.iter().map(|(head, payload)| (*head, payload.to_vec())).collect(), again: None }
}

fn then(frames: &[(Head, &[u8])], head: Head, payload: &[u8]) -> Flood {
    Flood { again: Some((head, payload.to_vec())), ..once(frames) }
}

#[tokio::test]
async fn a_server_that_ends_a_stream_or_a_connection_fails_the_request() {
    let headers = ((HEADERS, END_HEADERS, 1), PAGE_HEADERS);
    for (answer, expected) in [
        (once(&[((RST_STREAM, 0, 1), &CANCEL)]), FetchError::Connection),
        (once(&[headers, ((RST_STREAM, 0, 1), &CANCEL)]), FetchError::Body),
        (once(&[((GOAWAY, 0, 0), &[0; 8])]), FetchError::Connection),
        (once(&[((DATA, 0, 1), b"x")]), FetchError::Connection),
        (once(&[((HEADERS, END_HEADERS, 1), &[0x80])]), FetchError::Connection),
        (once(&[((HEADERS, END_HEADERS, 3), PAGE_HEADERS)]), FetchError::Connection),
        (once(&[headers]), FetchError::Timeout),
    ] {
        let frames: Vec<_> = answer.once.iter().map(|(head, _)| *head).collect();
        assert_eq!(failure(answer).await, expected, "{frames:?}");
    }
}

#[tokio::test]
async fn a_flood_of_frames_is_ended_by_a_limit_or_a_deadline() {
    let headers = ((HEADERS, END_HEADERS, 1), PAGE_HEADERS);
    for (answer, expected) in [
        (then(&[((HEADERS, 0, 1), &PAGE_HEADERS[..1])], (CONTINUATION, 0, 1), b"\0\x01x\x01y"), FetchError::Connection),
        (then(&[], (SETTINGS, 0, 0), &[]), FetchError::Timeout),
        (then(&[], (PING, 0, 0), &[0; 8]), FetchError::Timeout),
        (then(&[headers], (DATA, 0, 1), &[]), FetchError::Body),
    ] {
        let again = answer.again.clone().map(|(head, _)| head);
        assert_eq!(failure(answer).await, expected, "{again:?}");
    }
}

#[tokio::test]
async fn headers_that_grow_by_their_table_are_bounded() {
    let field = [&[LITERAL_VARY, 0x7f, 0xa1, 0x1e][..], &[b'x'; 4000]].concat();
    let fields = [PAGE_HEADERS, &field, &[LAST_ADDED; 10_000]].concat();
    assert_eq!(failure(once(&[((HEADERS, END_HEADERS, 1), &fields)])).await, FetchError::Connection);
}
