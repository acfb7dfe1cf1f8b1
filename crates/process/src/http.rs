//! HTTP server for probes and metrics.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use prometheus::{Registry, TextEncoder};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::health::{Health, ProbeResult};

/// Maximum number of concurrent connections; more wait to be accepted.
const CONNECTIONS: usize = 64;
/// Timeout for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for a connection with all its requests.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(120);
/// Delay before the next accept after a failure, such as exhausted sockets.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// State of the routes.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) health: Arc<Health>,
    pub(crate) registry: Registry,
}

pub(crate) async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), String> {
    let failed = |error: std::io::Error| format!("http.listen = {address}: cannot listen on this address: {error}");
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Serves requests until `stop` is cancelled. Open connections are not awaited.
pub(crate) async fn serve(listener: TcpListener, served: Served, stop: CancellationToken) {
    let router = router(served);
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let next = async {
            // The semaphore is never closed; if it were, connections would be unlimited rather than refused.
            let permit = permits.clone().acquire_owned().await.ok();
            (listener.accept().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            () = stop.cancelled() => return,
            next = next => next,
        };
        match accepted {
            Ok((stream, _)) => {
                let router = router.clone();
                tokio::spawn(async move {
                    connection(stream, router).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, router: Router) {
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(16 << 10);
    let serving = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // A client that disconnects or is too slow is not an error of the server.
    let _ = timeout(CONNECTION_TIMEOUT, serving).await;
}

fn router(served: Served) -> Router {
    Router::new()
        .route("/livez", get(|State(served): State<Served>| async move { probe(&served.health.live(Instant::now())) }))
        .route(
            "/readyz",
            get(|State(served): State<Served>| async move { probe(&served.health.ready(Instant::now())) }),
        )
        .route("/metrics", get(metrics))
        .with_state(served)
}

fn probe(verdict: &ProbeResult) -> Response {
    let status = if verdict.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = serde_json::to_string(verdict).unwrap_or_default();
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

async fn metrics(State(served): State<Served>) -> Response {
    // Collectors may take long or read /proc.
    let text =
        tokio::task::spawn_blocking(move || TextEncoder::new().encode_to_string(&served.registry.gather())).await;
    match text {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "collecting the metrics panicked").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::health::{LOG, Reachability};

    async fn started() -> (SocketAddr, Arc<Health>, CancellationToken) {
        let health = Arc::new(Health::new(Duration::from_secs(60), true, false));
        let registry = Registry::new();
        let counter = prometheus::IntCounter::new("orbweaver_test_total", "a counter").unwrap();
        registry.register(Box::new(counter)).unwrap();
        let (listener, address) = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(serve(listener, Served { health: health.clone(), registry }, stop.clone()));
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
        for _ in 0..CONNECTIONS {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        assert!(timeout(HEAD_TIMEOUT * 4, ask(address, "/livez")).await.unwrap().starts_with("HTTP/1.1 200"));
    }
}
