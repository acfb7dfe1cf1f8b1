//! Page counts with several frontiers, partitions that move, owners that crash or resume, and records that are appended
//! or lost.

use std::collections::BTreeMap;

use orbweaver_frontier::pages::{Counted, PageCaps};
use orbweaver_messages::PageCount;
use orbweaver_url::CrawlName;
use proptest::prelude::*;

const CRAWLS: [&str; 2] = ["docs", "news"];
const PARTITIONS: u32 = 2;
/// Longer than any count may stay unwritten.
const LONG_MS: i64 = 31_000;

fn page_of(crawl: &CrawlName) -> Counted<'_> {
    Counted { crawl, pages: 1, bytes: 0 }
}

#[derive(Debug, Clone)]
enum Op {
    /// An outcome is appended to a partition: a page of one of two crawls, or no page.
    Outcome(u32, Option<usize>),
    /// The owner of a partition reads all outcomes except the last ones, of which the number is given.
    Read(u32, usize),
    /// A URL of a crawl is leased, or a lease ends.
    Lease(u32, usize, bool),
    /// Time passes, and the owner of a partition writes its counts. At most the given number of records is appended; if
    /// any is lost, the owner crashes.
    Write(u32, usize),
    /// A partition moves, because its owner crashed, was suspended or was cut off; the last learns of it only later.
    /// Before another process opens it, a process may resume.
    Move { partition: u32, to: usize, wakes: Option<usize>, learns: bool },
    /// A former owner resumes, writes once more and learns what it has lost.
    Wake(usize),
    /// Compaction: the last record of each key remains.
    Compact(u32),
    /// Outcomes that are counted, consumed and written are deleted.
    Delete(u32),
}

fn op() -> impl Strategy<Value = Op> {
    let partition = || 0..PARTITIONS;
    prop_oneof![
        8 => (partition(), prop::option::weighted(0.7, 0usize..2)).prop_map(|(at, page)| Op::Outcome(at, page)),
        4 => (partition(), 0usize..3).prop_map(|(at, but)| Op::Read(at, but)),
        2 => (partition(), 0usize..2, any::<bool>()).prop_map(|(at, of, ends)| Op::Lease(at, of, ends)),
        3 => (partition(), 0usize..4).prop_map(|(at, land)| Op::Write(at, land)),
        2 => (partition(), 0usize..3, prop::option::of(0usize..3), any::<bool>())
            .prop_map(|(partition, to, wakes, learns)| Op::Move { partition, to, wakes, learns }),
        1 => (0usize..3).prop_map(Op::Wake),
        1 => partition().prop_map(Op::Compact),
        1 => partition().prop_map(Op::Delete),
    ]
}

/// A process, and the records that it has sent and that are not appended yet.
#[derive(Default)]
struct Process {
    pages: PageCaps,
    /// Next outcome to be read, for each partition that the process considers its own.
    reads: BTreeMap<u32, usize>,
    now: i64,
    /// Records of a suspended process, which considers a partition its own that another one has by now.
    late: Vec<PageCount>,
    /// Owner epochs of the partitions that it considers its own although another process has them.
    stale: BTreeMap<u32, u64>,
}

#[derive(Default)]
struct World {
    processes: Vec<Process>,
    owner: [usize; PARTITIONS as usize],
    /// Outcomes, log starts and committed offsets, by partition.
    outcomes: [Vec<Option<usize>>; PARTITIONS as usize],
    begins: [usize; PARTITIONS as usize],
    committed: [usize; PARTITIONS as usize],
    control: [Vec<(u64, PageCount)>; PARTITIONS as usize],
    ends: [u64; PARTITIONS as usize],
    claims: u64,
    epochs: [u64; PARTITIONS as usize],
}

impl World {
    fn begin() -> Self {
        let mut world = Self { processes: (0..3).map(|_| Process::default()).collect(), ..Self::default() };
        (0..PARTITIONS).for_each(|partition| world.open(partition, 0));
        world
    }

    fn open(&mut self, partition: u32, to: usize) {
        let at = partition as usize;
        if self.processes[to].stale.remove(&partition).is_some() {
            self.processes[to].pages.leave(partition);
        }
        self.claims += 1;
        (self.owner[at], self.epochs[at]) = (to, self.claims);
        let Self { processes, control, outcomes, begins, committed, claims, .. } = self;
        let process = &mut processes[to];
        for (offset, record) in &control[at] {
            process.pages.apply(*offset, record);
        }
        // A resumed process may have written a lower offset than was deleted since: others counted those outcomes.
        let from = begins[at].max(process.pages.counted_upto(partition) as usize);
        for (offset, page) in outcomes[at].iter().enumerate().skip(from) {
            let crawl = page.map(|of| CRAWLS[of].parse().unwrap());
            process.pages.outcome(partition, offset as u64, crawl.as_ref().map(page_of));
        }
        process.pages.serve(partition, *claims, PARTITIONS);
        // Incomplete outcomes are received again.
        process.reads.insert(partition, committed[at]);
    }

