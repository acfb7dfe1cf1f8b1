//! Topics that a process reads completely: once, before its first partition opens, and then continuously.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod play;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use orbweaver_log::{
    Bounds, Cleanup, Commit, Consumer, Log, LogError, MemoryLog, Offset, Partition, Reader, Record, TopicPartition,
    TopicSpec,
};
use orbweaver_messages::{Millis, Topic, topic};
use orbweaver_stage::{Runner, RunnerConfig};
use play::*;
use tokio_util::sync::CancellationToken;

const SEEDS: &[Topic] = &[topic::SEEDS];
const CONTROL: &[Topic] = &[topic::CONTROL];

/// A log that counts the readers created, and whose topics may seem to end later than they do.
struct Watched {
    inner: MemoryLog,
    readers: AtomicUsize,
    /// Number of records by which the end of every partition of `crawl.control` seems to be later.
    ahead: AtomicUsize,
}

impl Watched {
    fn new(inner: &MemoryLog) -> Arc<Self> {
        Arc::new(Self { inner: inner.clone(), readers: AtomicUsize::new(0), ahead: AtomicUsize::new(0) })
    }
}

impl Log for Watched {
    fn partitions(&self, topic: Topic) -> Result<Partition, LogError> {
        self.inner.partitions(topic)
    }

    fn record_limit(&self) -> usize {
        self.inner.record_limit()
    }

    fn append(&self, records: Vec<Record>) -> BoxFuture<'_, Result<Vec<Offset>, LogError>> {
        self.inner.append(records)
    }

    fn consumer(&self, group: &str, topics: &[Topic]) -> Result<Box<dyn Consumer>, LogError> {
        self.inner.consumer(group, topics)
    }

    fn reader(&self, place: TopicPartition, from: Offset) -> BoxFuture<'_, Result<Box<dyn Reader>, LogError>> {
        self.readers.fetch_add(1, Ordering::Relaxed);
        self.inner.reader(place, from)
    }

    fn bounds(&self, place: TopicPartition) -> BoxFuture<'_, Result<Bounds, LogError>> {
        let ahead = if place.topic == topic::CONTROL { self.ahead.load(Ordering::Relaxed) as u64 } else { 0 };
        Box::pin(async move {
            let bounds = self.inner.bounds(place).await?;
            Ok(Bounds { end: bounds.end + ahead, ..bounds })
        })
    }

    fn offset_at(&self, place: TopicPartition, timestamp_ms: Millis) -> BoxFuture<'_, Result<Offset, LogError>> {
        self.inner.offset_at(place, timestamp_ms)
    }

    fn committed<'a>(
        &'a self,
        group: &'a str,
        places: &'a [TopicPartition],
    ) -> BoxFuture<'a, Result<Vec<Option<Commit>>, LogError>> {
        self.inner.committed(group, places)
    }

    fn delete_below(&self, place: TopicPartition, before: Offset) -> BoxFuture<'_, Result<(), LogError>> {
        self.inner.delete_below(place, before)
    }
}

fn play_on(log: Arc<Watched>, stage: Scripted, config: RunnerConfig) -> Play {
    let shutdown = CancellationToken::new();
    let (worker, perform) = (Outside(stage.seen.clone()), Outside(stage.seen.clone()));
    let task = tokio::spawn(Runner::new(stage, log, worker, perform, config).run(shutdown.clone()));
    Play { shutdown, task }
}

