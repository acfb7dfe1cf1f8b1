//! Both indexes return the same results, and the one on disk survives failures of disks and processes.

use std::os::unix::fs::FileExt;

use orbweaver_messages::{DiscoveryKind, UrlContext};
use proptest::prelude::*;

use super::*;

fn waiting(number: u8, depth: u16, not_before_ms: Millis) -> FrontierUrl {
    let url = format!("http://{}.example/{number}", number % 3);
    let context = UrlContext {
        fingerprint: fingerprint(number),
        depth,
        sighting: DiscoveryKind::Link,
        via: Some("http://0.example/".into()),
        ..UrlContext::of_seed("test".parse().unwrap(), url, format!("{}.example", number % 3).into())
    };
    FrontierUrl {
        visits: (number.is_multiple_of(2)).then(Box::default),
        blocks: number % 2,
        lost: number % 3,
        not_before_ms,
        definition: u64::from(number),
        ..FrontierUrl::admitted(context, 1)
    }
}

fn fingerprint(number: u8) -> Fingerprint {
    Fingerprint::of(&CrawlName::default(), &number.to_string())
}

fn at(offset: Offset) -> IndexCheckpoint {
    IndexCheckpoint { offset, timestamp_ms: 1, hash: offset }
}

#[derive(Debug, Clone)]
enum Op {
    Put(u8, u16, u8),
    Remove(u8),
    /// A URL is demoted: its record stays.
    Demote(u8),
    Mark(u8, bool),
    Release(u8),
    Write,
    Reopen,
    /// The process ends, and the changes since the last write are lost.
    Kill,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (any::<u8>(), 0u16..3, any::<u8>()).prop_map(|(number, depth, wait)| Op::Put(number % 24, depth, wait)),
        3 => any::<u8>().prop_map(|number| Op::Remove(number % 24)),
        3 => any::<u8>().prop_map(|number| Op::Demote(number % 24)),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(number, marks)| Op::Mark(number % 24, marks)),
        2 => (120u8..).prop_map(Op::Release),
        1 => Just(Op::Write),
        1 => Just(Op::Reopen),
        1 => Just(Op::Kill),
    ]
}

/// Marked URLs.
type Outdated = BTreeMap<Fingerprint, Offset>;

/// Content of an index: the entry of each URL, all entries, the ranks of each site, the delayed URLs, and the marks.
type Said = (Vec<Option<IndexEntry>>, Vec<IndexEntry>, Vec<Vec<Rank>>, Vec<(Fingerprint, IndexEntry)>, Outdated);

