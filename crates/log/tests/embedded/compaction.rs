//! Compaction keeps the last record of each key, at its offset, in any sequence of operations.

use std::{collections::HashMap, fs, time::Duration};

use bytes::Bytes;
use orbweaver_log::{EmbeddedLog, Log, Options, Record};
use proptest::prelude::*;
use tempfile::tempdir;

use crate::fixture::{COMPACT, files, filled, killed, open, read_all, record, specs, still, tp};

const DAY_MS: i64 = 24 * 3_600_000;

/// Offset, key, and whether the record has a value.
type Seen = Vec<(u64, Bytes, bool)>;

async fn contents(log: &dyn Log) -> Seen {
    let at = tp(COMPACT, 0);
    let bounds = log.bounds(at).await.unwrap();
    let mut reader = log.reader(at, bounds.start).await.unwrap();
    let mut seen = vec![];
    while reader.position() < bounds.end {
        let batch = reader.read(Duration::from_secs(5)).await.unwrap();
        seen.extend(batch.into_iter().map(|record| (record.offset, record.key.unwrap(), record.value.is_some())));
    }
    seen
}

fn tombstone(number: u64, timestamp_ms: i64) -> Record {
    Record { value: None, timestamp_ms, ..record(tp(COMPACT, 0), number) }
}

#[tokio::test]
async fn superseded_records_go_and_the_last_of_each_key_stays() {
    let at = tp(COMPACT, 0);
    let (dir, log) = filled(at, 0..1_000).await;
    log.flush().unwrap();
    let mut slow = log.reader(at, 10).await.unwrap();
    let first = slow.read(Duration::from_secs(5)).await.unwrap();
    let before = log.bytes(COMPACT).unwrap();
    let replaced = log.maintain(DAY_MS).unwrap();
    let after = log.bytes(COMPACT).unwrap();
    assert!(replaced > 10 * (after + replaced - before), "of {before} bytes, {after} are left");
    assert!(after < before / 5);

    let all = read_all(&log, at).await;
    assert!(all.iter().all(|(offset, number)| offset == number), "offsets stay");
    for key in 0..50 {
        assert!(all.contains(&(950 + key, 950 + key)), "the last record of key {key}");
    }
    assert_eq!(log.bounds(at).await.unwrap().end, 1_000);
    // A reader of the old files continues in the new ones.
    let next = first.last().unwrap().offset + 1;
    assert_eq!(slow.position(), next);
    while slow.position() < 1_000 {
        slow.read(Duration::from_secs(5)).await.unwrap();
    }
    assert_eq!(log.maintain(DAY_MS).unwrap(), 0, "nothing is left to do");
    drop(slow);
    log.close().unwrap();

    let log = open(dir.path());
    assert_eq!(read_all(&log, at).await, all);
    assert_eq!(log.maintain(DAY_MS).unwrap(), 0, "and that is known after a restart");
    assert_eq!(log.offset_at(at, 990).await.unwrap(), 990);
}

#[tokio::test]
async fn of_large_blocks_too_only_superseded_records_go() {
    let (dir, at) = (tempdir().unwrap(), tp(COMPACT, 0));
    let options = Options { segment_bytes: 256 << 10, ..still() };
    let log = EmbeddedLog::open(dir.path(), options, &specs()).unwrap();
    let key = |number: u64| Some(Bytes::from(format!("key {number}")));
    // In the first blocks each tenth record is superseded, in the others none.
    let numbers = (0..3_000).chain((0..1_000).step_by(10)).chain(3_000..4_000);
    log.append(numbers.map(|number| Record { key: key(number), ..record(at, number) }).collect()).await.unwrap();
    log.flush().unwrap();
    let all = contents(&log).await;
    assert!(log.maintain(DAY_MS).unwrap() > 0);
    let kept = contents(&log).await;
    let superseded = |offset: u64| offset < 1_000 && offset.is_multiple_of(10);
    assert_eq!(kept, all.into_iter().filter(|(offset, ..)| !superseded(*offset)).collect::<Vec<_>>());
    log.close().unwrap();
    assert_eq!(contents(&open(dir.path())).await, kept);
}

