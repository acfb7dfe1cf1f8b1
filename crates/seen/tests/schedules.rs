//! Random schedules over a log, the index and crashes: the index always agrees with the log.

#![allow(clippy::expect_used, reason = "a test says what it expects")]

use std::{collections::HashMap, path::Path};

use orbweaver_messages::{SeenBatch, SeenEntry};
use orbweaver_seen::{IndexCheckpoint, SeenError, SeenIndex, SeenPartition};
use orbweaver_url::{CrawlName, Fingerprint};
use proptest::prelude::*;

const PARTITION: u32 = 3;
const URLS: u8 = 40;

/// A partition of `crawl.seen`.
#[derive(Default)]
struct SeenLog(Vec<SeenBatch>);

impl SeenLog {
    fn position(&self, offset: usize) -> IndexCheckpoint {
        IndexCheckpoint::of(offset as u64, 1_000 + offset as i64, &self.0[offset].encode())
    }

    fn restore(&self, index: &SeenIndex) -> Box<dyn SeenPartition> {
        let mut partition = index.partition(PARTITION).expect("the disk");
        let from = partition.position().map_or(0, |position| position.offset as usize);
        for offset in from..self.0.len() {
            partition.read_back(self.position(offset), &self.0[offset]).expect("the disk");
        }
        partition.serve().expect("the log belongs to the index");
        partition
    }
}

fn fingerprint(url: u8) -> Fingerprint {
    Fingerprint::of(&CrawlName::default(), &url.to_string())
}

fn batch(urls: &[(u8, u16)]) -> SeenBatch {
    let entry = |&(url, depth): &(u8, u16)| SeenEntry { slot: 3, depth, fingerprint: fingerprint(url) };
    SeenBatch { entries: urls.iter().map(entry).collect() }
}

#[derive(Debug, Clone)]
enum Step {
    /// Appends a record; an own record is acknowledged at once, a foreign one is only read back.
    Append { urls: Vec<(u8, u16)>, own: bool },
    /// Reads the next record back.
    Follow,
    /// Writes the index to disk.
    Write,
    /// Kills and restarts the process, with or without its index.
    Restart { keep_index: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let urls = proptest::collection::vec((0..URLS, 0u16..4), 0..6);
    prop_oneof![
        4 => (urls, any::<bool>()).prop_map(|(urls, own)| Step::Append { urls, own }),
        3 => Just(Step::Follow),
        1 => Just(Step::Write),
        1 => any::<bool>().prop_map(|keep_index| Step::Restart { keep_index }),
    ]
}

fn learn(known: &mut HashMap<u8, u16>, urls: &[(u8, u16)]) {
    for &(url, depth) in urls {
        known.entry(url).and_modify(|least| *least = depth.min(*least)).or_insert(depth);
    }
}

fn run(steps: Vec<Step>, path: &Path) {
    let mut log = SeenLog::default();
    let mut appended = vec![];
    let mut index = SeenIndex::open(path).expect("the disk");
    let mut partition = log.restore(&index);
    let mut next = 0;
    let mut known = HashMap::new();
    for step in steps {
        match step {
            Step::Append { urls, own } => {
                log.0.push(batch(&urls));
                if own {
                    partition.acknowledge(&batch(&urls).entries, log.0.len() as u64 - 1).expect("in bounds");
                    learn(&mut known, &urls);
                }
                appended.push(urls);
            }
            Step::Follow if next < log.0.len() => {
                partition.read_back(log.position(next), &log.0[next]).expect("the disk");
                learn(&mut known, &appended[next]);
                next += 1;
            }
            Step::Follow => {}
            Step::Write => partition.write().expect("the disk"),
            Step::Restart { keep_index } => {
                drop(partition);
                drop(index);
                if !keep_index {
                    std::fs::remove_dir_all(path).expect("the disk");
                }
                index = SeenIndex::open(path).expect("the disk");
                partition = log.restore(&index);
                appended.iter().for_each(|urls| learn(&mut known, urls));
                next = log.0.len();
            }
        }
        let position = partition.position().map(|position| position.offset + 1);
        assert_eq!(position.unwrap_or_default(), next as u64, "only records read back move the position");
        let on_disk = index.position(PARTITION).expect("the disk").map(|position| position.offset);
        assert!(on_disk.is_none_or(|offset| offset < next as u64));
        for url in 0..URLS {
            assert_eq!(partition.depth_of(fingerprint(url)).expect("the disk"), known.get(&url).copied(), "url {url}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_index_answers_what_was_acknowledged_or_read_back(steps in proptest::collection::vec(step(), 1..60)) {
        let directory = tempfile::tempdir().expect("a directory");
        run(steps, &directory.path().join("seen"));
    }
}

#[test]
fn an_index_over_another_log_is_thrown_away_and_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let index = SeenIndex::open(directory.path()).expect("the disk");
    let own = SeenLog(vec![batch(&[(1, 0)]), batch(&[(2, 0)])]);
    drop(own.restore(&index));
    let other = SeenLog(vec![batch(&[(1, 0)]), batch(&[(3, 0)])]);
    let mut partition = index.partition(PARTITION).expect("the disk");
    let refused = partition.read_back(other.position(1), &other.0[1]);
    assert!(matches!(refused, Err(SeenError::Foreign { partition: PARTITION, offset: 1 })), "{refused:?}");
    let mut partition = other.restore(&index);
    assert_eq!(partition.depth_of(fingerprint(2)).expect("the disk"), None, "nothing of the other log is left");
    assert_eq!(partition.depth_of(fingerprint(3)).expect("the disk"), Some(0));
}

#[test]
fn an_index_beyond_the_end_of_its_log_is_thrown_away() {
    let directory = tempfile::tempdir().expect("a directory");
    let index = SeenIndex::open(directory.path()).expect("the disk");
    drop(SeenLog(vec![batch(&[(1, 0)])]).restore(&index));
    let mut partition = index.partition(PARTITION).expect("the disk");
    assert!(matches!(partition.serve(), Err(SeenError::Foreign { .. })), "the record at the position never came");
    assert!(index.position(PARTITION).expect("the disk").is_none());
}

#[test]
fn what_was_not_read_back_is_known_now_and_never_reaches_the_disk() {
    let directory = tempfile::tempdir().expect("a directory");
    let index = SeenIndex::open(directory.path()).expect("the disk");
    let log = SeenLog(vec![batch(&[(1, 0)])]);
    let mut partition = log.restore(&index);
    // As with a slow reader. A power failure may remove them from the log, and then they must not be known.
    let many = (0..70_000u32).map(|number| SeenEntry {
        slot: 3,
        depth: 0,
        fingerprint: Fingerprint::of(&CrawlName::default(), &number.to_string()),
    });
    partition.acknowledge(&many.collect::<Vec<_>>(), 1).expect("in bounds");
    assert_eq!(partition.position().map(|position| position.offset), Some(0));
    assert_eq!(partition.depth_of(Fingerprint::of(&CrawlName::default(), "69999")).expect("the disk"), Some(0));
    drop(partition);
    drop(index);
    let index = SeenIndex::open(directory.path()).expect("the disk");
    let mut partition = log.restore(&index);
    assert_eq!(partition.depth_of(Fingerprint::of(&CrawlName::default(), "69999")).expect("the disk"), None);
    assert_eq!(partition.depth_of(fingerprint(1)).expect("the disk"), Some(0));
}
