//! Metrics of stores. Names are constants; each documents when to alert.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use crate::StoreError;

/// Latency of store requests, by operation. Alert when the 99th percentile of `write` exceeds one second.
pub const REQUEST_SECONDS: &str = "orbweaver_store_request_seconds";
/// Failed requests, by operation and kind: `failed` may be transient, `refused` and `damaged` are permanent. Alert on
/// any `refused` or `damaged`: it has ended a stage.
pub const ERRORS: &str = "orbweaver_store_errors_total";
/// Rows written and acknowledged, by table: `pages`, `links`, `redirects`, `robots`. Alert: none.
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
const OPERATIONS: [&str; 6] = ["write", "page", "history", "links", "redirect", "robots"];
const KINDS: [&str; 3] = ["failed", "refused", "damaged"];
const TABLES: [&str; 4] = ["pages", "links", "redirects", "robots"];
const CQL_KINDS: [&str; 7] =
    ["connection", "timeout", "unavailable", "overloaded", "server", "unauthorized", "invalid"];

/// Metrics of the stores of a process. Cheap to share.
#[derive(Debug, Clone)]
pub struct StoreMetrics {
    request: HistogramVec,
    errors: IntCounterVec,
    rows: IntCounterVec,
    retries: IntCounter,
    failing: IntGauge,
    cql_errors: IntCounterVec,
    cql_sessions_renewed: IntCounter,
}

impl StoreMetrics {
    /// Registers the metrics, once per registry.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, labels: &[&str]| IntCounterVec::new(Opts::new(name, help), labels);
        let metrics = Self {
            request: HistogramVec::new(
                HistogramOpts::new(REQUEST_SECONDS, "Latency of store requests").buckets(BUCKETS.to_vec()),
                &["operation"],
            )?,
            errors: counter(ERRORS, "Failed store requests", &["operation", "kind"])?,
            rows: counter(ROWS_WRITTEN, "Rows written and acknowledged", &["table"])?,
            retries: IntCounter::new(RETRIES, "Retried writes")?,
            failing: IntGauge::new(FAILING, "1 while every store request fails")?,
            cql_errors: counter(CQL_ERRORS, "Failed requests to the CQL servers", &["kind"])?,
            cql_sessions_renewed: IntCounter::new(CQL_SESSIONS_RENEWED, "Failed CQL sessions that were replaced")?,
        };
        let all: [Box<dyn Collector>; 7] = [
            Box::new(metrics.request.clone()),
            Box::new(metrics.errors.clone()),
            Box::new(metrics.rows.clone()),
            Box::new(metrics.retries.clone()),
            Box::new(metrics.failing.clone()),
            Box::new(metrics.cql_errors.clone()),
            Box::new(metrics.cql_sessions_renewed.clone()),
        ];
        all.into_iter().try_for_each(|collector| registry.register(collector))?;
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

    pub(crate) fn answered(&self, operation: &str, after: Duration) {
        self.request.with_label_values(&[operation]).observe(after.as_secs_f64());
    }

    pub(crate) fn failed(&self, operation: &str, error: &StoreError) {
        let kind = match error {
            StoreError::Failed(_) => "failed",
            StoreError::Refused(_) => "refused",
            StoreError::Damaged { .. } => "damaged",
        };
        self.errors.with_label_values(&[operation, kind]).inc();
    }

    pub(crate) fn failing(&self, failing: bool) {
        self.failing.set(failing.into());
    }

    pub(crate) fn wrote(&self, table: &str, rows: u64) {
        if rows > 0 {
            self.rows.with_label_values(&[table]).inc_by(rows);
        }
    }

    pub(crate) fn retried(&self) {
        self.retries.inc();
    }

    #[cfg(feature = "cql")]
    pub(crate) fn cql_failed(&self, kind: &str) {
        self.cql_errors.with_label_values(&[kind]).inc();
    }

    #[cfg(feature = "cql")]
    pub(crate) fn cql_session_renewed(&self) {
        self.cql_sessions_renewed.inc();
    }
}