    fn append(&mut self, records: Vec<PageCount>) {
        for record in records {
            let at = record.partition as usize;
            let offset = self.ends[at];
            self.ends[at] += 1;
            self.control[at].push((offset, record.clone()));
            for process in &mut self.processes {
                process.pages.apply(offset, &record);
            }
        }
    }

    fn write(&mut self, partition: u32, land: usize) {
        let process = &mut self.processes[self.owner[partition as usize]];
        process.now += LONG_MS;
        let mut records = process.pages.write(partition, process.now);
        let lost = records.split_off(land.min(records.len()));
        let whole = lost.is_empty();
        self.append(records);
        if whole {
            let epoch = self.epochs[partition as usize];
            self.processes[self.owner[partition as usize]].pages.settled(partition, epoch);
        } else {
            // A failed append ends the process.
            let owner = self.owner[partition as usize];
            self.processes[owner] = Process::default();
            // It tails all partitions of `crawl.control`.
            for (offset, record) in self.control.iter().flatten() {
                self.processes[owner].pages.apply(*offset, record);
            }
            for of in 0..PARTITIONS {
                if self.owner[of as usize] == owner {
                    self.open(of, (owner + 1) % 3);
                }
            }
        }
    }

    fn read(&mut self, partition: u32, but: usize) {
        let at = partition as usize;
        let process = &mut self.processes[self.owner[at]];
        let from = process.reads[&partition];
        let upto = self.outcomes[at].len().saturating_sub(but).max(from);
        for (offset, page) in self.outcomes[at].iter().enumerate().take(upto).skip(from) {
            let crawl = page.map(|of| CRAWLS[of].parse().unwrap());
            process.pages.outcome(partition, offset as u64, crawl.as_ref().map(page_of));
        }
        process.reads.insert(partition, upto);
    }

    fn compact(&mut self, partition: u32) {
        let records = &mut self.control[partition as usize];
        let last: BTreeMap<_, _> = records.iter().map(|(offset, record)| (record.crawl.clone(), *offset)).collect();
        records.retain(|(offset, record)| last[&record.crawl] == *offset);
    }

    fn play(&mut self, op: &Op) {
        match *op {
            Op::Outcome(partition, page) => self.outcomes[partition as usize].push(page),
            Op::Read(partition, but) => self.read(partition, but),
            Op::Lease(partition, of, ends) => {
                let pages = &mut self.processes[self.owner[partition as usize]].pages;
                if ends {
                    pages.remove_lease(partition, &CRAWLS[of].parse().unwrap());
                } else {
                    pages.add_lease(partition, &CRAWLS[of].parse().unwrap());
                }
            }
            Op::Write(partition, land) => self.write(partition, land),
            Op::Move { partition, to, wakes, learns } => {
                let was = self.owner[partition as usize];
                if was == to {
                    return;
                }
                let epoch = self.epochs[partition as usize];
                let process = &mut self.processes[was];
                self.committed[partition as usize] = process.reads.remove(&partition).unwrap();
                // The records that it would write if it were suspended now and resumed later.
                process.late.extend(process.pages.write(partition, process.now + LONG_MS));
                if learns {
                    process.pages.leave(partition);
                } else {
                    process.stale.insert(partition, epoch);
                }
                wakes.into_iter().for_each(|process| self.play(&Op::Wake(process)));
                self.open(partition, to);
            }
            Op::Wake(process) => {
                let late = std::mem::take(&mut self.processes[process].late);
                self.append(late);
                for (partition, epoch) in std::mem::take(&mut self.processes[process].stale) {
                    let stale = &mut self.processes[process];
                    stale.pages.settled(partition, epoch);
                    stale.now += LONG_MS;
                    let more = stale.pages.write(partition, stale.now);
                    self.append(more);
                    self.processes[process].pages.leave(partition);
                }
            }
            Op::Compact(partition) => {
                let records = &self.control[partition as usize];
                // Not before the present owner could overwrite the records of a former owner.
                if records.iter().all(|(_, record)| record.epoch == records.last().unwrap().1.epoch) {
                    self.compact(partition);
                }
            }
            Op::Delete(partition) => {
                let at = partition as usize;
                let read = self.processes[self.owner[at]].reads[&partition];
                // Outcomes are retained for as long as their count may stay unwritten.
                self.write(partition, usize::MAX);
                self.write(partition, usize::MAX);
                self.committed[at] = self.committed[at].max(read.min(self.processes[self.owner[at]].reads[&partition]));
                let mut fresh = PageCaps::default();
                self.control[at].iter().for_each(|(offset, record)| fresh.apply(*offset, record));
                self.begins[at] = self.begins[at].max(self.committed[at].min(fresh.counted_upto(partition) as usize));
            }
        }
    }

