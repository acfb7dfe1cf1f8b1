//! The HTTP server: its limits.

use std::{sync::Arc, time::Duration};

use orbweaver_http_server::{Limits, Settings};
pub use orbweaver_http_server::{ListenError, Tls, TlsError, listen};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{api::Api, router::router};

const LIMITS: Limits = Limits {
    connections: 256,
    head_timeout: Duration::from_secs(10),
    head_bytes: 64 << 10,
    lifetime: Duration::from_mins(10),
    grace: Duration::from_secs(10),
};

/// Answers requests until `stop` is cancelled, and those in progress then. Without `tls`, connections are not encrypted.
pub async fn serve(listener: TcpListener, api: Arc<Api>, tls: Option<Arc<Tls>>, stop: CancellationToken) {
    let open = Some(api.metrics.connections.clone());
    orbweaver_http_server::serve(listener, router(api), Settings { limits: LIMITS, open, tls }, stop).await;
}