/// Returns the content of an index.
fn said(index: &mut dyn Index) -> Said {
    let entries: Vec<Option<IndexEntry>> = (0..24).map(|number| index.entry(fingerprint(number)).unwrap()).collect();
    for entry in entries.iter().flatten() {
        let waiting = index.waiting(entry.offset).unwrap();
        assert_eq!((waiting.context.depth, QueueKey::of(&waiting.context)), (entry.depth, entry.site));
    }
    let mut each = vec![];
    index.each(&mut |entry| each.push(entry)).unwrap();
    each.sort_by_key(|entry| entry.offset);
    let mut sites: Vec<_> = (0..3).map(|site| QueueKey::of(&waiting(site, 0, 0).context)).collect();
    sites.sort_unstable();
    let queues_from = |from: Rank| sites.iter().map(|site| (*site, from)).collect::<Vec<_>>();
    let from_ranks = [(0, 0), (1, 20)].map(|from| index.queued(&queues_from(from), 5).unwrap());
    let delayed = index.delayed(None, 200, 7).unwrap();
    for (number, (_, entry)) in delayed.iter().enumerate() {
        let behind = index.delayed(Some(*entry), 200, 7).unwrap();
        assert_eq!(behind[..delayed.len() - number - 1], delayed[number + 1..]);
        assert_eq!(index.delayed(Some(*entry), 0, 7).unwrap(), [], "a time before the entry");
    }
    (entries, each, from_ranks.concat(), delayed, index.outdated().clone())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_index_on_disk_says_what_the_one_in_memory_says(
        ops in prop::collection::vec(op(), 1..120), far in any::<bool>(),
    ) {
        let (_directory, store) = opened();
        let other = store.partition(256).unwrap();
        let (mut memory, mut disk) = (MemoryIndex::default(), store.partition(1).unwrap());
        let (mut written, mut written_at) = (memory.clone(), None);
        for (offset, op) in ops.into_iter().enumerate() {
            // Some of them in the same file of records, and some in others; or all next to each other.
            let offset = offset as Offset * if far { 70_000 } else { 1 };
            let fingerprint = match &op {
                Op::Put(number, ..) | Op::Remove(number) | Op::Demote(number) => fingerprint(*number),
                _ => fingerprint(0),
            };
            for index in [&mut memory as &mut dyn Index, &mut disk] {
                let old = index.entry(fingerprint).unwrap();
                match op {
                    Op::Put(number, depth, wait) => {
                        let waiting = waiting(number, depth, if wait > 127 { wait.into() } else { 0 });
                        let entry = IndexEntry { demoted: wait.is_multiple_of(3), ..IndexEntry::of(&waiting, offset, 0) };
                        index.replace(fingerprint, old, Some((entry, &waiting)));
                    }
                    Op::Remove(_) if old.is_some() => index.replace(fingerprint, old, None),
                    Op::Demote(_) => {
                        if let Some(old) = old {
                            let waiting = index.waiting(old.offset).unwrap();
                            let demoted = IndexEntry { demoted: true, ..old };
                            index.replace(fingerprint, Some(old), Some((demoted, &waiting)));
                        }
                    }
                    Op::Mark(number, marks) => index.mark(self::fingerprint(number), marks.then_some(offset)),
                    Op::Release(until) => {
                        for (fingerprint, entry) in index.delayed(None, until.into(), 3).unwrap() {
                            index.make_due(fingerprint, entry);
                        }
                    }
                    _ => {}
                }
                index.applied(at(offset)).unwrap();
            }
            if matches!(op, Op::Write | Op::Reopen) {
                disk.write().unwrap();
            }
            if store.position(1).unwrap() == Some(at(offset)) {
                (written, written_at) = (memory.clone(), Some(at(offset)));
            }
            match op {
                Op::Reopen | Op::Kill => {
                    disk = store.partition(1).unwrap();
                    prop_assert_eq!(disk.position(), written_at);
                    memory = written.clone();
                    prop_assert_eq!(disk.outdated(), memory.outdated());
                }
                _ => {}
            }
        }
        prop_assert_eq!(said(&mut disk), said(&mut memory));
        prop_assert_eq!(other.position(), None);
        store.discard(1).unwrap();
        prop_assert_eq!(said(&mut store.partition(1).unwrap()), said(&mut MemoryIndex::default()));
    }
}

fn opened() -> (tempfile::TempDir, FrontierIndex) {
    let directory = tempfile::tempdir().unwrap();
    let store = FrontierIndex::open(directory.path()).unwrap();
    (directory, store)
}

fn filled(store: &FrontierIndex, partition: u32) -> DiskIndex {
    let mut index = store.partition(partition).unwrap();
    let waiting = waiting(1, 0, 0);
    index.replace(waiting.context.fingerprint, None, Some((IndexEntry::of(&waiting, 7, 0), &waiting)));
    index.applied(at(7)).unwrap();
    index.write().unwrap();
    index
}

