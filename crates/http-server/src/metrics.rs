//! The route of metrics.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{MethodRouter, get},
};
use prometheus::{Registry, TextEncoder};

/// Returns a route with the metrics of a registry, in the text format of Prometheus.
pub fn metrics<S: Clone + Send + Sync + 'static>(registry: Registry) -> MethodRouter<S> {
    get(move || text(registry.clone()))
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
