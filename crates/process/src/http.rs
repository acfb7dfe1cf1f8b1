//! HTTP server for probes and metrics.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use orbweaver_http_server::Limits;
use prometheus::Registry;
use tokio::{net::TcpListener, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::health::{Health, ProbeResult};

const LIMITS: Limits = Limits {
    connections: 64,
    head_timeout: Duration::from_secs(5),
    head_bytes: 16 << 10,
    lifetime: Duration::from_mins(2),
    grace: Duration::from_secs(1),
};

pub(crate) async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), String> {
    orbweaver_http_server::listen(address).await.map_err(|error| format!("http.listen: {error}"))
}

/// Serves requests until `stop` is cancelled.
pub(crate) async fn serve(listener: TcpListener, health: Arc<Health>, registry: Registry, stop: CancellationToken) {
    orbweaver_http_server::serve(listener, router(health, registry), LIMITS, stop).await;
}

fn router(health: Arc<Health>, registry: Registry) -> Router {
    Router::new()
        .route("/livez", get(|State(health): State<Arc<Health>>| async move { probe(&health.live(Instant::now())) }))
        .route("/readyz", get(|State(health): State<Arc<Health>>| async move { probe(&health.ready(Instant::now())) }))
        .with_state(health)
        .merge(orbweaver_http_server::metrics(registry))
}

fn probe(verdict: &ProbeResult) -> Response {
    let status = if verdict.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = serde_json::to_string(verdict).unwrap_or_default();
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
        time::timeout,
    };

    use super::*;
    use crate::health::{LOG, Reachability};

    async fn started() -> (SocketAddr, Arc<Health>, CancellationToken) {
        let health = Arc::new(Health::new(Duration::from_secs(60), true, false));
        let registry = Registry::new();
        let counter = prometheus::IntCounter::new("orbweaver_test_total", "a counter").unwrap();
        registry.register(Box::new(counter)).unwrap();
        let (listener, address) = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(serve(listener, health.clone(), registry, stop.clone()));
        (address, health, stop)
    }

    async fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn probes_say_yes_and_no_with_reasons_and_metrics_are_text() {
        let (address, health, _stop) = started().await;
        assert!(ask(address, "/livez").await.starts_with("HTTP/1.1 200"));
        let answer = ask(address, "/readyz").await;
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("it is starting"), "{answer}");
        health.joins();
        health.checked(LOG, Reachability::Yes);
        assert!(ask(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        health.checked(LOG, Reachability::No("no broker answers".to_owned()));
        let answer = ask(address, "/readyz").await;
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains(r#"{"what":"log","why":"no broker answers"}"#));
        let answer = ask(address, "/metrics").await;
        assert!(answer.contains("text/plain") && answer.contains("orbweaver_test_total 0"), "{answer}");
        assert!(ask(address, "/other").await.starts_with("HTTP/1.1 404"));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_probe_by_the_program_has_the_answer_of_the_service() {
        let (address, health, _stop) = started().await;
        let probed = || tokio::task::spawn_blocking(move || crate::probe::readiness(address));
        let (reason, line) = probed().await.unwrap();
        assert!(reason == crate::ExitReason::TempFail && line.contains("it is starting"), "{line}");
        health.joins();
        health.checked(LOG, Reachability::Yes);
        assert_eq!(probed().await.unwrap().0, crate::ExitReason::Success);
    }

    #[tokio::test]
    async fn an_address_that_is_taken_is_named() {
        let (address, _, _stop) = started().await;
        let error = bind(address).await.unwrap_err();
        assert!(error.contains(&address.to_string()) && error.contains("http.listen"), "{error}");
    }

    #[tokio::test]
    async fn clients_that_say_nothing_are_let_go_and_others_are_served_then() {
        let (address, _, _stop) = started().await;
        let mut silent = vec![];
        for _ in 0..LIMITS.connections {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        assert!(timeout(LIMITS.head_timeout * 4, ask(address, "/livez")).await.unwrap().starts_with("HTTP/1.1 200"));
    }
}