#[test]
fn records_that_have_ended_leave_the_disk_and_no_others_do_also_after_a_restart() {
    let (directory, store) = opened();
    let files = || {
        let files = std::fs::read_dir(directory.path().join("p1/records")).unwrap();
        let mut files: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        files
    };
    let mut index = store.partition(1).unwrap();
    let put = |index: &mut DiskIndex, number: u8| {
        let (waiting, offset) = (waiting(number, 0, 0), Offset::from(number) << 18);
        index.replace(waiting.context.fingerprint, None, Some((IndexEntry::of(&waiting, offset, 0), &waiting)));
        index.applied(at(offset)).unwrap();
        index.write().unwrap();
    };
    let end = |index: &mut DiskIndex, number: u8| {
        let old = index.entry(fingerprint(number)).unwrap();
        index.replace(fingerprint(number), old, None);
        index.write().unwrap();
    };
    (0..4).for_each(|number| put(&mut index, number));
    end(&mut index, 1);
    assert_eq!(files(), ["0", "2", "3"]);
    drop(index);
    let mut index = store.partition(1).unwrap();
    end(&mut index, 2);
    end(&mut index, 3);
    assert_eq!(files(), ["0", "3"], "the last file stays");
    put(&mut index, 4);
    assert_eq!(files(), ["0", "4"]);
    assert_eq!(*index.waiting(0).unwrap(), waiting(0, 0, 0));
}

#[test]
fn long_records_are_written_before_there_are_many_of_them() {
    let (_directory, store) = opened();
    let mut index = store.partition(1).unwrap();
    for number in 0..17 {
        let mut long = waiting(number, 0, 0);
        long.context.chain = vec!["x".repeat(64 << 10)];
        let offset = Offset::from(number);
        index.replace(long.context.fingerprint, None, Some((IndexEntry::of(&long, offset, 0), &long)));
        index.applied(at(offset)).unwrap();
    }
    assert!(store.position(1).unwrap().is_some(), "a megabyte is in memory");
}

#[test]
fn a_damaged_index_is_discarded_and_those_of_other_partitions_are_not() {
    let (directory, store) = opened();
    drop((filled(&store, 1), filled(&store, 256)));
    for (name, keeps) in [("checkpoint", 0), ("checkpoint", 30), ("table-0", 20), ("table-0", 70)] {
        drop(filled(&store, 1));
        assert_eq!(store.position(1).unwrap(), Some(at(7)));
        let file = std::fs::OpenOptions::new().write(true).open(directory.path().join("p1").join(name)).unwrap();
        file.set_len(keeps).unwrap();
        assert_eq!(said(&mut store.partition(1).unwrap()), said(&mut MemoryIndex::default()), "{name}");
        assert_eq!(store.position(1).unwrap(), None);
    }
    assert!(store.partition(256).unwrap().entry(fingerprint(1)).unwrap().is_some());
}

#[test]
fn a_record_that_cannot_be_read_is_damage_and_names_the_directory() {
    let (directory, store) = opened();
    let mut index = filled(&store, 1);
    let path = directory.path().join("p1/records/0");
    let records = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    records.write_all_at(&[0xff; 20], records.metadata().unwrap().len() - 20).unwrap();
    for error in
        [index.waiting(7).unwrap_err(), index.waiting(8).unwrap_err(), index.entry(fingerprint(1)).unwrap_err()]
    {
        assert!(error.is_damage() && error.to_string().contains(directory.path().to_str().unwrap()), "{error}");
    }
}

#[test]
fn keys_of_ended_urls_leave_the_disk() {
    let (directory, store) = opened();
    let mut index = store.partition(1).unwrap();
    let put = |index: &mut DiskIndex, number: u8, offset: Offset| {
        let waiting = waiting(number, 0, 0);
        let old = index.entry(waiting.context.fingerprint).unwrap();
        index.replace(waiting.context.fingerprint, old, Some((IndexEntry::of(&waiting, offset, 0), &waiting)));
        index.applied(at(offset)).unwrap();
    };
    let tables = || {
        let files = std::fs::read_dir(directory.path().join("p1")).unwrap().map(|file| file.unwrap());
        let sizes = files.filter(|file| file.file_name().to_str().unwrap().starts_with("table-"));
        sizes.map(|file| file.metadata().unwrap().len()).collect::<Vec<_>>()
    };
    for offset in 0..2000 {
        put(&mut index, (offset % 100) as u8, offset);
        assert!(tables().len() <= 9, "{:?}", tables());
    }
    assert!(tables().iter().sum::<u64>() < 4 * 100 * 48, "{:?}", tables());
    assert_eq!(said(&mut index).1.len(), 100);
}
