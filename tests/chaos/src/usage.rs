//! Memory and CPU time of the instances and disk space of the topics, sampled throughout a run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use orbweaver_messages::Millis;
use orbweaver_stage::{Clock as _, SystemClock};
use serde_json::json;
use tokio::time::interval;

use crate::fleet::Fleet;

/// Interval between two samples.
const EVERY: Duration = Duration::from_secs(5);
const MIB: u64 = 1 << 20;
/// Topics that hold only work to be done.
const PASSING: [&str; 7] = ["seeds", "discovered", "frontier", "scheduled", "ready", "pages", "outcomes"];
/// Name in samples for the disk space of these topics, on all brokers together.
const TOPICS: &str = "topics";

/// Samples of a run.
#[derive(Debug, Default)]
pub(crate) struct Usage(Mutex<Vec<Sample>>);

#[derive(Debug)]
struct Sample {
    at_ms: Millis,
    /// Resident memory of each service's largest instance, and disk space of the topics, in bytes.
    bytes: BTreeMap<&'static str, u64>,
    /// CPU time of all instances of each service since the previous sample, in milliseconds.
    cpu_ms: BTreeMap<&'static str, u64>,
}

impl Usage {
    /// Samples until it is cancelled.
    pub(crate) async fn run(&self, fleet: &Fleet, servers: &Path) {
        let mut ticks = interval(EVERY);
        let mut taken_ms = BTreeMap::new();
        loop {
            ticks.tick().await;
            let mut bytes = BTreeMap::from([(TOPICS, topics(servers))]);
            let mut cpu_ms: BTreeMap<_, u64> = BTreeMap::new();
            for (service, process) in fleet.processes().await {
                // A process that has ended uses neither memory nor CPU.
                let memory = resident(process).unwrap_or_default();
                let largest = bytes.entry(service.name()).or_default();
                *largest = memory.max(*largest);
                let taken = processor_ms(process).unwrap_or_default();
                let before = taken_ms.insert(process, taken).unwrap_or_default();
                *cpu_ms.entry(service.name()).or_default() += taken.saturating_sub(before);
            }
            fleet.journal.note("usage", json!({ "bytes": bytes, "cpu_ms": cpu_ms }));
            let sample = Sample { at_ms: SystemClock.now(), bytes, cpu_ms };
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
        }
    }

    /// Formats the usage in each third of the time until `until_ms`: the maximum of memory and space in MiB, and the
    /// CPU time in seconds.
    pub(crate) fn by_thirds(&self, until_ms: Millis) -> String {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = by_thirds(&samples, until_ms, |sample| &sample.bytes, u64::max);
        let cpu_ms = by_thirds(&samples, until_ms, |sample| &sample.cpu_ms, |sum, more| sum + more);
        format!("mib{}; cpu_s{}", text(&bytes, MIB), text(&cpu_ms, 1_000))
    }
}

type Thirds = BTreeMap<&'static str, [u64; 3]>;

fn by_thirds(
    samples: &[Sample],
    until_ms: Millis,
    values: impl Fn(&Sample) -> &BTreeMap<&'static str, u64>,
    combine: impl Fn(u64, u64) -> u64,
) -> Thirds {
    let mut thirds = Thirds::new();
    let from_ms = samples.first().map_or(until_ms, |sample| sample.at_ms);
    for sample in samples.iter().filter(|sample| sample.at_ms < until_ms) {
        let third = usize::try_from(3 * (sample.at_ms - from_ms) / (until_ms - from_ms)).unwrap_or_default();
        for (name, value) in values(sample) {
            let combined = &mut thirds.entry(name).or_default()[third.min(2)];
            *combined = combine(*combined, *value);
        }
    }
    thirds
}

fn text(thirds: &Thirds, unit: u64) -> String {
    let mut text = String::new();
    for (name, values) in thirds {
        let [first, second, last] = values.map(|value| value.div_ceil(unit));
        // Writing to a string does not fail.
        let _ = write!(text, " {name}={first}/{second}/{last}");
    }
    text
}

/// Returns the CPU time of a process, in milliseconds.
fn processor_ms(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may contain spaces. The times are in hundredths of a second.
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks: u64 = fields.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Some(ticks * 10)
}

/// Returns the resident memory of a process, in bytes.
fn resident(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1_024)
}

/// Returns the disk space of the topics with work to be done, in bytes, on all brokers whose directories are in
/// `servers`. A file that is removed in the meantime counts as empty.
fn topics(servers: &Path) -> u64 {
    let brokers = entries(servers).map(|server| server.join("data"));
    let partitions = brokers.flat_map(|data| entries(&data).collect::<Vec<_>>()).filter(|dir| is_passing(dir));
    let files = partitions.flat_map(|dir| entries(&dir).collect::<Vec<_>>());
    files.filter_map(|file| Some(std::os::unix::fs::MetadataExt::blocks(&fs::metadata(file).ok()?) * 512)).sum()
}

/// Returns `true` for the directory of a partition of such a topic: `PREFIX.TOPIC-PARTITION`.
fn is_passing(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let topic = name.rsplit_once('-').map(|(topic, _)| topic).unwrap_or_default();
    topic.rsplit_once('.').is_some_and(|(_, topic)| PASSING.contains(&topic))
}

fn entries(dir: &Path) -> impl Iterator<Item = std::path::PathBuf> {
    fs::read_dir(dir).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_third_the_most_memory_and_all_cpu_time_is_reported() {
        let sample = |at_ms, mib, cpu_ms| Sample {
            at_ms,
            bytes: BTreeMap::from([("fetcher", mib * MIB)]),
            cpu_ms: BTreeMap::from([("fetcher", cpu_ms)]),
        };
        let samples = [(0, 5, 0), (20, 7, 900), (50, 6, 100), (90, 4, 3_000), (99, 3, 1_500), (100, 90, 9_000)];
        let usage = Usage(Mutex::new(samples.map(|(at_ms, mib, cpu_ms)| sample(at_ms, mib, cpu_ms)).into()));
        assert_eq!(usage.by_thirds(100), "mib fetcher=7/6/4; cpu_s fetcher=1/1/5");
        assert_eq!(Usage::default().by_thirds(100), "mib; cpu_s");
    }

    #[test]
    fn only_topics_with_work_to_be_done_are_measured() {
        let is = |name: &str| is_passing(Path::new(name));
        assert!(is("/data/cluster_a-1.scheduled-2") && is("/data/c_0.frontier-13"));
        assert!(!is("/data/c_0.documents-2") && !is("/data/__consumer_offsets-4") && !is("/data/c_0.dead-letters-3"));
    }

    #[test]
    fn a_process_has_memory_and_takes_time() {
        let own = std::process::id();
        assert!(resident(own).unwrap() > MIB);
        let begun = processor_ms(own).unwrap();
        while processor_ms(own).unwrap() == begun {}
        assert_eq!((resident(u32::MAX), processor_ms(u32::MAX)), (None, None));
    }
}
