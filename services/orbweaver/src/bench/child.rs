//! Runs a process and measures its resource use.

use std::{
    io,
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use crate::crawl::usage::peak_rss_bytes_of;

/// Interval at which the memory of a running process is sampled.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Ticks per second in `/proc/self/stat`: for user space always 100 on Linux.
const TICKS: u64 = 100;

/// Resources used by a process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Used {
    /// Wall-clock time from start to end.
    pub(super) wall: Duration,
    /// CPU time, user and system.
    pub(super) cpu: Duration,
    /// Peak resident memory, in bytes.
    pub(super) peak_rss_bytes: u64,
}

/// Runs a process to its end, without its output.
pub(super) fn run_measured(command: &mut Command) -> io::Result<(Used, ExitStatus)> {
    let before = children_cpu();
    let start = Instant::now();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let (process, mut peak_rss_bytes) = (child.id().to_string(), 0);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        peak_rss_bytes = peak_rss_bytes.max(peak_rss_bytes_of(&process));
        std::thread::park_timeout(CHECK_INTERVAL);
    };
    let used = Used { wall: start.elapsed(), cpu: children_cpu().saturating_sub(before), peak_rss_bytes };
    Ok((used, status))
}

/// Returns the CPU time of the child processes that have ended and been waited for.
fn children_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name in parentheses and may contain spaces; the 16th and 17th are needed here.
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
    Duration::from_millis((ticks(13) + ticks(14)) * 1000 / TICKS)
}
