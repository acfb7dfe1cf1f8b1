//! Completion and retention, read off a log.

#![allow(clippy::unwrap_used, reason = "a fault of the play itself fails the test")]

mod play;

use std::{sync::Arc, time::Duration};

use orbweaver_log::{Commit, Log, MemoryLog, TopicPartition};
use orbweaver_messages::topic;
use orbweaver_stage::{
    completion::{Declared, Reading},
    retention::{Expiring, Retention},
};
use play::*;

async fn commit(log: &MemoryLog, group: &str, place: TopicPartition, offset: u64) {
    let mut member = log.consumer(group, &[place.topic]).unwrap();
    while member.poll(Duration::ZERO).await.unwrap().is_some() {}
    member.commit(vec![(place, Commit { offset, metadata: String::new() })]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_crawl_is_complete_when_two_readings_find_no_record_and_no_moved_end() {
    let log = MemoryLog::new(&specs());
    let place = at(topic::OUTCOMES, 1);
    let declared = [Declared { group: "frontier".to_owned(), topic: topic::OUTCOMES }];
    let read = || async { Reading::take(&log, &declared).await.unwrap() };
    let empty = read().await;
    assert!(read().await.proves_completion_after(&empty), "an empty log is worked off, without any commit");
    fill(&log, place, "outcome", 5).await;
    commit(&log, "frontier", place, 3).await;
    let behind = read().await;
    assert!(!behind.is_worked_off());
    assert_eq!(behind.lags().map(|(_, lag)| lag).collect::<Vec<_>>(), [2]);
    commit(&log, "frontier", place, 5).await;
    let first = read().await;
    assert!(first.is_worked_off());
    assert!(!first.proves_completion_after(&empty), "an end moved");
    assert!(read().await.proves_completion_after(&first));
}

#[tokio::test(start_paused = true)]
async fn a_compacted_tail_counts_as_worked_off_and_a_commit_beyond_the_end_is_an_error() {
    let log = MemoryLog::new(&specs());
    let place = at(topic::FRONTIER, 0);
    let declared = [Declared { group: "frontier".to_owned(), topic: topic::FRONTIER }];
    let mut tombstone = record(place, "");
    tombstone.value = None;
    log.append(vec![record(place, "url"), tombstone]).await.unwrap();
    commit(&log, "frontier", place, 1).await;
    assert!(!Reading::take(&log, &declared).await.unwrap().is_worked_off());
    log.compact(place).unwrap();
    let reading = Reading::take(&log, &declared).await.unwrap();
    assert!(reading.is_worked_off(), "no record lies between commit point and end");
    commit(&log, "frontier", place, 9).await;
    let error = Reading::take(&log, &declared).await.unwrap_err().to_string();
    assert!(error.contains("crawl.frontier/0: the group `frontier` stands at 9, but the log ends at 2"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_all_groups_have_worked_off_is_deleted_save_what_is_read_back() {
    let log = MemoryLog::new(&specs());
    let place = at(topic::OUTCOMES, 0);
    let mut records: Vec<_> = (0..10).map(|_| record(place, "outcome")).collect();
    for (record, number) in records.iter_mut().zip(0..) {
        record.timestamp_ms = number * 1000;
    }
    log.append(records).await.unwrap();
    let expiring = |keep_back_s| Expiring {
        topic: topic::OUTCOMES,
        groups: vec!["frontier".to_owned(), "rate-limiter".to_owned()],
        collectors: vec![],
        keep_back: Duration::from_secs(keep_back_s),
    };
    let start = || async { log.bounds(place).await.unwrap().start };
    let mut retention = Retention::new(Arc::new(log.clone()), vec![expiring(5)]);
    commit(&log, "frontier", place, 8).await;
    assert_eq!(retention.sweep(9000).await.unwrap(), 0);
    assert_eq!(start().await, 0, "the other group has not begun");
    commit(&log, "rate-limiter", place, 9).await;
    assert_eq!(retention.sweep(9000).await.unwrap(), 1);
    assert_eq!(start().await, 4, "the record made five seconds ago stays");
    assert_eq!(retention.sweep(9000).await.unwrap(), 0, "nothing more to delete");
    retention.sweep(60_000).await.unwrap();
    assert_eq!(start().await, 8, "never above the lowest commit point");
}

#[tokio::test(start_paused = true)]
async fn a_collector_keeps_records_from_its_first_commit_on() {
    let log = MemoryLog::new(&specs());
    let place = at(topic::OUTCOMES, 0);
    log.append((0..10).map(|_| record(place, "outcome")).collect()).await.unwrap();
    let expiring = Expiring {
        topic: topic::OUTCOMES,
        groups: vec!["frontier".to_owned()],
        collectors: vec!["exporter".to_owned()],
        keep_back: Duration::ZERO,
    };
    let mut retention = Retention::new(Arc::new(log.clone()), vec![expiring]);
    commit(&log, "frontier", place, 3).await;
    retention.sweep(0).await.unwrap();
    assert_eq!(log.bounds(place).await.unwrap().start, 3, "nobody collects yet");
    commit(&log, "exporter", place, 5).await;
    commit(&log, "frontier", place, 9).await;
    retention.sweep(0).await.unwrap();
    assert_eq!(log.bounds(place).await.unwrap().start, 5);
}
