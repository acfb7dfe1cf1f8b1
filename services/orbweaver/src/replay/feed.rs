//! The log as the service sees it: the real log, except for the records of `crawl.discovered`, which are generated on
//! demand. Admitted URLs are recorded for comparison with the expected result when they are appended.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::future::{BoxFuture, FutureExt as _};
use orbweaver_log::{
    Bounds, Commit, Consumer, Event, Log, LogError, Offset, Partition, Reader, Record, TopicPartition,
};
use orbweaver_messages::{Millis, Topic, topic};
use prometheus::IntCounter;
use tokio::sync::mpsc::{Receiver, channel};

use super::{
    commits::Commits,
    generate::{Made, Plan, generated},
    truth::Truth,
};

/// URLs per poll.
const BATCH_URLS: u64 = 1000;
/// Batches that are generated ahead.
const BATCHES_AHEAD: usize = 16;

/// The log of one instance of the service.
pub(super) struct Feed {
    pub(super) inner: Arc<dyn Log>,
    pub(super) plan: Plan,
    pub(super) commits: Arc<Commits>,
    pub(super) truth: Arc<Truth>,
    /// Partitions of this instance.
    pub(super) partitions: Vec<Partition>,
    /// Whether new URLs are written to `crawl.frontier`.
    pub(super) frontier: bool,
    /// Number of records that this instance has completed.
    pub(super) completed: IntCounter,
    /// Progress of all instances, and the time of its start.
    pub(super) progress: Arc<Mutex<Progress>>,
    pub(super) begun: Instant,
}

/// Progress of all instances.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// URLs that were delivered.
    pub(super) urls: u64,
    /// Instances that have completed all their records.
    pub(super) ended: u32,
    /// Time after which all instances had opened their partitions.
    pub(super) opened_after: Duration,
    /// Times from the delivery of a batch to its completion (decided, and durable if anything was new), in
    /// microseconds.
    times_us: Vec<u32>,
}

impl Progress {
    /// Returns the time within which each of these shares of the batches was complete, in milliseconds.
    #[allow(clippy::cast_precision_loss, reason = "human-readable figures")]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a position below the number of times")]
    pub(super) fn quantiles_ms<const N: usize>(&mut self, shares: [f64; N]) -> [f64; N] {
        self.times_us.sort_unstable();
        let at = |share: f64| ((self.times_us.len() as f64 * share).ceil() as usize).saturating_sub(1);
        shares.map(|share| self.times_us.get(at(share)).map_or(0.0, |us| f64::from(*us) / 1000.0))
    }
}

/// Locks the progress, which no panic leaves in disorder.
pub(super) fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Feed {
    fn is_made(tp: TopicPartition) -> bool {
        tp.topic == topic::DISCOVERED || tp.topic == topic::SEEDS
    }
}

impl Log for Feed {
    fn partitions(&self, topic: Topic) -> Result<Partition, LogError> {
        self.inner.partitions(topic)
    }

    fn record_limit(&self) -> usize {
        self.inner.record_limit()
    }

    fn append(&self, records: Vec<Record>) -> BoxFuture<'_, Result<Vec<Offset>, LogError>> {
        let is_new = |record: &Record| record.tp.topic == topic::FRONTIER;
        let admitted = records.iter().filter(|record| is_new(record));
        admitted.filter_map(|record| record.value.as_ref()).for_each(|value| self.truth.passed(value));
        let is_kept: Vec<bool> = records.iter().map(|record| self.frontier || !is_new(record)).collect();
        let kept = records.into_iter().filter(|record| self.frontier || !is_new(record)).collect();
        async move {
            let mut offsets = self.inner.append(kept).await?.into_iter();
            // The offset of a record that was only counted is never used.
            let offset = |is_kept| if is_kept { offsets.next() } else { Some(0) };
            Ok(is_kept.into_iter().map_while(offset).collect())
        }
        .boxed()
    }

    fn consumer(&self, _: &str, topics: &[Topic]) -> Result<Box<dyn Consumer>, LogError> {
        let tps = self
            .partitions
            .iter()
            .flat_map(|&partition| topics.iter().map(move |&topic| TopicPartition::new(topic, partition)));
        Ok(Box::new(MadeConsumer {
            assigned: Some(tps.collect()),
            plan: self.plan,
            commits: self.commits.clone(),
            starts: BTreeMap::new(),
            wanted: self.partitions.len(),
            paused: BTreeSet::new(),
            batches: None,
            delivered: 0,
            incomplete: VecDeque::new(),
            ended: false,
            completed: self.completed.clone(),
            progress: self.progress.clone(),
            begun: self.begun,
        }))
    }

    fn reader(&self, tp: TopicPartition, from: Offset) -> BoxFuture<'_, Result<Box<dyn Reader>, LogError>> {
        self.inner.reader(tp, from)
    }

    fn bounds(&self, tp: TopicPartition) -> BoxFuture<'_, Result<Bounds, LogError>> {
        if Self::is_made(tp) {
            let end = if tp.topic == topic::DISCOVERED { Offset::MAX / 2 } else { 0 };
            return std::future::ready(Ok(Bounds { start: 0, end })).boxed();
        }
        self.inner.bounds(tp)
    }

    fn offset_at(&self, tp: TopicPartition, timestamp_ms: Millis) -> BoxFuture<'_, Result<Offset, LogError>> {
        self.inner.offset_at(tp, timestamp_ms)
    }

    fn committed<'a>(
        &'a self,
        _: &'a str,
        tps: &'a [TopicPartition],
    ) -> BoxFuture<'a, Result<Vec<Option<Commit>>, LogError>> {
        std::future::ready(Ok(tps.iter().map(|tp| self.commits.get(*tp)).collect())).boxed()
    }

    fn delete_below(&self, tp: TopicPartition, before: Offset) -> BoxFuture<'_, Result<(), LogError>> {
        self.inner.delete_below(tp, before)
    }
}

