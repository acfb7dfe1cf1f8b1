//! The HTTP server: connections, their limits and their end.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{api::Api, router::router};

/// Maximum number of concurrent connections; more wait to be accepted.
const CONNECTIONS: u32 = 256;
/// Timeout for the head of a request, and of an idle connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of the head of a request, in bytes: that of a query, and of the headers.
const HEAD_BYTES: usize = 64 << 10;
/// Time after which a connection gets no further request.
const LIFETIME: Duration = Duration::from_mins(10);
/// Time for the request in progress when a connection ends.
const GRACE: Duration = Duration::from_secs(10);
/// Delay before the next accept after a failure, such as exhausted sockets.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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
pub async fn serve(listener: TcpListener, api: Arc<Api>, stop: CancellationToken) {
    let (router, permits) = (router(Arc::clone(&api)), Arc::new(Semaphore::new(CONNECTIONS as usize)));
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
                let (router, api, stop) = (router.clone(), Arc::clone(&api), stop.clone());
                tokio::spawn(async move {
                    api.metrics.connections.inc();
                    connection(stream, router, stop).await;
                    api.metrics.connections.dec();
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
    let _ = timeout(GRACE, permits.acquire_many(CONNECTIONS)).await;
}

async fn connection(stream: TcpStream, router: Router, stop: CancellationToken) {
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES);
    let serving = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        // A client that disconnects or is too slow is not an error of the server.
        _ = serving.as_mut() => return,
        () = stop.cancelled() => {}
        () = sleep(LIFETIME) => {}
    }
    serving.as_mut().graceful_shutdown();
    let _ = timeout(GRACE, serving).await;
}
