//! The HTTP server: its limits.

use std::{sync::Arc, time::Duration};

use orbweaver_http_server::Limits;
pub use orbweaver_http_server::{ListenError, listen};
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

/// Answers requests until `stop` is cancelled, and those in progress then.
pub async fn serve(listener: TcpListener, api: Arc<Api>, stop: CancellationToken) {
    let open = api.metrics.connections.clone();
    orbweaver_http_server::serve(listener, router(api), LIMITS, Some(open), stop).await;
}
