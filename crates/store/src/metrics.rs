//! Metrics of stores. Names are constants; each documents when to alert.

use prometheus::{
    HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry, histogram_opts,
    register_histogram_vec_with_registry as histograms, register_int_counter_vec_with_registry as counters,
    register_int_counter_with_registry as counter, register_int_gauge_with_registry as gauge,
};

use crate::StoreError;

/// Latency of store requests, by operation. Alert when the 99th percentile of `write` exceeds one second.
pub const REQUEST_SECONDS: &str = "orbweaver_store_request_seconds";
/// Failed requests, by operation and kind: `failed` may be transient, `refused` and `damaged` are permanent. Alert on
/// any `refused` or `damaged`: it has ended a stage.
pub const ERRORS: &str = "orbweaver_store_errors_total";
/// Rows written and acknowledged, by table: `pages`, `links`, `redirects`, `robots`, `captures`. Alert: none.
pub const ROWS_WRITTEN: &str = "orbweaver_store_rows_written_total";
/// Retried writes. Alert on a steady rate: the store is too slow or unavailable.
pub const RETRIES: &str = "orbweaver_store_retries_total";
/// 1 while every request fails. Alert when it is 1 for one minute.
pub const FAILING: &str = "orbweaver_store_failing";
/// Failed requests to the CQL servers, by kind: `connection`, `timeout`, `unavailable`, `overloaded`, `server`,
/// `unauthorized`, `invalid`. Alert on any of the last two, and on a steady rate of the others.
pub const CQL_ERRORS: &str = "orbweaver_store_cql_errors_total";
/// Sessions replaced because they did not reconnect to their servers. Alert on a steady rate.
pub const CQL_SESSIONS_RENEWED: &str = "orbweaver_store_cql_sessions_renewed_total";

/// From 50 µs (a row of the embedded store) to 30 seconds (unavailable servers).
const BUCKETS: [f64; 14] =
    [0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0, 10.0, 30.0];

/// Label values.
const OPERATIONS: [&str; 10] =
    ["write", "page", "history", "links", "canonical", "redirect", "robots", "captures", "content", "site_pages"];
const KINDS: [&str; 3] = ["failed", "refused", "damaged"];
const TABLES: [&str; 5] = ["pages", "links", "redirects", "robots", "captures"];
const CQL_KINDS: [&str; 7] =
    ["connection", "timeout", "unavailable", "overloaded", "server", "unauthorized", "invalid"];

/// Metrics of the stores of a process. Cheap to share.
#[derive(Debug, Clone)]
pub struct StoreMetrics {
    pub(crate) request: HistogramVec,
    errors: IntCounterVec,
    pub(crate) rows: IntCounterVec,
    pub(crate) retries: IntCounter,
    pub(crate) failing: IntGauge,
    pub(crate) cql_errors: IntCounterVec,
    #[cfg_attr(not(feature = "cql"), allow(dead_code, reason = "only the store on CQL has sessions"))]
    pub(crate) cql_sessions_renewed: IntCounter,
}

impl StoreMetrics {
    /// Registers the metrics, once per registry.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let request = histogram_opts!(REQUEST_SECONDS, "Latency of store requests", BUCKETS.to_vec());
        let metrics = Self {
            request: histograms!(request, &["operation"], registry)?,
            errors: counters!(ERRORS, "Failed store requests", &["operation", "kind"], registry)?,
            rows: counters!(ROWS_WRITTEN, "Rows written and acknowledged", &["table"], registry)?,
            retries: counter!(RETRIES, "Retried writes", registry)?,
            failing: gauge!(FAILING, "1 while every store request fails", registry)?,
            cql_errors: counters!(CQL_ERRORS, "Failed requests to the CQL servers", &["kind"], registry)?,
            cql_sessions_renewed: counter!(CQL_SESSIONS_RENEWED, "Failed CQL sessions that were replaced", registry)?,
        };
        metrics.count_zero();
        Ok(metrics)
    }

    /// Initializes the counters of all labels at 0, so that sums are 0 instead of absent before the first event.
    fn count_zero(&self) {
        for operation in OPERATIONS {
            KINDS.iter().for_each(|kind| drop(self.errors.with_label_values(&[operation, kind])));
        }
        TABLES.iter().for_each(|table| drop(self.rows.with_label_values(&[table])));
        CQL_KINDS.iter().for_each(|kind| drop(self.cql_errors.with_label_values(&[kind])));
    }

    pub(crate) fn failed(&self, operation: &str, error: &StoreError) {
        let kind = match error {
            StoreError::Failed(_) => "failed",
            StoreError::Refused(_) => "refused",
            StoreError::Damaged { .. } => "damaged",
        };
        self.errors.with_label_values(&[operation, kind]).inc();
    }
}
