//! Measurements of a request.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use reqwest::ClientBuilder;
use tokio::{task_local, time::Instant};
use tower::{layer::layer_fn, util::MapFuture};

/// Measurements of a request, as far as it came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measured {
    /// Bytes of the body that were received, before they were decoded; without the framing of HTTP.
    pub received_bytes: u64,
    /// Duration of the lookup of the host, if this request is the first after it.
    pub lookup: Option<Duration>,
    /// Duration of connecting with TLS, if a connection was made for this request.
    pub connect: Option<Duration>,
}

impl Measured {
    /// Returns a duration in milliseconds.
    pub(crate) fn millis(duration: Duration) -> u64 {
        u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
    }
}

/// Measurements of a request in flight, to which its parts add. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Meters(Arc<Mutex<Measured>>);

task_local! {
    /// Measurements of the request that the task sends.
    static SENT: Meters;
}

impl Meters {
    fn lock(&self) -> MutexGuard<'_, Measured> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the measurements so far.
    pub(super) fn so_far(&self) -> Measured {
        *self.lock()
    }

    pub(super) fn add_lookup(&self, took: Option<Duration>) {
        self.lock().lookup = took;
    }

    pub(super) fn add_bytes(&self, bytes: usize) {
        self.lock().received_bytes += bytes as u64;
    }

    /// Sends a request in the task that polls the result.
    pub(super) async fn sending<R>(&self, request: impl Future<Output = R>) -> R {
        SENT.scope(self.clone(), request).await
    }
}

/// Measures the connections of a client for the requests that make them.
pub(super) fn measuring(builder: ClientBuilder) -> ClientBuilder {
    builder.connector_layer(layer_fn(|connector| MapFuture::new(connector, timed)))
}

/// Returns the connection, and adds its duration to the request in whose task it is complete. A client that gets another
/// connection first sends the request on that one, and continues to connect in a task of its own.
async fn timed<C, E>(connecting: impl Future<Output = Result<C, E>>) -> Result<C, E> {
    let started = Instant::now();
    let connection = connecting.await?;
    // Outside of a request there is none to add it to.
    let _ = SENT.try_with(|meters| meters.lock().connect = Some(started.elapsed()));
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};
    use orbweaver_messages::FetchProfile;
    use orbweaver_stage::{ByteBudget, SystemClock};
    use orbweaver_url::Url;
    use prometheus::IntGauge;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use crate::{
        Attempt, Client as _, Destination, FetchError, FetcherConfig, HttpClient, Purpose, Request, RequestProfile,
    };

    /// Sends requests of an archived crawl to a server that answers each with these bytes, and after the last one closes the
    /// connection.
    async fn ask<const N: usize>(response: Vec<u8>) -> [Attempt; N] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            for _ in 0..N {
                let mut head = vec![];
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                stream.write_all(&response).await.unwrap();
            }
        });
        let config = FetcherConfig { allow_private: true, ..FetcherConfig::default() };
        let client = HttpClient::new(&config, std::sync::Arc::new(SystemClock)).unwrap();
        let archived = FetchProfile { archive: Some(true), ..FetchProfile::default() };
        let request = Request {
            url: Url::parse(&format!("http://localhost:{port}/")).unwrap(),
            purpose: Purpose::Page,
            cookie: None,
            known: None,
            profile: RequestProfile::of_crawl(&config, &archived).into(),
            destination: Destination::Unlocated,
        };
        let memory = ByteBudget::new(64 << 20, IntGauge::new("bytes", "in use").unwrap());
        let mut attempts = vec![];
        for _ in 0..N {
            attempts.push(client.ask(request.clone(), &mut memory.reservation()).await);
        }
        server.await.unwrap();
        attempts.try_into().unwrap()
    }

    fn gzip(body: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(vec![], Compression::default());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    }

    #[tokio::test]
    async fn the_first_request_to_a_host_looks_it_up_and_connects_and_the_next_one_has_its_connection() {
        let attempts = ask::<2>(b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nnope!".to_vec()).await;
        let has = attempts.each_ref().map(|Attempt { measured, .. }| (measured.lookup, measured.connect));
        assert_eq!(has.map(|(lookup, connect)| (lookup.is_some(), connect.is_some())), [(true, true), (false, false)]);
        for attempt in attempts {
            let capture = attempt.result.unwrap().capture.unwrap();
            let expected =
                [attempt.measured.lookup, attempt.measured.connect].map(|took| took.map(super::Measured::millis));
            assert_eq!([capture.lookup_ms, capture.connect_ms], expected);
            assert_eq!((attempt.measured.received_bytes, capture.content_length), (5, None));
        }
    }

    #[tokio::test]
    async fn a_decoded_body_keeps_its_codings_and_its_sizes_as_received() {
        let body = gzip(&gzip(&b"<p>hello".repeat(1000)));
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n", body.len());
        let head = format!("{head}Content-Encoding: X-GZIP\r\nContent-Encoding: gzip\r\n\r\n");
        for attempt in ask::<2>([head.as_bytes(), &body].concat()).await {
            let answer = attempt.result.unwrap();
            let length = Some(body.len() as u64);
            assert_eq!((answer.content_encoding.as_deref(), answer.encoded_bytes), (Some("gzip, gzip"), length));
            assert_eq!(
                (answer.capture.unwrap().content_length, Some(attempt.measured.received_bytes)),
                (length, length)
            );
            assert!(!answer.headers.iter().any(|(name, _)| name == "content-encoding" || name == "content-length"));
        }
    }

    #[tokio::test]
    async fn a_connection_that_is_complete_outside_of_a_request_belongs_to_none() {
        let connecting = || super::timed(std::future::ready(Ok::<_, ()>(())));
        let meters = super::Meters::default();
        meters.sending(async { tokio::spawn(connecting()).await.unwrap() }).await.unwrap();
        assert_eq!(meters.so_far().connect, None);
        meters.sending(connecting()).await.unwrap();
        assert!(meters.so_far().connect.is_some());
    }

    #[tokio::test]
    async fn the_bytes_of_a_body_that_breaks_off_are_counted() {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n";
        let [attempt] = ask(format!("{head}5\r\nhello\r\n").into_bytes()).await;
        assert_eq!((attempt.result.unwrap_err(), attempt.measured.received_bytes), (FetchError::Body, 5));
    }
}
