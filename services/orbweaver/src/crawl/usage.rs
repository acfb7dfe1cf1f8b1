//! Resource use of this process.

use std::time::Duration;

/// Returns the CPU time of this process so far, of all threads.
#[must_use]
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Returns the peak resident memory so far, in bytes; 0 if the system does not report it.
#[must_use]
pub fn peak_rss_bytes() -> u64 {
    peak_rss_bytes_of("self")
}

/// Returns the peak resident memory of a process, named as in `/proc`.
#[must_use]
pub fn peak_rss_bytes_of(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or_default() * 1024
}
