//! HTTP servers of services: connections, their limits and their end; and the route of metrics.

mod metrics;
mod tls;

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
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

pub use self::tls::{Tls, TlsError};

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

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct Settings {
    pub limits: Limits,
    /// Number of open connections.
    pub open: Option<IntGauge>,
    /// `None`: connections are not encrypted.
    pub tls: Option<Arc<Tls>>,
}

impl From<Limits> for Settings {
    fn from(limits: Limits) -> Self {
        Self { limits, open: None, tls: None }
    }
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

/// Answers requests until `stop` is cancelled, and those in progress then.
pub async fn serve(listener: TcpListener, router: Router, settings: impl Into<Settings>, stop: CancellationToken) {
    let Settings { limits, open, tls } = settings.into();
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
                let (router, open, tls, stop) = (router.clone(), open.clone(), tls.clone(), stop.clone());
                tokio::spawn(async move {
                    open.as_ref().inspect(|open| open.inc());
                    match tls {
                        None => connection(stream, router, limits, stop).await,
                        Some(tls) => encrypted(stream, &tls, router, limits, stop).await,
                    }
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

/// Answers the requests of a connection after its handshake.
async fn encrypted(stream: TcpStream, tls: &Tls, router: Router, limits: Limits, stop: CancellationToken) {
    let handshake = timeout(limits.head_timeout, tls.acceptor().accept(stream));
    let handshake = tokio::select! {
        handshake = handshake => handshake,
        () = stop.cancelled() => return,
    };
    // A client that does not trust the certificate, or is too slow, is not an error of the server.
    if let Ok(Ok(stream)) = handshake {
        connection(stream, router, limits, stop).await;
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
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
