//! Results of a replay.

use serde::Serialize;

/// Figures of a replay.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Report {
    /// URLs processed, in all runs of this replay.
    pub(super) urls: u64,
    /// Distinct URLs among them.
    pub(super) distinct: u64,
    /// Share of correct decisions.
    pub(super) accuracy: f64,
    /// New URLs that were not admitted: lost.
    pub(super) false_positives: u64,
    /// Repeats that were admitted.
    pub(super) false_negatives: u64,
    /// URLs per second in this run, from the first batch to the last commit.
    pub(super) urls_per_second: f64,
    /// URLs per second in the last tenth of the time in which all instances had work.
    pub(super) urls_per_second_at_the_end: f64,
    /// CPU time of all threads per URL of this run, in microseconds; includes generating and checking it.
    pub(super) cpu_us_per_url: f64,
    /// Median time until a batch of 1,000 URLs was decided and durable, in milliseconds.
    pub(super) batch_p50_ms: f64,
    /// 99th percentile of that time, in milliseconds.
    pub(super) batch_p99_ms: f64,
    /// Longest such time, in milliseconds.
    pub(super) longest_wait_ms: f64,
    /// Memory of the filters, in bytes per distinct URL.
    pub(super) filter_bytes_per_url: f64,
    /// Disk space of the indexes and of `crawl.seen`, in bytes per distinct URL.
    pub(super) disk_bytes_per_url: f64,
    /// Peak resident memory of the whole process, in bytes.
    pub(super) peak_rss_bytes: u64,
    /// Whether writing the admitted URLs to `crawl.frontier` is included in the rate.
    pub(super) frontier: bool,
    /// Whether an earlier run started this replay.
    pub(super) resumed: bool,
    /// Seconds in this run until all partitions were open.
    pub(super) opened_after_seconds: f64,
    /// Lookups in the index on disk.
    pub(super) disk_lookups: u64,
    /// Records that went to the dead letters.
    pub(super) rejected: u64,
    /// Links that were refused, such as links in files that are out of bounds.
    pub(super) refused: u64,
}

impl Report {
    /// Formats the figures as text.
    pub(super) fn text(&self) -> String {
        let Self { urls, distinct, false_positives, false_negatives, .. } = self;
        let mut text = format!(
            "{urls} URLs, {distinct} of them distinct: {false_positives} lost, {false_negatives} admitted twice\n"
        );
        let mut line = |name: &str, value: String| text.push_str(&format!("{name:>22}  {value}\n"));
        line("accuracy", format!("{:.7} %", self.accuracy * 100.0));
        line("rate", format!("{:.0} URLs/s ({:.0} at the end)", self.urls_per_second, self.urls_per_second_at_the_end));
        line("CPU", format!("{:.2} µs per URL", self.cpu_us_per_url));
        line("batch of 1,000", format!("{:.2} ms (p50), {:.2} ms (p99)", self.batch_p50_ms, self.batch_p99_ms));
        line("longest wait", format!("{:.1} ms", self.longest_wait_ms));
        line("filters", format!("{:.2} bytes per distinct URL", self.filter_bytes_per_url));
        line("disk", format!("{:.1} bytes per distinct URL", self.disk_bytes_per_url));
        #[allow(clippy::cast_precision_loss, reason = "a human-readable figure")]
        line("memory", format!("{:.0} MB at most", self.peak_rss_bytes as f64 / 1e6));
        line("disk lookups", self.disk_lookups.to_string());
        line("opened after", format!("{:.2} s", self.opened_after_seconds));
        text
    }
}
