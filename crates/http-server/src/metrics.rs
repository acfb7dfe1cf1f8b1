//! The route of metrics.

use axum::{
    Router,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use prometheus::{Registry, TextEncoder};

/// Returns the route `/metrics` with the metrics of a registry, in the text format of Prometheus.
pub fn metrics(registry: Registry) -> Router {
    Router::new().route("/metrics", get(move || text(registry.clone())))
}

async fn text(registry: Registry) -> Response {
    // Collectors may take long or read /proc.
    let text = tokio::task::spawn_blocking(move || TextEncoder::new().encode_to_string(&registry.gather())).await;
    match text {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "collecting the metrics panicked").into_response(),
    }
}
