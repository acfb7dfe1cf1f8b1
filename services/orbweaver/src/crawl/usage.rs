//! What this process used of the machine.

use std::time::Duration;

/// CPU time of this process so far, all threads.
#[must_use]
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// The most memory that was resident so far, in bytes; 0 where the system does not tell.
#[must_use]
pub fn peak_rss_bytes() -> u64 {
    of_status("VmHWM:")
}

/// The memory that is resident now, in bytes; 0 where the system does not tell.
#[must_use]
pub fn rss_bytes() -> u64 {
    of_status("VmRSS:")
}

fn of_status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or_default() * 1024
}
