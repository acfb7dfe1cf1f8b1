//! Damage: a torn tail is cut off; anything else is reported with file and byte position.

use std::{fs, os::unix::fs::FileExt, path::Path};

use orbweaver_log::{Log, LogError};

use crate::fixture::{KEEP, append, created, files, filled, killed, open, read_all, tp, try_open, try_read_all};

fn flip(path: &Path, position: u64) {
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, position).unwrap();
    file.write_all_at(&[byte[0] ^ 0x40], position).unwrap();
}

fn damage(error: Option<LogError>) -> (String, u64, String) {
    match error {
        Some(LogError::Corrupt { file, position, reason }) => (file, position, reason),
        other => panic!("the damage was not reported: {other:?}"),
    }
}

/// Returns the log of a killed process, with nine records in one segment that no checkpoint names, and the positions of
/// the records and of their end.
async fn nine_records() -> (tempfile::TempDir, Vec<u64>) {
    let (dir, log) = created();
    let at = tp(KEEP, 0);
    let mut begins = vec![];
    // Numbers of small records, so that all fit in one segment.
    for number in (0..1_500).filter(|number| number * 7_919 % 1_500 < 100).take(9) {
        append(&log, at, [number]).await;
        begins.push(fs::metadata(&files(dir.path(), at)[0]).unwrap().len());
    }
    let copy = killed(dir.path());
    begins.insert(0, 0);
    (copy, begins)
}

/// Cuts the only segment of a log short; the log then has `kept` of its records, and continues after them.
async fn cut_short(origin: &Path, cut: u64, kept: usize) {
    let at = tp(KEEP, 0);
    let dir = killed(origin);
    fs::OpenOptions::new().write(true).open(&files(dir.path(), at)[0]).unwrap().set_len(cut).unwrap();
    let log = open(dir.path());
    assert_eq!(read_all(&log, at).await.len(), kept, "cut at {cut}");
    append(&log, at, [1]).await;
    log.close().unwrap();
    assert_eq!(read_all(&open(dir.path()), at).await.last(), Some(&(kept as u64, 1)));
}

#[tokio::test]
async fn a_tail_that_is_torn_anywhere_is_cut_off() {
    let (origin, begins) = nine_records().await;
    let [.., last, end] = begins[..] else { panic!("nine records") };
    for cut in (last..=end).step_by(3).chain([last + 1, end - 1, end]) {
        cut_short(origin.path(), cut, if cut == end { 9 } else { 8 }).await;
    }
}

/// Returns the log of a killed process, with a record and a block of eight in one segment, and the start and end of the block.
async fn a_block() -> (tempfile::TempDir, u64, u64) {
    let (dir, log) = created();
    let at = tp(KEEP, 0);
    let mut numbers = (0..1_500).filter(|number| number * 7_919 % 1_500 < 100);
    append(&log, at, numbers.next()).await;
    let length = || fs::metadata(&files(dir.path(), at)[0]).unwrap().len();
    let begin = length();
    append(&log, at, numbers.take(8)).await;
    let end = length();
    (killed(dir.path()), begin, end)
}

#[tokio::test]
async fn a_torn_block_is_cut_off_with_all_its_records() {
    let (origin, begin, end) = a_block().await;
    for cut in (begin..end).step_by(11).chain([end - 1, end]) {
        cut_short(origin.path(), cut, if cut == end { 9 } else { 1 }).await;
    }
}

#[tokio::test]
async fn damage_before_a_block_is_reported() {
    let (dir, _, _) = a_block().await;
    flip(&files(dir.path(), tp(KEEP, 0))[0], 20);
    let (_, found, reason) = damage(try_open(dir.path()).err());
    assert_eq!(found, 0);
    assert!(reason.contains("complete records follow"), "{reason}");
}

