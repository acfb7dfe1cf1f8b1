//! Both indexes return the same results, and the one on disk survives failures of disks and processes.

use std::os::unix::fs::FileExt;

use orbweaver_messages::{DiscoveryKind, UrlContext};
use proptest::prelude::*;

use super::{encoding::Mark, *};

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
    ]
}

/// Marked URLs.
type Outdated = BTreeMap<Fingerprint, Offset>;

/// Content of an index: the entry of each URL, all entries, the ranks of each site, the delayed URLs, and the marks.
type Said = (Vec<Option<IndexEntry>>, Entries, Vec<Vec<Rank>>, Entries, Outdated);
type Entries = Vec<(Fingerprint, IndexEntry)>;

/// Returns the content of an index.
fn said(index: &mut dyn Index) -> Said {
    let entries: Vec<Option<IndexEntry>> = (0..24).map(|number| index.entry(fingerprint(number)).unwrap()).collect();
    for entry in entries.iter().flatten() {
        let waiting = index.waiting(entry.offset).unwrap();
        assert_eq!((waiting.context.depth, QueueKey::of(&waiting.context)), (entry.depth, entry.site));
    }
    let mut each = vec![];
    index.each(&mut |fingerprint, entry| each.push((fingerprint, entry))).unwrap();
    let sites = (0..3).map(|site| QueueKey::of(&waiting(site, 0, 0).context));
    let queues = sites.flat_map(|site| [(site, (0, 0)), (site, (1, 20))]).collect::<Vec<_>>();
    let queues = queues.into_iter().map(|(site, from)| index.queued(site, from, 5).unwrap()).collect();
    let delayed = index.delayed(None, 200, 7).unwrap();
    for (number, (_, entry)) in delayed.iter().enumerate() {
        let behind = index.delayed(Some(*entry), 200, 7).unwrap();
        assert_eq!(behind[..delayed.len() - number - 1], delayed[number + 1..]);
        assert_eq!(index.delayed(Some(*entry), 0, 7).unwrap(), [], "a time before the entry");
    }
    (entries, each, queues, delayed, index.outdated().clone())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_index_on_disk_says_what_the_one_in_memory_says(
        ops in prop::collection::vec(op(), 1..80), far in any::<bool>(), filtered in any::<bool>(),
    ) {
        let (_directory, store) = opened();
        let other = store.partition(256).unwrap();
        let (mut memory, mut disk) = (MemoryIndex::default(), store.partition(1).unwrap());
        if filtered {
            disk.each(&mut |_, _| ()).unwrap();
        }
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
            match op {
                Op::Write => disk.write().unwrap(),
                Op::Reopen => {
                    disk.write().unwrap();
                    disk = store.partition(1).unwrap();
                    prop_assert_eq!(disk.position(), Some(at(offset)));
                    prop_assert_eq!(disk.outdated(), memory.outdated());
                    // A partition does so when it opens, which may be after more changes.
                    if offset.is_multiple_of(2) {
                        disk.each(&mut |_, _| ()).unwrap();
                    }
                }
                _ => {}
            }
        }
        prop_assert_eq!(said(&mut disk), said(&mut memory));
        prop_assert_eq!(disk.len, said(&mut memory).1.len() as u64);
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
        let files = std::fs::read_dir(directory.path().join("records/1")).unwrap();
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
    index.each(&mut |_, _| ()).unwrap();
    (0..4).for_each(|number| put(&mut index, number));
    end(&mut index, 1);
    assert_eq!(files(), ["0", "2", "3"]);
    drop(index);
    let mut index = store.partition(1).unwrap();
    end(&mut index, 2);
    end(&mut index, 3);
    assert_eq!(files(), ["0", "2", "3"], "records are not counted yet");
    index.each(&mut |_, _| ()).unwrap();
    put(&mut index, 4);
    assert_eq!(files(), ["0", "4"]);
    assert_eq!(index.waiting(0).unwrap(), waiting(0, 0, 0));
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
fn what_stands_without_a_position_is_thrown_away_and_other_partitions_stay() {
    let (_directory, store) = opened();
    drop((filled(&store, 1), filled(&store, 256)));
    for torn in [&[7, 0, 0][..], &Mark { position: at(7), writes: 9, entries: 1 }.encode()] {
        drop(filled(&store, 1));
        assert_eq!(store.position(1).unwrap(), Some(at(7)));
        store.entries.insert([0x40, 1], torn).unwrap();
        assert_eq!(store.position(1).unwrap(), None, "a torn mark, or one that the other tables do not have, is none");
        assert_eq!(said(&mut store.partition(1).unwrap()), said(&mut MemoryIndex::default()));
    }
    assert!(store.partition(256).unwrap().entry(fingerprint(1)).unwrap().is_some());
}

#[test]
fn a_damaged_or_condemned_store_and_one_of_another_version_are_built_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("frontier");
    let breaks: [fn(&std::path::Path, FrontierIndex); 4] = [
        |path, store| {
            drop(store);
            std::fs::write(path.join("version"), b"nonsense").unwrap();
        },
        // As a creation that was cut short leaves it.
        |path, store| {
            drop(store);
            std::fs::remove_file(path.join("version")).unwrap();
        },
        |_, store| store.condemn(),
        |_, store| drop(store.database.keyspace("places-0", Default::default).unwrap()),
    ];
    for break_it in breaks {
        let store = FrontierIndex::open(&path).unwrap();
        drop(filled(&store, 1));
        break_it(&path, store);
        assert_eq!(FrontierIndex::open(&path).unwrap().position(1).unwrap(), None);
    }
}

#[test]
fn a_value_that_cannot_be_is_damage_and_names_the_directory() {
    let (directory, store) = opened();
    let mut index = filled(&store, 1);
    let records = std::fs::OpenOptions::new().write(true).open(directory.path().join("records/1/0")).unwrap();
    records.write_all_at(&[0xff; 20], records.metadata().unwrap().len() - 20).unwrap();
    store.entries.insert([&[0, 1], &fingerprint(2).0[..]].concat(), [1]).unwrap();
    for error in
        [index.waiting(7).unwrap_err(), index.waiting(8).unwrap_err(), index.entry(fingerprint(2)).unwrap_err()]
    {
        assert!(error.is_damage() && error.to_string().contains(directory.path().to_str().unwrap()), "{error}");
    }
}

#[test]
fn a_directory_in_use_is_refused_and_so_is_a_partition_out_of_range() {
    let (directory, store) = opened();
    assert!(matches!(FrontierIndex::open(directory.path()), Err(IndexError::InUse { .. })));
    assert!(matches!(store.partition(16_384), Err(IndexError::Partition(16_384))));
    assert!(store.partition(16_383).is_ok());
}
