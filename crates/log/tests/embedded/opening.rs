//! Opening: locking, refusals and their messages, recovered contents.

use std::fs;

use orbweaver_log::{Bounds, Cleanup, Commit, EmbeddedLog, Log, LogError, TopicSpec};
use tempfile::tempdir;

use crate::fixture::{
    DELETE, KEEP, append, commit, committed, created, filled, open, read_all, specs, still, tp, try_open,
};

fn refusal(error: Option<LogError>) -> String {
    match error {
        Some(LogError::Invalid(reason)) => reason,
        other => panic!("it should be refused, and was not: {other:?}"),
    }
}

#[test]
fn a_second_opener_and_another_number_of_partitions_are_refused() {
    let (dir, log) = created();
    let reason = refusal(EmbeddedLog::open(dir.path(), still(), &specs()).err());
    assert!(reason.contains("in use by another process"), "{reason}");
    log.close().unwrap();
    drop(open(dir.path()));

    let other = [TopicSpec::new(KEEP, 8, Cleanup::Keep)];
    let reason = refusal(EmbeddedLog::open(dir.path(), still(), &other).err());
    assert!(reason.contains("has 2 partitions, not 8; use 2, or create a log in another directory"), "{reason}");
    drop(open(dir.path()));
}

#[test]
fn a_directory_that_is_no_log_stays_untouched() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("thesis.txt"), "precious").unwrap();
    let reason = refusal(try_open(dir.path()).err());
    assert!(reason.contains("thesis.txt"), "{reason}");
    assert!(!dir.path().join("topics").exists());

    let dir = tempdir().unwrap();
    drop(open(dir.path()));
    fs::write(dir.path().join("FORMAT"), "orbweaver log 9\n").unwrap();
    let reason = refusal(try_open(dir.path()).err());
    assert!(reason.contains("orbweaver log 9") && reason.contains("reads `orbweaver log 2`"), "{reason}");
}

#[tokio::test]
async fn a_log_of_the_format_without_blocks_continues_in_the_present_one() {
    let at = tp(KEEP, 0);
    let (dir, log) = created();
    // Records of single appends are in no block.
    for number in 0..3 {
        append(&log, at, [number]).await;
    }
    log.close().unwrap();
    let format = dir.path().join("FORMAT");
    fs::write(&format, "orbweaver log 1\n").unwrap();
    let log = open(dir.path());
    append(&log, at, 3..9).await;
    assert_eq!(read_all(&log, at).await.len(), 9);
    assert_eq!(fs::read_to_string(&format).unwrap(), "orbweaver log 2\n");
}

#[tokio::test]
async fn everything_is_found_again_and_goes_on() {
    let dir = tempdir().unwrap();
    let (one, two) = (tp(KEEP, 0), tp(DELETE, 1));
    for round in 0..3 {
        let log = open(dir.path());
        let all: Vec<_> = (0..round * 100).map(|number| (number, number)).collect();
        assert_eq!(read_all(&log, one).await, all);
        let commit = Commit { offset: round, metadata: format!("round {round}") };
        let earlier = log.committed("group", &[two]).await.unwrap().remove(0);
        assert_eq!(earlier.map(|commit| commit.offset), round.checked_sub(1));
        append(&log, one, round * 100..round * 100 + 100).await;
        append(&log, two, round * 100..round * 100 + 100).await;
        log.delete_below(two, round * 100 + 7).await.unwrap();
        let mut consumer = log.consumer("group", &[DELETE]).unwrap();
        consumer.commit(vec![(two, commit)]).await.unwrap();
        drop(consumer);
        log.close().unwrap();
    }
    let log = open(dir.path());
    assert_eq!(log.bounds(two).await.unwrap(), Bounds { start: 207, end: 300 });
    assert_eq!(read_all(&log, two).await.first(), Some(&(207, 207)));
    for time in [0, 207, 208, 250, 299] {
        assert_eq!(log.offset_at(two, time).await.unwrap(), time.max(207) as u64);
    }
    assert_eq!(log.offset_at(two, 300).await.unwrap(), 300);
}

#[tokio::test]
async fn topics_that_are_not_asked_for_stay_as_they_are() {
    let at = tp(DELETE, 0);
    let (dir, log) = filled(at, 0..100).await;
    log.delete_below(at, 60).await.unwrap();
    commit(&log, 60).await.unwrap();
    log.close().unwrap();

    let others: Vec<_> = specs().into_iter().filter(|spec| spec.topic != DELETE).collect();
    let log = EmbeddedLog::open(dir.path(), still(), &others).unwrap();
    assert!(matches!(log.bounds(at).await, Err(LogError::UnknownTopic(_))));
    append(&log, tp(KEEP, 0), 0..100).await;
    log.close().unwrap();

    let log = open(dir.path());
    assert_eq!(log.bounds(at).await.unwrap(), Bounds { start: 60, end: 100 });
    assert_eq!(committed(&log).await, Some(60));
}