#[tokio::test]
async fn garbage_behind_the_last_record_is_cut_off() {
    let (origin, _) = nine_records().await;
    let at = tp(KEEP, 0);
    for garbage in [vec![0; 1], vec![0; 5_000], vec![0xff; 300], (0..=255).collect()] {
        let dir = killed(origin.path());
        let path = &files(dir.path(), at)[0];
        let whole = fs::read(path).unwrap();
        fs::write(path, [whole.clone(), garbage].concat()).unwrap();
        assert_eq!(read_all(&open(dir.path()), at).await.len(), 9);
        assert_eq!(fs::read(path).unwrap(), whole);
    }
}

#[tokio::test]
async fn damage_before_whole_records_is_reported_and_nothing_is_cut_off() {
    let (origin, begins) = nine_records().await;
    let at = tp(KEEP, 0);
    for position in begins[3]..begins[4] {
        let dir = killed(origin.path());
        let path = &files(dir.path(), at)[0];
        flip(path, position);
        let before = fs::read(path).unwrap();
        for _ in 0..2 {
            let (file, found, reason) = damage(try_open(dir.path()).err());
            assert_eq!((file.as_str(), found), (path.to_str().unwrap(), begins[3]), "{reason}");
        }
        assert_eq!(fs::read(path).unwrap(), before);
    }
}

#[tokio::test]
async fn damage_in_an_old_segment_is_reported_when_it_is_read() {
    let at = tp(KEEP, 0);
    let (dir, log) = filled(at, 0..100).await;
    log.close().unwrap();
    let damaged = &files(dir.path(), at)[2];
    flip(damaged, 50);
    let log = open(dir.path());
    let (file, position, _) = damage(try_read_all(&log, at).await.err());
    assert_eq!((file.as_str(), position), (damaged.to_str().unwrap(), 0));

    // Records before the damage are delivered, and those behind it too if reading starts there.
    let base: u64 = damaged.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let mut reader = log.reader(at, base - 1).await.unwrap();
    let wait = std::time::Duration::from_secs(5);
    assert_eq!(reader.read(wait).await.unwrap().len(), 1);
    assert!(reader.read(wait).await.is_err() && reader.read(wait).await.is_err());
    assert_eq!(reader.position(), base);
    let mut reader = log.reader(at, 99).await.unwrap();
    assert_eq!(reader.read(wait).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_file_that_is_missing_or_shorter_is_reported() {
    let at = tp(KEEP, 0);
    let (dir, log) = filled(at, 0..100).await;
    log.close().unwrap();
    let count = files(dir.path(), at).len();
    assert!(count > 5);
    for (index, shorten) in [(1, false), (count - 1, false), (1, true), (count - 1, true)] {
        let dir = killed(dir.path());
        let path = &files(dir.path(), at)[index];
        if shorten {
            let file = fs::OpenOptions::new().write(true).open(path).unwrap();
            file.set_len(file.metadata().unwrap().len() - 1).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
        let (_, _, reason) = damage(try_open(dir.path()).err());
        assert!(["missing", "ends here", "does not end"].iter().any(|part| reason.contains(part)), "{reason}");
    }
}

#[tokio::test]
async fn damaged_commits_are_reported_and_torn_ones_cut_off() {
    let at = tp(KEEP, 0);
    let (dir, log) = created();
    let mut consumer = log.consumer("group", &[KEEP]).unwrap();
    for offset in 0..10 {
        let commit = orbweaver_log::Commit { offset, metadata: "m".to_owned() };
        consumer.commit(vec![(at, commit)]).await.unwrap();
    }
    let commits = "commits.0";
    let whole = fs::read(dir.path().join(commits)).unwrap();
    let committed = async |dir: &Path| open(dir).committed("group", &[at]).await.unwrap()[0].clone().unwrap();

    let torn = killed(dir.path());
    fs::write(torn.path().join(commits), &whole[..whole.len() - 3]).unwrap();
    assert_eq!(committed(torn.path()).await.offset, 8);

    let damaged = killed(dir.path());
    flip(&damaged.path().join(commits), 100);
    let (file, _, _) = damage(try_open(damaged.path()).err());
    assert!(file.ends_with(commits), "{file}");
}