/// Group member that owns all partitions of its instance from the start.
struct MadeConsumer {
    assigned: Option<Vec<TopicPartition>>,
    plan: Plan,
    commits: Arc<Commits>,
    starts: BTreeMap<Partition, Offset>,
    /// Number of partitions that must have started before records are generated.
    wanted: usize,
    paused: BTreeSet<TopicPartition>,
    batches: Option<Receiver<Vec<Made>>>,
    /// Number of records delivered.
    delivered: u64,
    /// Batches in work: the number of records delivered up to and with each, and the time of its delivery.
    incomplete: VecDeque<(u64, Instant)>,
    /// Whether all records were delivered and are complete.
    ended: bool,
    completed: IntCounter,
    progress: Arc<Mutex<Progress>>,
    begun: Instant,
}

impl MadeConsumer {
    /// Generates batches on a separate thread, some ahead.
    fn begin(&mut self) -> Result<(), LogError> {
        let mut records = generated(self.plan, self.starts.clone());
        let (to, from) = channel(BATCHES_AHEAD);
        let make = move || loop {
            let mut urls = 0;
            let mut batch = vec![];
            while urls < BATCH_URLS
                && let Some(made) = records.next()
            {
                urls += made.1;
                batch.push(made);
            }
            if batch.is_empty() || to.blocking_send(batch).is_err() {
                return;
            }
        };
        let spawned = std::thread::Builder::new().name("replay-make".to_owned()).spawn(make);
        spawned.map_err(|source| LogError::Io { path: "the thread replay-make".to_owned(), source })?;
        self.batches = Some(from);
        lock(&self.progress).opened_after = self.begun.elapsed();
        Ok(())
    }

    /// Notes the times of the batches that are complete. The runtime polls after each completion, and records are
    /// completed in the order of their delivery: each has new URLs, unless nearly all are repeats.
    fn note_completed(&mut self) {
        let completed = self.completed.get();
        while let Some((_, begun)) = self.incomplete.pop_front_if(|(records, _)| *records <= completed) {
            let took = u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX);
            lock(&self.progress).times_us.push(took);
        }
    }
}

impl Consumer for MadeConsumer {
    fn poll(&mut self, max_wait: Duration) -> BoxFuture<'_, Result<Option<Event>, LogError>> {
        async move {
            if let Some(tps) = self.assigned.take() {
                return Ok(Some(Event::Assigned(tps)));
            }
            if self.batches.is_none() && self.starts.len() == self.wanted {
                self.begin()?;
            }
            self.note_completed();
            let paused = !self.paused.is_empty();
            let Some(batches) = self.batches.as_mut().filter(|_| !paused) else {
                tokio::time::sleep(max_wait).await;
                return Ok(None);
            };
            let Ok(batch) = tokio::time::timeout(max_wait, batches.recv()).await else { return Ok(None) };
            let Some(batch) = batch else {
                if self.incomplete.is_empty() && !std::mem::replace(&mut self.ended, true) {
                    lock(&self.progress).ended += 1;
                }
                tokio::time::sleep(max_wait).await;
                return Ok(None);
            };
            self.delivered += batch.len() as u64;
            self.incomplete.push_back((self.delivered, Instant::now()));
            lock(&self.progress).urls += batch.iter().map(|(_, urls)| urls).sum::<u64>();
            Ok(Some(Event::Records(batch.into_iter().map(|(record, _)| record).collect())))
        }
        .boxed()
    }

    fn start(&mut self, tp: TopicPartition, from: Offset) -> Result<(), LogError> {
        if tp.topic == topic::DISCOVERED {
            self.starts.insert(tp.partition, from);
        }
        Ok(())
    }

    fn pause(&mut self, tps: &[TopicPartition]) -> Result<(), LogError> {
        self.paused.extend(tps);
        Ok(())
    }

    fn resume(&mut self, tps: &[TopicPartition]) -> Result<(), LogError> {
        self.paused.retain(|tp| !tps.contains(tp));
        Ok(())
    }

    fn commit(&mut self, commits: Vec<(TopicPartition, Commit)>) -> BoxFuture<'static, Result<(), LogError>> {
        std::future::ready(self.commits.commit(commits)).boxed()
    }

    fn release(&mut self, _: &[TopicPartition]) -> Result<(), LogError> {
        Ok(())
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), LogError>> {
        std::future::ready(Ok(())).boxed()
    }
}
