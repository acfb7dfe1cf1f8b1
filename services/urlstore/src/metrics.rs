//! Names of the metrics, and their alert conditions.

use std::time::Duration;

use prometheus::{
    HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry, register_histogram_vec_with_registry as histograms,
    register_int_counter_vec_with_registry as counters, register_int_counter_with_registry as counter,
    register_int_gauge_with_registry as gauge,
};

use crate::problem::Kind;

/// Requests by route (`other`: any other path) and status. Alert: `503` above one request in a hundred for minutes, since the
/// store or the archive is unavailable or too slow; any `500`, since a stored value is damaged.
pub const REQUESTS: &str = "orbweaver_urlstore_requests_total";
/// Time from the head of a request to its answer, without sending that, by route. Alert: a 99th percentile of `/v1/url` above
/// 100 ms for minutes: the store is slow, or requests wait for others (`orbweaver_urlstore_in_flight_requests`).
pub const SECONDS: &str = "orbweaver_urlstore_request_seconds";
/// Requests that are being answered, including those that wait. Alert: at `urlstore.concurrency` for minutes: requests wait.
pub const IN_FLIGHT: &str = "orbweaver_urlstore_in_flight_requests";
/// Open connections. Alert: at 256 for minutes: clients wait for others to disconnect.
pub const CONNECTIONS: &str = "orbweaver_urlstore_connections";
/// URLs that were looked up for `/v1/urls`. Alert: none.
pub const BATCH_URLS: &str = "orbweaver_urlstore_batch_urls_total";
/// Bytes of contents and records that were read from the archive. Alert: none.
pub const CONTENT_BYTES: &str = "orbweaver_urlstore_content_bytes_total";

/// Label value of all paths that are no route.
const OTHER: &str = "other";

#[derive(Debug, Clone)]
pub struct UrlstoreMetrics {
    pub(crate) requests: IntCounterVec,
    pub(crate) seconds: HistogramVec,
    pub(crate) in_flight: IntGauge,
    pub(crate) connections: IntGauge,
    pub(crate) batch_urls: IntCounter,
    pub(crate) content_bytes: IntCounter,
}

impl UrlstoreMetrics {
    /// Creates the metrics and registers them.
    ///
    /// # Errors
    /// Fails if the registry has such metrics.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        // 64 µs to about a minute.
        let buckets = prometheus::exponential_buckets(64e-6, 4.0, 11)?;
        let metrics = Self {
            requests: counters!(REQUESTS, "Requests by route and status", &["route", "status"], registry)?,
            seconds: histograms!(SECONDS, "Time per request", &["route"], buckets, registry)?,
            in_flight: gauge!(IN_FLIGHT, "Requests that are being answered", registry)?,
            connections: gauge!(CONNECTIONS, "Open connections", registry)?,
            batch_urls: counter!(BATCH_URLS, "URLs looked up in batches", registry)?,
            content_bytes: counter!(CONTENT_BYTES, "Bytes read from the archive", registry)?,
        };
        // A sum over results that have not yet occurred should be 0, not absent.
        for route in crate::router::PATHS {
            for status in [200, Kind::Damaged.status(), Kind::Unavailable.status()] {
                metrics.requests.with_label_values(&[route, &status.to_string()]);
            }
            metrics.seconds.with_label_values(&[route]);
        }
        Ok(metrics)
    }

    /// Counts an answer to a request for this path.
    pub(crate) fn answered(&self, path: &str, status: u16, time: Duration) {
        let route = crate::router::PATHS.into_iter().find(|route| *route == path).unwrap_or(OTHER);
        self.requests.with_label_values(&[route, &status.to_string()]).inc();
        self.seconds.with_label_values(&[route]).observe(time.as_secs_f64());
    }
}
