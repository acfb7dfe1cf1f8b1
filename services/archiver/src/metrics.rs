//! Names of the metrics, and their alert conditions.

use prometheus::{
    Histogram, IntCounter, IntCounterVec, IntGauge, Registry, register_histogram_with_registry as histogram,
    register_int_counter_vec_with_registry as counters, register_int_counter_with_registry as counter,
    register_int_gauge_with_registry as gauge,
};

/// Records by result: `archived` (in a durable file), `passed_over` (without a capture, since their crawls are not
/// archived), `rejected`. Alert: any steady rate of `rejected`, since each is a response lost to the dead letters; no
/// increase of `archived` for two hours while archived crawls run.
pub const RESPONSES: &str = "orbweaver_archiver_responses_total";
/// Bytes written to files, including files that are repeated after a crash. Alert: none; the rate shows when the disk
/// will be full.
pub const FILE_BYTES: &str = "orbweaver_archiver_file_bytes_total";
/// Files closed, with their entries in `crawl.archive`. Alert: far more than one per `archiver.max_file_bytes` for an
/// hour, while open files are at `archiver.max_open_files`: files are closed too early, and remain small.
pub const FILES: &str = "orbweaver_archiver_files_total";
/// Open files. Alert: at `archiver.max_open_files` for an hour: raise that limit.
pub const OPEN_FILES: &str = "orbweaver_archiver_open_files";
/// Time per batch of responses that is written to one file. Alert: a 99th percentile above ten seconds: the disk is too
/// slow.
pub const WRITE_SECONDS: &str = "orbweaver_archiver_write_seconds";

/// Time per uploaded file, also of failed uploads. Alert: a 99th percentile above five minutes: responses remain in
/// `crawl.pages` meanwhile.
pub const UPLOAD_SECONDS: &str = "orbweaver_archiver_upload_seconds";

/// Metrics of the archiver, shared by stage and worker.
#[derive(Debug, Clone)]
pub struct ArchiverMetrics {
    pub(crate) responses: IntCounterVec,
    pub(crate) file_bytes: IntCounter,
    pub(crate) files: IntCounter,
    pub(crate) open_files: IntGauge,
    pub(crate) write_seconds: Histogram,
    pub(crate) upload_seconds: Histogram,
}

impl ArchiverMetrics {
    /// Creates the metrics and registers them.
    ///
    /// # Errors
    /// If one of them is registered already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        // 64 µs to about a minute.
        let buckets = prometheus::exponential_buckets(64e-6, 4.0, 11)?;
        // 10 ms to about three hours.
        let uploads = prometheus::exponential_buckets(0.01, 4.0, 11)?;
        let metrics = Self {
            responses: counters!(RESPONSES, "Records by result", &["result"], registry)?,
            file_bytes: counter!(FILE_BYTES, "Bytes written to files", registry)?,
            files: counter!(FILES, "Files closed", registry)?,
            open_files: gauge!(OPEN_FILES, "Open files", registry)?,
            write_seconds: histogram!(WRITE_SECONDS, "Time per batch of responses of one file", buckets, registry)?,
            upload_seconds: histogram!(UPLOAD_SECONDS, "Time per uploaded file", uploads, registry)?,
        };
        // A sum over results that have not yet occurred should be 0, not absent.
        ["archived", "passed_over", "rejected"]
            .iter()
            .for_each(|result| drop(metrics.responses.with_label_values(&[result])));
        Ok(metrics)
    }

    pub(crate) fn count(&self, result: &str, responses: usize) {
        self.responses.with_label_values(&[result]).inc_by(u64::try_from(responses).unwrap_or(u64::MAX));
    }
}