#[tokio::test]
async fn a_tombstone_goes_when_it_is_old_and_what_it_ended_never_comes_back() {
    let at = tp(COMPACT, 0);
    let (_dir, log) = filled(at, 0..100).await;
    log.append((0..50).map(|key| tombstone(key, 1_000)).collect()).await.unwrap();
    // Other keys, to complete the segments of the tombstones.
    log.append((0..40).map(|_| Record { key: Some("other".into()), ..record(at, 77) }).collect()).await.unwrap();
    log.flush().unwrap();
    log.maintain(DAY_MS).unwrap();
    let ended = |seen: &Seen| seen.iter().filter(|(_, _, value)| !value).count();
    let seen = contents(&log).await;
    assert_eq!(ended(&seen), 50, "a young tombstone stays for who reads slowly");
    assert!(seen.iter().all(|(_, key, value)| !value || key == "other"), "what they ended is gone");

    log.append((0..40).map(|_| Record { key: Some("other".into()), ..record(at, 77) }).collect()).await.unwrap();
    log.flush().unwrap();
    log.maintain(2 * DAY_MS).unwrap();
    let seen = contents(&log).await;
    assert_eq!(ended(&seen), 0);
    assert!(seen.iter().all(|(_, key, _)| key == "other"));
}

#[tokio::test]
async fn an_interrupted_compaction_is_completed_when_the_log_is_opened() {
    let at = tp(COMPACT, 0);
    let (dir, log) = filled(at, 0..500).await;
    log.flush().unwrap();
    let old = killed(dir.path());
    log.maintain(DAY_MS).unwrap();
    let all = read_all(&log, at).await;
    drop(log);
    // The new file is in place, the old ones behind it still exist, and another copy was begun.
    for path in files(old.path(), at) {
        let target = files(dir.path(), at)[0].with_file_name(path.file_name().unwrap());
        if !target.exists() {
            fs::copy(path, target).unwrap();
        }
    }
    fs::write(files(dir.path(), at)[0].with_extension("tmp"), "half").unwrap();
    let log = open(dir.path());
    assert_eq!(read_all(&log, at).await, all);
    assert!(files(dir.path(), at).iter().all(|path| path.extension().unwrap() == "log"));
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8),
    End(u8),
    Flush,
    Maintain,
    Delete(u8),
    Kill,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => (0..12u8).prop_map(Step::Put),
        6 => (0..12u8).prop_map(Step::End),
        3 => Just(Step::Flush),
        3 => Just(Step::Maintain),
        1 => (0..20u8).prop_map(Step::Delete),
        1 => Just(Step::Kill),
    ];
    prop::collection::vec(step, 1..120)
}

async fn run(steps: Vec<Step>) {
    let mut dir = tempdir().unwrap();
    let options = Options { compaction_keys: 5, tombstone_retention: Duration::ZERO, ..still() };
    let open = |dir: &tempfile::TempDir| EmbeddedLog::open(dir.path(), options.clone(), &specs()).unwrap();
    let mut log = open(&dir);
    let at = tp(COMPACT, 0);
    let mut last: HashMap<Bytes, (u64, bool)> = HashMap::new();
    for step in steps {
        match step {
            Step::Put(key) | Step::End(key) => {
                let value = matches!(step, Step::Put(_)).then(|| Bytes::from(vec![key; 700]));
                let key = Bytes::from(vec![key]);
                let record = Record { tp: at, key: Some(key.clone()), value, headers: vec![], timestamp_ms: 5 };
                let there = record.value.is_some();
                let offset = log.append(vec![record]).await.unwrap()[0];
                last.insert(key, (offset, there));
            }
            Step::Flush => log.flush().unwrap(),
            Step::Maintain => _ = log.maintain(10).unwrap(),
            Step::Delete(back) => {
                let end = log.bounds(at).await.unwrap().end;
                let before = end.saturating_sub(u64::from(back));
                log.delete_below(at, before).await.unwrap();
                last.retain(|_, (offset, _)| *offset >= before);
            }
            Step::Kill => {
                let copy = killed(dir.path());
                // The kill may lose a deletion; it is repeated, as its owner would.
                let start = log.bounds(at).await.unwrap().start;
                drop(log);
                dir = copy;
                log = open(&dir);
                log.delete_below(at, start).await.unwrap();
            }
        }
        let seen = contents(&log).await;
        let found: HashMap<_, _> = seen.iter().map(|(offset, key, value)| (key.clone(), (*offset, *value))).collect();
        for (key, wanted) in &last {
            match found.get(key) {
                Some(found) => assert_eq!(found, wanted, "the last record of {key:?}"),
                None => assert!(!wanted.1, "{key:?} is lost"),
            }
        }
        assert!(found.keys().all(|key| last.contains_key(key)), "a key came back");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn the_last_record_of_each_key_is_what_a_reader_ends_up_with(steps in steps()) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run(steps));
    }
}
