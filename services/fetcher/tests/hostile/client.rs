//! The client of the fetcher, and its outcomes as text.

use std::{sync::Arc, time::Duration};

use orbweaver_fetcher::{
    Attempt, Body, Client, Destination, FetchError, FetcherConfig, HttpClient, HttpResponse, Purpose, Request,
    RequestProfile,
};
use orbweaver_settings::Section as _;
use orbweaver_stage::{ByteBudget, SystemClock};
use orbweaver_url::Url;
use prometheus::IntGauge;

use super::server::{HOSTILE, Server};

/// Deadline for a whole test request, far above the timeouts of the configuration.
const DEADLINE: Duration = Duration::from_secs(20);
/// Interval between the requests of a site.
const INTERVAL: Duration = Duration::from_millis(20);

/// Decoded bytes that are read of a body.
pub(crate) const MAX_BODY: usize = 64 << 10;

pub(crate) fn config() -> FetcherConfig {
    FetcherConfig {
        user_agent: "Testbot/1.0".into(),
        allow_private: true,
        connect_timeout: Duration::from_secs(1),
        headers_timeout: Duration::from_secs(1),
        request_timeout: Duration::from_millis(1500),
        max_body_bytes: MAX_BODY,
        ..FetcherConfig::default()
    }
}

/// A client with its profile.
pub(crate) struct Asker {
    client: HttpClient,
    profile: Arc<RequestProfile>,
    purpose: Purpose,
}

/// Result of a request, with the memory that it reserved at most.
pub(crate) struct Asked {
    pub(crate) attempt: Attempt,
    pub(crate) reserved: usize,
}

impl Asker {
    /// Creates a client whose requests read bodies of any type.
    pub(crate) fn new(config: &FetcherConfig) -> Self {
        config.check().unwrap();
        let profile = Arc::new(RequestProfile::of(config));
        let client = HttpClient::new(config, Arc::new(SystemClock)).unwrap();
        Self { client, profile, purpose: Purpose::Requisite }
    }

    pub(crate) fn with(self, purpose: Purpose) -> Self {
        Self { purpose, ..self }
    }

    /// Sends a request, which must end by its own timeouts.
    pub(crate) async fn ask(&self, url: &str) -> Asked {
        let request = Request {
            url: Url::parse(url).unwrap(),
            purpose: self.purpose,
            cookie: None,
            known: None,
            profile: Arc::clone(&self.profile),
            destination: Destination::Unlocated,
        };
        let memory = ByteBudget::new(64 << 20, IntGauge::new("bytes", "in use").unwrap());
        let mut reservation = memory.reservation();
        let attempt = tokio::time::timeout(DEADLINE, self.client.ask(request, &mut reservation)).await.unwrap();
        Asked { attempt, reserved: reservation.bytes() }
    }

    /// Sends a request to the hostile path, and then one whose answer must be its own: bytes that follow the first response
    /// have arrived by then, since requests to a site are an interval apart.
    pub(crate) async fn ask_before_next(&self, server: &Server) -> Asked {
        let asked = self.ask(&server.url(HOSTILE)).await;
        server.played().await;
        tokio::time::sleep(INTERVAL).await;
        self.assert_serves(server, "/next").await;
        asked
    }

    /// Sends a request to a path that is not hostile, whose answer must be its own.
    pub(crate) async fn assert_serves(&self, server: &Server, path: &str) {
        let answer = self.ask(&server.url(path)).await.attempt.result.unwrap();
        assert_eq!(answer.body, Body::Read { bytes: format!("<p>{path}").into_bytes(), truncated: false });
    }
}

impl Asked {
    pub(crate) fn answer(self) -> HttpResponse {
        self.attempt.result.unwrap()
    }

    pub(crate) fn failure(self) -> FetchError {
        self.attempt.result.unwrap_err()
    }

    /// Returns the outcome as text.
    pub(crate) fn text(&self) -> String {
        match &self.attempt.result {
            Err(failure) => format!("failed: {}", failure.reason()),
            Ok(HttpResponse { status, body: Body::Read { bytes, truncated }, .. }) => {
                format!("{status}, {} bytes{}", bytes.len(), if *truncated { ", cut" } else { "" })
            }
            Ok(HttpResponse { status, body, .. }) => format!("{status}, {body:?}").to_lowercase(),
        }
    }
}
