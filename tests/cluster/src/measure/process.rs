//! Resource usage of processes, from `/proc`.

use std::time::Duration;

use orbweaver_cluster_tests::Instance;

use crate::bed::{Bed, Web};

/// Ticks per second in `/proc/PID/stat`: for user space always 100 on Linux.
const TICKS: u64 = 100;

/// Resource usage of a process so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    pub(crate) cpu: Duration,
    pub(crate) peak_rss_bytes: u64,
}

pub(crate) fn used(pid: Option<u32>) -> Used {
    let read = |file: &str| {
        pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok()).unwrap_or_default()
    };
    // The second field is the program's name in parentheses and may contain spaces; user and system time are the 14th
    // and 15th.
    let stat = read("stat");
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
    let status = read("status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    Used {
        cpu: Duration::from_millis((ticks(11) + ticks(12)) * 1000 / TICKS),
        peak_rss_bytes: peak.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or_default() * 1024,
    }
}

/// Returns all processes that work for a crawl, by name.
pub(crate) fn everybody(bed: &Bed, web: &Web, instances: &[Instance]) -> Vec<(String, Option<u32>)> {
    let mut all: Vec<_> = instances.iter().map(|instance| (instance.name().to_owned(), instance.id())).collect();
    all.push(("Kafka".to_owned(), bed.stack.pid("1")));
    all.push(("Cassandra".to_owned(), bed.stack.pid("cql")));
    all.push(("the web".to_owned(), web.id()));
    all
}

pub(crate) fn megabytes(bytes: u64) -> u64 {
    bytes / 1_000_000
}
