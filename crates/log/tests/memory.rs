//! The in-memory log: the contract, simulated rebalances and failures.

use std::time::Duration;

use bytes::Bytes;
use orbweaver_log::{
    Cleanup, Commit, Event, Log, LogError, MemoryLog, Record, TopicPartition, TopicSpec, contract,
    memory::ScriptedResult,
};
use orbweaver_messages::Topic;

const PAGES: Topic = Topic("pages");
const WAIT: Duration = Duration::from_secs(5);

fn tp(partition: u32) -> TopicPartition {
    TopicPartition::new(PAGES, partition)
}

fn record(partition: u32, key: &'static str, value: Option<&'static str>) -> Record {
    let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
    Record { tp: tp(partition), key: Some(bytes(key)), value: value.map(bytes), headers: vec![], timestamp_ms: 1 }
}

fn scripted() -> MemoryLog {
    MemoryLog::scripted(&[TopicSpec::new(PAGES, 2, Cleanup::Delete)])
}

#[tokio::test]
async fn the_memory_log_keeps_the_contract() {
    let log = MemoryLog::new(&contract::specs());
    contract::every_log(&log).await;
    contract::one_process(&log).await;
}

#[tokio::test]
async fn a_partition_moves_from_one_member_to_another() {
    let log = scripted();
    log.append(vec![record(0, "a", Some("1")), record(0, "b", Some("2"))]).await.unwrap();
    let mut first = log.consumer("group", &[PAGES]).unwrap();
    let mut second = log.consumer("group", &[PAGES]).unwrap();
    assert!(first.poll(Duration::ZERO).await.unwrap().is_none(), "nothing before the script allows it");

    log.assign("group", 0, &[tp(0), tp(1)]).unwrap();
    assert!(matches!(first.poll(WAIT).await.unwrap(), Some(Event::Assigned(tps)) if tps.len() == 2));
    first.start(tp(0), 0).unwrap();
    assert!(matches!(first.poll(WAIT).await.unwrap(), Some(Event::Records(batch)) if batch.len() == 2));

    log.append(vec![record(0, "c", Some("3"))]).await.unwrap();
    log.revoke("group", 0, &[tp(0)]).unwrap();
    assert!(matches!(first.poll(WAIT).await.unwrap(), Some(Event::Revoked(tps)) if tps == [tp(0)]));
    assert!(first.poll(Duration::ZERO).await.unwrap().is_none(), "a revoked partition delivers nothing");
    first.commit(vec![(tp(0), Commit { offset: 2, metadata: String::new() })]).await.unwrap();
    first.release(&[tp(0)]).unwrap();
    assert_eq!(log.held("group", 0), [tp(1)]);
    let late = first.commit(vec![(tp(0), Commit { offset: 3, metadata: String::new() })]).await;
    assert!(matches!(late, Err(LogError::NotAssigned(_))));

    log.assign("group", 1, &[tp(0)]).unwrap();
    assert!(matches!(second.poll(WAIT).await.unwrap(), Some(Event::Assigned(_))));
    second.start(tp(0), 2).unwrap();
    assert!(matches!(second.poll(WAIT).await.unwrap(), Some(Event::Records(batch)) if batch[0].offset == 2));
}

#[tokio::test]
async fn a_frozen_member_may_not_commit_what_another_one_has() {
    let log = scripted();
    let mut frozen = log.consumer("group", &[PAGES]).unwrap();
    let mut owner = log.consumer("group", &[PAGES]).unwrap();
    log.assign("group", 0, &[tp(0)]).unwrap();
    assert!(matches!(frozen.poll(WAIT).await.unwrap(), Some(Event::Assigned(_))));
    log.assign("group", 1, &[tp(0)]).unwrap();
    let commit = || vec![(tp(0), Commit { offset: 0, metadata: String::new() })];
    assert!(matches!(frozen.commit(commit()).await, Err(LogError::NotAssigned(_))));
    owner.commit(commit()).await.unwrap();
    log.lose("group", 0, &[tp(0)]).unwrap();
    assert!(matches!(frozen.poll(WAIT).await.unwrap(), Some(Event::Lost(_))));
    assert!(matches!(frozen.start(tp(0), 0), Err(LogError::NotAssigned(_))));
}

