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

fn commit(offset: u64) -> Vec<(TopicPartition, Commit)> {
    vec![(tp(0), Commit { offset, metadata: String::new() })]
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
    assert!(!log.has_received("group", 0));
    assert!(matches!(first.poll(WAIT).await.unwrap(), Some(Event::Assigned(tps)) if tps.len() == 2));
    assert!(log.has_received("group", 0));
    first.start(tp(0), 0).unwrap();
    assert!(matches!(first.poll(WAIT).await.unwrap(), Some(Event::Records(batch)) if batch.len() == 2));

    log.append(vec![record(0, "c", Some("3"))]).await.unwrap();
    log.revoke("group", 0, &[tp(0)]).unwrap();
    assert!(matches!(first.poll(WAIT).await.unwrap(), Some(Event::Revoked(tps)) if tps == [tp(0)]));
    assert!(first.poll(Duration::ZERO).await.unwrap().is_none(), "a revoked partition delivers nothing");
    first.commit(commit(2)).await.unwrap();
    first.release(&[tp(0)]).unwrap();
    assert_eq!(log.held("group", 0), [tp(1)]);
    assert!(matches!(first.commit(commit(3)).await, Err(LogError::NotAssigned(_))));

    log.assign("group", 1, &[tp(0)]).unwrap();
    assert!(matches!(second.poll(WAIT).await.unwrap(), Some(Event::Assigned(_))));
    second.start(tp(0), 2).unwrap();
    assert!(matches!(second.poll(WAIT).await.unwrap(), Some(Event::Records(batch)) if batch[0].offset == 2));
}

#[tokio::test]
async fn a_member_that_is_expelled_or_whose_partition_another_one_has_is_not_told_and_may_not_commit() {
    for by_another in [false, true] {
        let log = scripted();
        let mut fenced = log.consumer("group", &[PAGES]).unwrap();
        let mut other = log.consumer("group", &[PAGES]).unwrap();
        log.assign("group", 0, &[tp(0)]).unwrap();
        assert!(matches!(fenced.poll(WAIT).await.unwrap(), Some(Event::Assigned(_))));
        fenced.start(tp(0), 0).unwrap();
        if by_another { log.assign("group", 1, &[tp(0)]) } else { log.expel("group", 0) }.unwrap();
        assert_eq!(log.held("group", 0), []);
        assert!(matches!(fenced.commit(commit(0)).await, Err(LogError::NotAssigned(_))));
        assert_eq!(other.commit(commit(0)).await.is_ok(), by_another);
        log.append(vec![record(0, "a", Some("1"))]).await.unwrap();
        assert!(matches!(fenced.poll(WAIT).await.unwrap(), Some(Event::Records(_))), "reading is not fenced");
        log.lose("group", 0, &[tp(0)]).unwrap();
        assert!(matches!(fenced.poll(WAIT).await.unwrap(), Some(Event::Lost(_))));
        assert!(matches!(fenced.start(tp(0), 0), Err(LogError::NotAssigned(_))));
    }
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
    assert!(consumer.commit(commit(1)).await.is_err());
    assert_eq!(log.committed("group", &[tp(0)]).await.unwrap(), [None]);
    consumer.commit(commit(1)).await.unwrap();
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
async fn a_compaction_leaves_what_is_young_and_gaps_that_reading_skips() {
    let log = MemoryLog::new(&[TopicSpec::new(PAGES, 2, Cleanup::Compact)]);
    let (one, two) = (Some("1"), Some("2"));
    let batch = [("a", one), ("a", two), ("b", None), ("c", None), ("a", one), ("a", two), ("b", None)];
    log.append(batch.map(|(key, value)| record(0, key, value)).to_vec()).await.unwrap();
    log.compact_below(tp(0), 4, 3).unwrap();
    let left: Vec<_> = log.records(tp(0)).iter().map(|record| record.offset).collect();
    assert_eq!(left, [1, 3, 4, 5, 6], "the last below 4, the tombstone from 3 on, and all from 4 on");
    log.compact(tp(0)).unwrap();
    let mut reader = log.reader(tp(0), 0).await.unwrap();
    assert_eq!(reader.read(WAIT).await.unwrap().iter().map(|record| record.offset).collect::<Vec<_>>(), [5]);
    assert_eq!(reader.position(), 7, "what vanished behind the last record is skipped too");
}
