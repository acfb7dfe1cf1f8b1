//! Test logs, and records whose content shows whether they are intact.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use bytes::Bytes;
use orbweaver_log::{
    Cleanup, Commit, Consumer, ConsumerRecord, EmbeddedLog, Log, LogError, Offset, Options, Record, TopicPartition,
    TopicSpec,
};
use orbweaver_messages::Topic;
use tempfile::{TempDir, tempdir};

pub(crate) const PARTITIONS: u32 = 2;
pub(crate) const KEEP: Topic = Topic("test.keep");
pub(crate) const DELETE: Topic = Topic("test.delete");
pub(crate) const COMPACT: Topic = Topic("test.compact");

pub(crate) fn specs() -> Vec<TopicSpec> {
    [(KEEP, Cleanup::Keep), (DELETE, Cleanup::Delete), (COMPACT, Cleanup::Compact)]
        .map(|(topic, cleanup)| TopicSpec::new(topic, PARTITIONS, cleanup))
        .to_vec()
}

/// Options with small segments and no background activity.
pub(crate) fn still() -> Options {
    Options { sync_every: Duration::from_secs(3_600), segment_bytes: 4 << 10, open_files: 4, ..Options::default() }
}

pub(crate) fn open(dir: &Path) -> EmbeddedLog {
    try_open(dir).unwrap()
}

/// Returns a log in a directory of its own.
pub(crate) fn created() -> (TempDir, EmbeddedLog) {
    let dir = tempdir().unwrap();
    let log = open(dir.path());
    (dir, log)
}

/// Returns such a log with these records.
pub(crate) async fn filled(tp: TopicPartition, numbers: impl IntoIterator<Item = u64>) -> (TempDir, EmbeddedLog) {
    let (dir, log) = created();
    append(&log, tp, numbers).await;
    (dir, log)
}

pub(crate) fn try_open(dir: &Path) -> Result<EmbeddedLog, LogError> {
    let begun = Instant::now();
    loop {
        match EmbeddedLog::open(dir, still(), &specs()) {
            // A process started by another test holds all open files, and so all locks, until it runs its program.
            Err(LogError::Invalid(said)) if said.contains("in use") && begun.elapsed() < Duration::from_secs(10) => {
                std::thread::yield_now();
            }
            opened => return opened,
        }
    }
}

pub(crate) fn tp(topic: Topic, partition: u32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

/// Creates a record whose size and bytes are derived from its number.
pub(crate) fn record(tp: TopicPartition, number: u64) -> Record {
    Record {
        tp,
        key: Some(Bytes::from(format!("key {}", number % 50))),
        value: Some(value(number)),
        headers: vec![("number", Bytes::copy_from_slice(&number.to_le_bytes()))],
        timestamp_ms: number as i64,
    }
}

fn value(number: u64) -> Bytes {
    let bytes = (0..number * 7_919 % 1_500).map(|at| (at ^ number) as u8);
    bytes.collect::<Vec<_>>().into()
}

/// Returns the number of a record, after checking that all its bytes are intact.
pub(crate) fn number(delivered: &ConsumerRecord) -> u64 {
    let number = u64::from_le_bytes(delivered.header("number").unwrap().as_ref().try_into().unwrap());
    let made = record(delivered.tp, number);
    assert_eq!((&delivered.key, &delivered.value), (&made.key, &made.value), "the record {number} is not intact");
    assert_eq!(delivered.timestamp_ms, made.timestamp_ms);
    number
}

pub(crate) async fn append(log: &dyn Log, tp: TopicPartition, numbers: impl IntoIterator<Item = u64>) {
    log.append(numbers.into_iter().map(|number| record(tp, number)).collect()).await.unwrap();
}

/// Returns all records of a partition, as offset and number.
pub(crate) async fn read_all(log: &dyn Log, tp: TopicPartition) -> Vec<(Offset, u64)> {
    try_read_all(log, tp).await.unwrap()
}

pub(crate) async fn try_read_all(log: &dyn Log, tp: TopicPartition) -> Result<Vec<(Offset, u64)>, LogError> {
    let bounds = log.bounds(tp).await?;
    let mut reader = log.reader(tp, bounds.start).await?;
    let mut all = vec![];
    while reader.position() < bounds.end {
        let before = reader.position();
        let batch = reader.read(Duration::from_secs(10)).await?;
        all.extend(batch.iter().map(|delivered| (delivered.offset, number(delivered))));
        assert!(reader.position() > before, "reading is stalled at {before}");
    }
    Ok(all)
}

/// Commits for partition 0 of [`DELETE`] as a group.
pub(crate) async fn commit(log: &dyn Log, offset: Offset) -> Result<(), LogError> {
    let mut consumer = log.consumer("group", &[DELETE]).unwrap();
    consumer.commit(vec![(tp(DELETE, 0), Commit { offset, metadata: String::new() })]).await
}

/// Returns the commit of that group.
pub(crate) async fn committed(log: &dyn Log) -> Option<Offset> {
    log.committed("group", &[tp(DELETE, 0)]).await.unwrap()[0].as_ref().map(|commit| commit.offset)
}

/// Returns a consumer that delivers partition 0 of [`DELETE`] from `from` on.
pub(crate) async fn started(log: &dyn Log, from: Offset) -> Box<dyn Consumer> {
    let mut consumer = log.consumer("group", &[DELETE]).unwrap();
    consumer.poll(Duration::ZERO).await.unwrap();
    consumer.start(tp(DELETE, 0), from).unwrap();
    consumer
}

/// Returns a copy of the files, as a process killed now would leave them.
pub(crate) fn killed(dir: &Path) -> TempDir {
    let copy = tempdir().unwrap();
    copy_dir(dir, copy.path());
    copy
}

fn copy_dir(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// Returns the segment files of a partition, sorted.
pub(crate) fn files(dir: &Path, tp: TopicPartition) -> Vec<std::path::PathBuf> {
    let dir = dir.join("topics").join(tp.topic.0).join(tp.partition.to_string());
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}
