//! Completion and retention on a log.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use crate::play::{
    watched::{UNANSWERED, Watched},
    *,
};
use futures::future::{FutureExt as _, ready};
use orbweaver_log::{Commit, Log, MemoryLog, Record, TopicPartition};
use orbweaver_messages::{Topic, topic};
use orbweaver_stage::{
    completion::{GroupTopic, OffsetSnapshot},
    retention::{Bound, Declarations, DeclaredGroups, Retention, TopicRetention},
};

async fn commit(log: &MemoryLog, group: &str, tp: TopicPartition, offset: u64) {
    let mut member = log.consumer(group, &[tp.topic]).unwrap();
    while member.poll(Duration::ZERO).await.unwrap().is_some() {}
    member.commit(vec![(tp, Commit { offset, metadata: String::new() })]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_crawl_is_complete_when_two_readings_find_no_record_and_no_moved_end() {
    let log = MemoryLog::new(&specs());
    let tp = at(topic::OUTCOMES, 1);
    let declared = [GroupTopic { group: "frontier".to_owned(), topic: topic::OUTCOMES }];
    let read = || async { OffsetSnapshot::take(&log, &declared).await.unwrap() };
    let empty = read().await;
    assert!(read().await.confirms_completion(&empty), "an empty log is caught up without any commit");
    fill(&log, tp, "outcome", 5).await;
    commit(&log, "frontier", tp, 3).await;
    let behind = read().await;
    assert!(!behind.is_caught_up());
    assert_eq!(behind.lags().map(|(_, lag)| lag).collect::<Vec<_>>(), [2]);
    commit(&log, "frontier", tp, 5).await;
    let first = read().await;
    assert!(first.is_caught_up());
    assert!(!first.confirms_completion(&empty), "an end moved");
    assert!(read().await.confirms_completion(&first));
}

#[tokio::test(start_paused = true)]
async fn a_compacted_tail_counts_as_worked_off_and_a_commit_beyond_the_end_is_an_error() {
    let log = MemoryLog::new(&specs());
    let tp = at(topic::FRONTIER, 0);
    let declared = [GroupTopic { group: "frontier".to_owned(), topic: topic::FRONTIER }];
    let mut tombstone = record(tp, "");
    tombstone.value = None;
    log.append(vec![record(tp, "url"), tombstone]).await.unwrap();
    commit(&log, "frontier", tp, 1).await;
    assert!(!OffsetSnapshot::take(&log, &declared).await.unwrap().is_caught_up());
    log.compact(tp).unwrap();
    let reading = OffsetSnapshot::take(&log, &declared).await.unwrap();
    assert!(reading.is_caught_up(), "no record is between commit point and end");
    commit(&log, "frontier", tp, 9).await;
    let error = OffsetSnapshot::take(&log, &declared).await.unwrap_err().to_string();
    assert!(error.contains("crawl.frontier/0: the group `frontier` has committed 9, but the log ends at 2"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_all_groups_have_worked_off_is_deleted_save_what_is_read_back() {
    let log = MemoryLog::new(&specs());
    let tp = at(topic::OUTCOMES, 0);
    // From a clock that is an hour behind, or ahead: a record's own timestamp does not determine its age.
    for timestamp_ms in [9_000 - 3_600_000, 9_000 + 3_600_000] {
        let records = (0..5).map(|_| Record { timestamp_ms, ..record(tp, "outcome") }).collect();
        log.append(records).await.unwrap();
    }
    let expiring = TopicRetention {
        topic: topic::OUTCOMES,
        groups: vec!["frontier".to_owned(), "rate-limiter".to_owned()],
        keep_back: Duration::from_secs(5),
        bound: Bound::default(),
    };
    let start = || async { log.bounds(tp).await.unwrap().start };
    let mut retention = Retention::new(Arc::new(log.clone()), vec![expiring]);
    commit(&log, "frontier", tp, 8).await;
    assert_eq!(retention.sweep(9_000).await.unwrap(), 0);
    assert_eq!(retention.sweep(14_000).await.unwrap(), 0);
    assert_eq!(start().await, 0, "the other group has not begun");
    commit(&log, "rate-limiter", tp, 9).await;
    assert_eq!(retention.sweep(14_000).await.unwrap(), 1);
    assert_eq!(start().await, 8, "never above the lowest commit point");
    assert_eq!(retention.sweep(14_000).await.unwrap(), 0, "nothing more to delete");

    log.append((0..4).map(|_| record(tp, "outcome")).collect()).await.unwrap();
    for group in ["frontier", "rate-limiter"] {
        commit(&log, group, tp, 14).await;
    }
    for (now, first) in [(15_000, 10), (19_999, 10), (20_000, 14)] {
        retention.sweep(now).await.unwrap();
        assert_eq!(start().await, first, "at {now}: the result of 15000 is kept for five seconds");
    }
}

fn of_users(bound: Bound) -> TopicRetention {
    TopicRetention { topic: topic::DOCUMENTS, groups: vec![], keep_back: Duration::ZERO, bound }
}

/// Declared groups: the answers to the next calls, of which the last one stays.
#[derive(Default)]
struct Groups(Mutex<VecDeque<Vec<String>>>);

impl Groups {
    fn declare(&self, answers: &[&[&str]]) {
        let owned = |groups: &&[&str]| -> Vec<String> { groups.iter().map(|group| (*group).to_owned()).collect() };
        *self.0.lock().unwrap() = answers.iter().map(owned).collect();
    }
}

impl Declarations for Groups {
    fn of(&self, _: Topic) -> DeclaredGroups<'_> {
        let mut answers = self.0.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        ready(Ok(answer.unwrap_or_default())).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_declared_group_keeps_records_an_undeclared_one_does_not_and_a_removed_one_no_more() {
    let log = MemoryLog::new(&specs());
    let tp = at(topic::DOCUMENTS, 0);
    fill(&log, tp, "document", 10).await;
    let bound = Bound { age: Some(Duration::from_secs(1)), bytes: None };
    let start = || async { log.bounds(tp).await.unwrap().start };
    let groups = Arc::new(Groups::default());
    let mut retention = Retention::new(Arc::new(log.clone()), vec![of_users(bound)]).with_declarations(groups.clone());
    commit(&log, "indexer", tp, 2).await;
    commit(&log, "curious", tp, 1).await;
    groups.declare(&[&["indexer", "begins-later"]]);
    retention.sweep(i64::MAX).await.unwrap();
    assert_eq!(start().await, 0, "one of the declared groups has no commit");
    groups.declare(&[&["indexer"]]);
    retention.sweep(i64::MAX).await.unwrap();
    assert_eq!(start().await, 2, "however old, and whatever an undeclared group has committed");
    commit(&log, "indexer", tp, 7).await;
    retention.sweep(i64::MAX).await.unwrap();
    assert_eq!(start().await, 7);
    groups.declare(&[]);
    retention.sweep(i64::MAX).await.unwrap();
    assert_eq!(start().await, 10, "without a declared group the bound applies");
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_declared_while_a_sweep_runs_keeps_what_it_began_at() {
    let log = MemoryLog::new(&specs());
    let tp = at(topic::DOCUMENTS, 0);
    fill(&log, tp, "document", 10).await;
    commit(&log, "indexer", tp, 2).await;
    commit(&log, "collector", tp, 7).await;
    let start = || async { log.bounds(tp).await.unwrap().start };
    let bound = Bound { age: Some(Duration::from_secs(1)), bytes: None };
    let groups = Arc::new(Groups::default());
    let mut retention = Retention::new(Arc::new(log.clone()), vec![of_users(bound)]).with_declarations(groups.clone());
    // Known at the start of the sweep, and when it has determined what to delete.
    let cases: [(&[&str], &[&str]); 2] = [(&[], &["indexer"]), (&["collector"], &["collector", "indexer"])];
    for (known, then) in cases {
        groups.declare(&[known, then]);
        assert_eq!(retention.sweep(i64::MAX).await.unwrap(), 0);
        assert_eq!(start().await, 0, "the group begins at 2");
    }
    assert_eq!(retention.sweep(i64::MAX).await.unwrap(), 1);
    assert_eq!(start().await, 2, "the next sweep considers the group");
}

#[tokio::test(start_paused = true)]
async fn without_a_declared_group_a_topic_of_users_is_bounded_by_age_and_bytes_and_else_kept() {
    let log = MemoryLog::new(&specs());
    let tp = at(topic::DOCUMENTS, 0);
    let partitions = u64::from(log.partitions(topic::DOCUMENTS).unwrap());
    let mut records: Vec<_> = (0..100).map(|_| record(tp, &"d".repeat(1000))).collect();
    for (record, number) in records.iter_mut().zip(0..) {
        record.timestamp_ms = number * 1000;
    }
    log.append(records).await.unwrap();
    let start = async |bound| {
        Retention::new(Arc::new(log.clone()), vec![of_users(bound)]).sweep(100_000).await.unwrap();
        log.bounds(tp).await.unwrap().start
    };
    assert_eq!(start(Bound::default()).await, 0);
    assert_eq!(start(Bound { age: Some(Duration::from_secs(90)), bytes: None }).await, 10);
    let half = start(Bound { age: None, bytes: Some(50_000 * partitions) }).await;
    assert!((45..=55).contains(&half), "{half}");
    assert_eq!(start(Bound { age: Some(Duration::from_secs(20)), bytes: Some(90_000 * partitions) }).await, 80);
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_cannot_be_swept_holds_up_no_other() {
    let log = MemoryLog::new(&specs());
    let groups = [(topic::SEEDS, UNANSWERED), (topic::DISCOVERED, "dedup"), (topic::OUTCOMES, "frontier")];
    let mut expiring = vec![];
    for (topic, group) in groups {
        for partition in 0..PARTITIONS {
            fill(&log, at(topic, partition), "record", 5).await;
            commit(&log, group, at(topic, partition), 5).await;
        }
        let groups = vec![group.to_owned()];
        expiring.push(TopicRetention { topic, groups, keep_back: Duration::ZERO, bound: Bound::default() });
    }
    let starts = async || {
        let mut starts = vec![];
        for (topic, _) in groups {
            for partition in 0..PARTITIONS {
                starts.push(log.bounds(at(topic, partition)).await.unwrap().start);
            }
        }
        starts
    };
    let troubled = Arc::new(Watched::new(&log));
    troubled.is_troubled.store(true, Ordering::Relaxed);
    let mut retention = Retention::new(troubled.clone(), expiring);
    let swept = tokio::time::timeout(Duration::from_secs(600), retention.sweep(0)).await;
    let error = swept.unwrap().unwrap_err();
    assert_eq!(starts().await, [0, 0, 0, 0, 0, 5, 5, 5, 5, 0, 5, 5]);
    assert_eq!(error.tps, 6);
    assert_eq!(error.first.to_string(), "the log is unavailable: crawl.seeds took longer than 20s");
    troubled.is_troubled.store(false, Ordering::Relaxed);
    assert_eq!(retention.sweep(0).await.unwrap(), 6);
    assert_eq!(starts().await, [5; 12]);
}
