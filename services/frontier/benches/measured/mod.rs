//! Time and memory of a measurement.

use std::{
    fmt,
    time::{Duration, Instant},
};

/// Wall-clock time of a number of operations.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    count: usize,
    time: Duration,
}

impl Measured {
    /// Adds a call that makes `count` operations.
    pub(crate) fn of(&mut self, count: usize, call: impl FnOnce()) {
        let began = Instant::now();
        call();
        self.end(count, began);
    }

    pub(crate) fn end(&mut self, count: usize, began: Instant) {
        self.count += count;
        self.time += began.elapsed();
    }
}

impl fmt::Display for Measured {
    #[allow(clippy::cast_precision_loss, reason = "for display")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.time.as_secs_f64();
        let (rate, each) = (self.count as f64 / seconds, seconds / self.count as f64 * 1e6);
        write!(f, "{rate:.0}/s, {each:.2} us each, {} in all", self.count)
    }
}

/// Returns the highest resident memory of this process so far.
pub(crate) fn peak_mib() -> u64 {
    status_kib("VmHWM:") / 1024
}

/// Returns the resident memory of this process.
pub(crate) fn resident_kib() -> u64 {
    status_kib("VmRSS:")
}

fn status_kib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or_default()
}

/// Returns the value below which this share of all lies.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
pub(crate) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
        .get(((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}
