//! Time and memory of a measurement.

use std::{
    fmt,
    time::{Duration, Instant},
};

/// Time of a number of operations: wall-clock time, and time of this thread on a core, which others do not lengthen.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    count: usize,
    time: Duration,
    cpu: Duration,
    longest: Duration,
}

/// Start of a call.
pub(crate) struct Began(Instant, Duration);

impl Began {
    pub(crate) fn now() -> Self {
        Self(Instant::now(), cpu_time("/proc/thread-self"))
    }
}

impl Measured {
    /// Adds a call that makes `count` operations.
    pub(crate) fn of(&mut self, count: usize, call: impl FnOnce()) {
        let began = Began::now();
        call();
        self.end(count, &began);
    }

    pub(crate) fn end(&mut self, count: usize, Began(began, cpu): &Began) {
        self.count += count;
        self.time += began.elapsed();
        self.longest = self.longest.max(began.elapsed());
        self.cpu += cpu_time("/proc/thread-self").saturating_sub(*cpu);
    }
}

impl fmt::Display for Measured {
    #[allow(clippy::cast_precision_loss, reason = "for display")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.time.as_secs_f64();
        let (rate, each) = (self.count as f64 / seconds, |seconds: f64| seconds / self.count as f64 * 1e6);
        let (wall, cpu) = (each(seconds), each(self.cpu.as_secs_f64()));
        let longest = self.longest.as_millis();
        write!(
            f,
            "{rate:.0}/s, {wall:.2} us each, {cpu:.2} us of this thread, {} in all, longest call {longest} ms",
            self.count
        )
    }
}

/// Returns the time that a thread was on a core.
fn cpu_time(thread: &str) -> Duration {
    let stat = std::fs::read_to_string(format!("{thread}/schedstat")).unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|time| time.parse().ok()).unwrap_or_default())
}

/// Returns the time that all threads of this process were on a core.
pub(crate) fn process_cpu() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.map(|thread| cpu_time(&thread.path().to_string_lossy())).sum()
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