#[tokio::test]
async fn scripted_failures_come_when_they_should_and_once() {
    let log = scripted();
    log.script_append(ScriptedResult::Pass);
    log.script_append(ScriptedResult::Fail { after: 1, error: LogError::Fatal("away".into()) });
    let batch = || vec![record(0, "a", Some("1")), record(1, "b", Some("2"))];
    log.append(batch()).await.unwrap();
    assert!(matches!(log.append(batch()).await, Err(LogError::Fatal(_))));
    assert_eq!((log.records(tp(0)).len(), log.records(tp(1)).len()), (2, 1));
    log.append(batch()).await.unwrap();

    let mut consumer = log.consumer("group", &[PAGES]).unwrap();
    log.assign("group", 0, &[tp(0)]).unwrap();
    log.script_commit(ScriptedResult::Fail { after: 0, error: LogError::Fatal("away".into()) });
    let commit = || vec![(tp(0), Commit { offset: 1, metadata: String::new() })];
    assert!(consumer.commit(commit()).await.is_err());
    assert_eq!(log.committed("group", &[tp(0)]).await.unwrap(), [None]);
    consumer.commit(commit()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_held_acknowledgement_comes_when_it_is_released() {
    let log = scripted();
    log.hold_appends(true);
    let mut append = log.append(vec![record(0, "a", Some("1"))]);
    assert!(tokio::time::timeout(WAIT, &mut append).await.is_err());
    assert_eq!(log.records(tp(0)).len(), 1, "it took effect");
    log.hold_appends(false);
    assert_eq!(append.await.unwrap(), [0]);
}

#[tokio::test]
async fn a_compaction_leaves_gaps_that_reading_skips() {
    let log = MemoryLog::new(&[TopicSpec::new(PAGES, 2, Cleanup::Compact)]);
    let batch = [("a", Some("1")), ("b", Some("1")), ("a", Some("2")), ("b", None)];
    log.append(batch.map(|(key, value)| record(0, key, value)).to_vec()).await.unwrap();
    log.compact(tp(0)).unwrap();
    let mut reader = log.reader(tp(0), 0).await.unwrap();
    let left = reader.read(WAIT).await.unwrap();
    assert_eq!(left.iter().map(|record| record.offset).collect::<Vec<_>>(), [2]);
    assert_eq!(reader.position(), 4, "what vanished behind the last record is skipped too");
}

#[tokio::test]
async fn an_expelled_member_is_not_told_and_may_not_commit() {
    let log = scripted();
    let mut member = log.consumer("group", &[PAGES]).unwrap();
    log.assign("group", 0, &[tp(0)]).unwrap();
    assert!(!log.has_received("group", 0));
    assert!(matches!(member.poll(WAIT).await.unwrap(), Some(Event::Assigned(_))));
    assert!(log.has_received("group", 0));
    member.start(tp(0), 0).unwrap();
    log.expel("group", 0).unwrap();
    assert_eq!(log.held("group", 0), []);
    log.append(vec![record(0, "a", Some("1"))]).await.unwrap();
    assert!(matches!(member.poll(WAIT).await.unwrap(), Some(Event::Records(_))), "reading is not fenced");
    let late = member.commit(vec![(tp(0), Commit { offset: 1, metadata: String::new() })]).await;
    assert!(matches!(late, Err(LogError::NotAssigned(_))));
}

#[tokio::test]
async fn a_compaction_leaves_what_is_young() {
    let log = MemoryLog::new(&[TopicSpec::new(PAGES, 2, Cleanup::Compact)]);
    let batch = [("a", Some("1")), ("a", Some("2")), ("b", None), ("c", None), ("a", Some("3")), ("a", Some("4"))];
    log.append(batch.map(|(key, value)| record(0, key, value)).to_vec()).await.unwrap();
    log.compact_below(tp(0), 4, 3).unwrap();
    let left: Vec<_> = log.records(tp(0)).iter().map(|record| record.offset).collect();
    assert_eq!(left, [1, 3, 4, 5], "the last below 4, the tombstone from 3 on, and all from 4 on");
}