#[tokio::test(start_paused = true)]
async fn sixty_four_partitions_open_with_one_reader_for_each_of_a_thousand_partitions_of_a_tail() {
    let spec = |topic, partitions| TopicSpec::new(topic, partitions, Cleanup::Delete);
    let log = MemoryLog::new(&[spec(topic::SEEDS, 64), spec(topic::DEAD_LETTERS, 64), spec(topic::CONTROL, 1024)]);
    for partition in 0..1024 {
        fill(&log, at(topic::CONTROL, partition), "setting", 3).await;
    }
    let watched = Watched::new(&log);
    let (mut stage, seen) = Scripted::new(SEEDS, |_, _, _| {});
    stage.tails = CONTROL;
    let running = play_on(watched.clone(), stage, config());
    until_seen(&seen, "the openings", |seen| seen.opened.len() == 64).await;
    assert_eq!(seen.lock().unwrap().followed_before, Some(3 * 1024));
    assert_eq!(watched.readers.load(Ordering::Relaxed), 1024);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_partition_opens_before_a_lagging_leader_has_what_another_said_was_there() {
    for comes in [true, false] {
        let log = MemoryLog::new(&specs());
        fill(&log, at(topic::CONTROL, 2), "setting", 5).await;
        let watched = Watched::new(&log);
        watched.ahead.store(1, Ordering::Relaxed);
        let (mut stage, seen) = Scripted::new(SEEDS, |_, _, _| {});
        stage.tails = CONTROL;
        let config = RunnerConfig { restore_patience: Duration::from_secs(60), ..config() };
        let running = play_on(watched.clone(), stage, config);
        until_seen(&seen, "what is there", |seen| seen.followed.len() == 5).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(seen.lock().unwrap().opened.len(), 0);
        if comes {
            watched.ahead.store(0, Ordering::Relaxed);
            for partition in 0..PARTITIONS {
                fill(&log, at(topic::CONTROL, partition), "late", 1).await;
            }
            until_seen(&seen, "the openings", |seen| seen.opened.len() == 4).await;
            assert_eq!(seen.lock().unwrap().followed_before, Some(9));
            running.end().await.unwrap();
        } else {
            let error = running.ended().await.unwrap_err().to_string();
            assert_eq!(error, "scripted: crawl.control/0: nothing could be read between 0 and 1 for 60 s");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_tail_is_read_whole_once_before_the_first_partition_opens_and_then_as_it_grows() {
    let log = MemoryLog::scripted(&specs());
    for partition in 0..PARTITIONS {
        fill(&log, at(topic::CONTROL, partition), "old", 10).await;
    }
    let (mut stage, seen) = Scripted::new(SEEDS, |_, _, _| {});
    stage.tails = CONTROL;
    let running = play(stage, &log, config());
    let open = |partition| log.assign("scripted", 0, &[at(topic::SEEDS, partition)]);
    until("the member", || async { open(0).is_ok() }).await;
    until_seen(&seen, "the opening", |seen| seen.opened.len() == 1).await;
    assert_eq!(seen.lock().unwrap().followed_before, Some(40), "every partition of it");
    fill(&log, at(topic::CONTROL, 3), "new", 5).await;
    until_seen(&seen, "the new ones", |seen| seen.followed.len() == 45).await;
    open(1).unwrap();
    until_seen(&seen, "the second opening", |seen| seen.opened.len() == 2).await;
    log.revoke("scripted", 0, &[at(topic::SEEDS, 0), at(topic::SEEDS, 1)]).unwrap();
    until_seen(&seen, "both closed", |seen| seen.closed.len() == 2).await;
    fill(&log, at(topic::CONTROL, 3), "last", 1).await;
    until_seen(&seen, "the last one", |seen| seen.followed.last().is_some_and(|last| last == "last0")).await;
    assert_eq!(seen.lock().unwrap().followed.len(), 46, "once, however many partitions open and close");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_partition_opens_when_what_its_former_owner_wrote_to_the_tails_has_reached_the_stage() {
    let log = MemoryLog::scripted(&specs());
    let (mut stage, seen) = Scripted::new(SEEDS, |_, _, _| {});
    stage.tails = CONTROL;
    let running = play(stage, &log, config());
    let open = |partition| log.assign("scripted", 0, &[at(topic::SEEDS, partition)]);
    for partition in 0..PARTITIONS {
        until("the member", || async { open(partition).is_ok() }).await;
        let opened = partition as usize + 1;
        until_seen(&seen, "the opening", |seen| seen.opened.len() == opened).await;
        assert_eq!(seen.lock().unwrap().followed.len(), 5_000 * partition as usize);
        // Enough for several reads, and the next partition is assigned immediately.
        fill(&log, at(topic::CONTROL, partition), "setting", 5_000).await;
    }
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refresh_is_over_when_the_tails_were_read_as_far_as_they_went_when_it_was_asked_for() {
    let log = MemoryLog::new(&specs());
    let (mut stage, seen) = Scripted::new(SEEDS, |_, _, _| {});
    stage.tails = CONTROL;
    let running = play(stage, &log, config());
    until_seen(&seen, "the openings", |seen| seen.opened.len() == 4).await;
    for token in 0..5 {
        let written = (token as usize + 1) * 2_500;
        // A gap at the end is read, too.
        fill(&log, at(topic::CONTROL, 1), "setting", 2_500).await;
        log.compact(at(topic::CONTROL, 2)).unwrap();
        seen.lock().unwrap().refresh.push(token);
        until_seen(&seen, "the refresh", |seen| seen.refreshed.len() == token as usize + 1).await;
        assert_eq!(seen.lock().unwrap().refreshed.last(), Some(&(token, written)));
    }
    running.end().await.unwrap();
}
