//! HTTP servers of services: connections, their limits and their end; and the route of metrics.

mod metrics;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
pub use metrics::metrics;
use prometheus::IntGauge;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// Delay before the next accept after a failure, such as exhausted sockets.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Limits of a server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of concurrent connections; more wait to be accepted.
    pub connections: u32,
    /// Timeout for the head of a request, and of an idle connection.
    pub head_timeout: Duration,
    /// Maximum size of the head of a request, in bytes: that of a query, and of the headers.
    pub head_bytes: usize,
    /// Time after which a connection gets no further request.
    pub lifetime: Duration,
    /// Time for the request in progress when a connection ends.
    pub grace: Duration,
}

/// Address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub struct ListenError {
    address: SocketAddr,
    source: std::io::Error,
}

/// Listens on an address; returns the actual one, too.
///
/// # Errors
/// Fails if the address is in use or not one of this machine.
pub async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ListenError> {
    let failed = |source| ListenError { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Answers requests until `stop` is cancelled, and those in progress then. `open` has the number of open connections.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    open: Option<IntGauge>,
    stop: CancellationToken,
) {
    let permits = Arc::new(Semaphore::new(limits.connections as usize));
    loop {
        let next = async {
            // The semaphore is never closed; if it were, connections would be unlimited rather than refused.
            let permit = permits.clone().acquire_owned().await.ok();
            (listener.accept().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            () = stop.cancelled() => break,
            next = next => next,
        };
        match accepted {
            Ok((stream, _)) => {
                let (router, open, stop) = (router.clone(), open.clone(), stop.clone());
                tokio::spawn(async move {
                    open.as_ref().inspect(|open| open.inc());
                    connection(stream, router, limits, stop).await;
                    open.as_ref().inspect(|open| open.dec());
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    // Each connection ends within its grace.
    let _ = timeout(limits.grace, permits.acquire_many(limits.connections)).await;
}

async fn connection(stream: TcpStream, router: Router, limits: Limits, stop: CancellationToken) {
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.head_timeout).max_buf_size(limits.head_bytes);
    let serving = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        // A client that disconnects or is too slow is not an error of the server.
        _ = serving.as_mut() => return,
        () = stop.cancelled() => {}
        () = sleep(limits.lifetime) => {}
    }
    serving.as_mut().graceful_shutdown();
    let _ = timeout(limits.grace, serving).await;
}