    fn truth(&self, of: usize) -> u64 {
        self.outcomes.iter().flatten().filter(|page| **page == Some(of)).count() as u64
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn every_page_counts_once_whoever_counts_it_and_whatever_is_delivered_again(ops in prop::collection::vec(op(), 1..120)) {
        let mut world = World::begin();
        ops.iter().for_each(|op| world.play(op));
        // All late records are appended; then everything is read and written.
        (0..3).for_each(|process| world.play(&Op::Wake(process)));
        for partition in 0..PARTITIONS {
            world.read(partition, 0);
            world.write(partition, usize::MAX);
            world.write(partition, usize::MAX);
            world.compact(partition);
        }
        let mut fresh = PageCaps::default();
        for crawl in CRAWLS {
            fresh.limit(&crawl.parse().unwrap(), Some(0));
            world.processes.iter_mut().for_each(|process| process.pages.limit(&crawl.parse().unwrap(), Some(0)));
        }
        world.control.iter().flatten().for_each(|(offset, record)| fresh.apply(*offset, record));
        for (of, crawl) in CRAWLS.into_iter().enumerate() {
            for pages in world.processes.iter().map(|process| &process.pages).chain([&fresh]) {
                let counted = pages.capped().find(|(name, _)| *name == crawl).unwrap().1.pages;
                prop_assert_eq!(counted, world.truth(of), "{}", crawl);
            }
        }
    }

    #[test]
    fn one_frontier_reaches_a_cap_exactly(max in 0u64..50, ends in prop::collection::vec(any::<bool>(), 0..80)) {
        let mut pages = PageCaps::default();
        pages.limit(&"docs".parse().unwrap(), Some(max));
        (0..4).for_each(|partition| pages.serve(partition, 1, 4));
        let (mut fetched, mut next) = (0, 0);
        for is_page in ends.into_iter().chain([true; 60]) {
            if pages.slack(&"docs".parse().unwrap()) == 0 {
                break;
            }
            pages.add_lease(next % 4, &"docs".parse().unwrap());
            pages.outcome(next % 4, u64::from(next / 4), is_page.then_some(page_of(&"docs".parse().unwrap())));
            pages.remove_lease(next % 4, &"docs".parse().unwrap());
            (fetched, next) = (fetched + u64::from(is_page), next + 1);
        }
        prop_assert_eq!(fetched, max);
        prop_assert_eq!(pages.slack(&"other".parse().unwrap()), u64::MAX);
    }

    #[test]
    fn frontiers_that_hear_of_each_other_late_use_a_share_of_what_is_left_each(max in 1u64..2_000, instances in 2u32..8) {
        let mut all: Vec<PageCaps> = (0..instances).map(|_| PageCaps::default()).collect();
        for (partition, pages) in (0..).zip(&mut all) {
            pages.limit(&"docs".parse().unwrap(), Some(max));
            pages.serve(partition, 1, instances);
        }
        // Each dispatches as many URLs as it may before any instance reads another's count.
        let mut asked = 0;
        for (partition, pages) in (0..).zip(&mut all) {
            while pages.slack(&"docs".parse().unwrap()) > 0 {
                pages.add_lease(partition, &"docs".parse().unwrap());
                asked += 1;
            }
        }
        prop_assert!((max..max + u64::from(instances)).contains(&asked), "{} of {}", asked, max);
        // Once all have written their counts and read the others, none may dispatch any more.
        let written: Vec<_> = (0..).zip(&mut all).flat_map(|(partition, pages)| pages.write(partition, LONG_MS)).collect();
        all.iter_mut().for_each(|pages| written.iter().for_each(|record| pages.apply(0, record)));
        prop_assert!(all.iter().all(|pages| pages.slack(&"docs".parse().unwrap()) == 0));
    }
}

/// Returns the times of the writes, in seconds from the start, with one page every 10 ms for 100 s.
fn written(max: Option<u64>) -> Vec<u64> {
    let mut pages = PageCaps::default();
    pages.limit(&"docs".parse().unwrap(), max);
    pages.serve(0, 1, 1);
    let mut moments = vec![];
    for page in 0..10_000 {
        pages.outcome(0, page, Some(page_of(&"docs".parse().unwrap())));
        let now = LONG_MS + i64::try_from(page).unwrap() * 10;
        if !pages.write(0, now).is_empty() {
            pages.settled(0, 1);
            moments.push(page / 100);
        }
    }
    moments
}

#[test]
fn what_nobody_has_to_know_soon_is_written_now_and_then_and_more_often_close_to_a_cap() {
    assert_eq!(written(None), [0, 30, 60, 90]);
    let capped = written(Some(9_000));
    assert!(capped.len() < 60, "{} times in 100 s", capped.len());
    assert!(capped.ends_with(&[88, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99]), "{capped:?}");
}

#[test]
fn nothing_more_is_written_before_what_was_written_is_durable() {
    let mut pages = PageCaps::default();
    pages.serve(0, 1, 1);
    pages.outcome(0, 4, Some(page_of(&"docs".parse().unwrap())));
    let first = pages.write(0, LONG_MS);
    assert_eq!((first[0].pages, first[0].upto, first[0].since), (1, 5, 0));
    pages.outcome(0, 5, Some(page_of(&"docs".parse().unwrap())));
    assert_eq!(pages.write(0, 3 * LONG_MS), vec![]);
    pages.settled(0, 1);
    let second = pages.write(0, 3 * LONG_MS);
    assert_eq!((second[0].pages, second[0].upto, second[0].since), (2, 6, 5));
}

#[test]
fn a_cap_of_bytes_leaves_as_many_pages_as_of_the_mean_size_and_the_end_of_a_crawl_none() {
    let (mut pages, crawl) = (PageCaps::default(), "docs".parse::<CrawlName>().unwrap());
    pages.serve(0, 1, 1);
    pages.limit_further(&crawl, Some(100_000), None);
    assert_eq!((pages.slack(&crawl), pages.slack_of(&crawl, false)), (7, 7), "of 16 KiB");
    pages.outcome(0, 0, Some(Counted { crawl: &crawl, pages: 1, bytes: 5_000 }));
    assert_eq!(pages.slack(&crawl), 19);
    pages.add_lease(0, &crawl);
    pages.outcome(0, 1, Some(Counted { crawl: &crawl, pages: 0, bytes: 5_000 }));
    assert_eq!(pages.slack(&crawl), 8, "a revisit counts, and so does a dispatch");
    pages.limit(&crawl, Some(4));
    assert_eq!((pages.slack(&crawl), pages.slack_of(&crawl, false)), (2, 8), "the cap of pages is not for revisits");
    pages.outcome(0, 2, Some(Counted { crawl: &crawl, pages: 1, bytes: 95_000 }));
    assert_eq!((pages.slack(&crawl), pages.slack_of(&crawl, false), pages.is_at_cap(&crawl)), (0, 0, true));
    let written = pages.write(0, LONG_MS);
    assert_eq!(written.iter().map(|count| (count.pages, count.bytes)).collect::<Vec<_>>(), [(2, 105_000)]);
    pages.limit(&crawl, None);
    pages.limit_further(&crawl, None, Some(1_000));
    pages.pass(999);
    assert_eq!((pages.slack(&crawl), pages.is_any_at_cap()), (u64::MAX, false));
    pages.pass(1_000);
    assert_eq!((pages.slack(&crawl), pages.slack_of(&crawl, false), pages.is_at_cap(&crawl)), (0, 0, true));
    pages.limit_further(&crawl, None, Some(2_000));
    pages.pass(1_000);
    assert_eq!((pages.slack(&crawl), pages.is_at_cap(&crawl)), (u64::MAX, false));
}

#[test]
fn partitions_that_are_restored_together_add_to_the_share_once_all_are_open() {
    let (mut pages, crawl) = (PageCaps::default(), "docs".parse::<CrawlName>().unwrap());
    pages.limit(&crawl, Some(100));
    (0..4).for_each(|partition| pages.assign(partition));
    pages.serve(0, 1, 4);
    assert_eq!(pages.slack(&crawl), 0);
    // Outcomes that the last owner did not write.
    (0..90).for_each(|offset| pages.outcome(3, offset, Some(page_of(&crawl))));
    pages.serve(1, 1, 4);
    pages.serve(3, 1, 4);
    assert_eq!(pages.slack(&crawl), 0);
    // One of them is cancelled.
    pages.leave(2);
    assert_eq!(pages.slack(&crawl), 0, "3 of 4 of 100 are 75, of which 90 are spent");
    pages.write(3, LONG_MS);
    assert_eq!(pages.slack(&crawl), 8, "3 of 4 of the remaining 10");
    pages.assign(2);
    assert_eq!(pages.slack(&crawl), 8, "those that are open keep their share");
    pages.limit_further(&crawl, Some(100), None);
    assert_eq!(pages.slack_of(&crawl, false), 75, "the cap of bytes is shared, too");
    pages.serve(2, 1, 4);
    assert_eq!((pages.slack(&crawl), pages.slack_of(&crawl, false)), (10, 100));
}
