//! The memory of the instances and the disk space of the topics, measured all through a run.

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

/// Time between two samples.
const EVERY: Duration = Duration::from_secs(5);
const MIB: u64 = 1 << 20;
/// Topics that hold work to be done, and nothing else.
const PASSING: [&str; 7] = ["seeds", "discovered", "frontier", "scheduled", "ready", "pages", "outcomes"];
/// Under this name a sample has the disk space of these topics, on all brokers together.
const TOPICS: &str = "topics";

/// The samples of a run.
#[derive(Debug, Default)]
pub(crate) struct Usage(Mutex<Vec<Sample>>);

/// The time of a sample; the resident memory of the largest instance of each service and the space of the topics, in bytes.
type Sample = (Millis, BTreeMap<&'static str, u64>);

impl Usage {
    /// Measures without end.
    pub(crate) async fn run(&self, fleet: &Fleet, servers: &Path) {
        let mut ticks = interval(EVERY);
        loop {
            ticks.tick().await;
            let mut sample = BTreeMap::from([(TOPICS, topics(servers))]);
            for (service, process) in fleet.processes().await {
                // One that has ended has no memory.
                let memory = resident(process).unwrap_or_default();
                let largest = sample.entry(service.name()).or_default();
                *largest = memory.max(*largest);
            }
            fleet.journal.note("usage", json!(sample));
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push((SystemClock.now(), sample));
        }
    }

    /// The most of each in each third of the time until `until_ms`, in MiB.
    #[must_use]
    pub(crate) fn by_thirds(&self, until_ms: Millis) -> String {
        by_thirds(&self.0.lock().unwrap_or_else(PoisonError::into_inner), until_ms)
    }
}

fn by_thirds(samples: &[Sample], until_ms: Millis) -> String {
    let Some((from_ms, _)) = samples.first() else { return String::new() };
    let mut most: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    for (at_ms, sample) in samples.iter().filter(|(at_ms, _)| *at_ms < until_ms) {
        let third = usize::try_from(3 * (at_ms - from_ms) / (until_ms - from_ms)).unwrap_or_default();
        for (name, bytes) in sample {
            let most = &mut most.entry(name).or_default()[third.min(2)];
            *most = bytes.div_ceil(MIB).max(*most);
        }
    }
    let mut text = String::new();
    for (name, [first, second, last]) in most {
        // Writing to a string does not fail.
        let _ = write!(text, " {name}={first}/{second}/{last}");
    }
    text
}

/// The resident memory of a process in bytes.
fn resident(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1_024)
}

/// The space of the topics with work to be done, in bytes, on all brokers whose directories are in `servers`. A file that is
/// removed in the meantime has none.
fn topics(servers: &Path) -> u64 {
    let brokers = entries(servers).map(|server| server.join("data"));
    let partitions = brokers.flat_map(|data| entries(&data).collect::<Vec<_>>()).filter(|dir| is_passing(dir));
    let files = partitions.flat_map(|dir| entries(&dir).collect::<Vec<_>>());
    files.filter_map(|file| Some(std::os::unix::fs::MetadataExt::blocks(&fs::metadata(file).ok()?) * 512)).sum()
}

/// Whether a directory has a partition of such a topic: `PREFIX.TOPIC-PARTITION`.
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
    fn the_most_of_each_third_is_told() {
        let sample = |at_ms, mib| (at_ms, BTreeMap::from([("fetcher", mib * MIB)]));
        let samples = [sample(0, 5), sample(20, 7), sample(50, 6), sample(90, 4), sample(99, 3), sample(100, 90)];
        assert_eq!(by_thirds(&samples, 100), " fetcher=7/6/4");
        assert_eq!(by_thirds(&[], 100), "");
    }

    #[test]
    fn only_topics_with_work_to_be_done_are_measured() {
        let is = |name: &str| is_passing(Path::new(name));
        assert!(is("/data/cluster_a-1.scheduled-2") && is("/data/c_0.frontier-13"));
        assert!(!is("/data/c_0.documents-2") && !is("/data/__consumer_offsets-4") && !is("/data/c_0.dead-letters-3"));
    }

    #[test]
    fn a_process_has_memory() {
        assert!(resident(std::process::id()).unwrap() > MIB);
    }
}
