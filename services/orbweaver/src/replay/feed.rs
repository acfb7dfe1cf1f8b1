//! The log as the service sees it: the real log, except for the records of `crawl.discovered`, which are generated on
//! demand. Admitted URLs are recorded for comparison with the expected result when they are appended.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{
            AtomicU32, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::{Duration, Instant},
};

use futures::future::{BoxFuture, FutureExt as _};
use orbweaver_log::{
    Bounds, Commit, Consumer, Event, Log, LogError, Offset, Partition, Reader, Record, TopicPartition,
};
use orbweaver_messages::{Millis, Topic, topic};
use tokio::sync::mpsc::{Receiver, channel};

use super::{commits::Commits, source::Made, truth::Truth};

/// URLs per poll.
pub(super) const BATCH_URLS: u64 = 1000;
/// Batches that are generated ahead.
const BATCHES_AHEAD: usize = 16;

/// Function that creates the records of some partitions, from these offsets on.
pub(super) type Make =
    dyn Fn(BTreeMap<Partition, Offset>) -> Result<Box<dyn Iterator<Item = Made> + Send>, LogError> + Send + Sync;

/// The log of one instance of the service.
pub(super) struct Feed {
    pub(super) inner: Arc<dyn Log>,
    pub(super) make: Arc<Make>,
    pub(super) commits: Arc<Commits>,
    pub(super) truth: Arc<Truth>,
    /// Partitions of this instance.
    pub(super) partitions: Vec<Partition>,
    /// Whether new URLs are written to `crawl.frontier`.
    pub(super) frontier: bool,
    /// Progress of all instances.
    pub(super) progress: Arc<Progress>,
}

/// Progress of all instances.
#[derive(Debug)]
pub(super) struct Progress {
    begun: Instant,
    instances: u32,
    /// URLs that were delivered.
    urls: AtomicU64,
    /// Records that were delivered and are not complete.
    open_records: AtomicU64,
    /// Instances that will receive more records.
    making: AtomicU32,
    /// Time at which the last instance had started all its partitions, in microseconds from the start.
    opened_us: AtomicU64,
}

impl Progress {
    pub(super) fn new(instances: u32) -> Self {
        let none = || AtomicU64::new(0);
        Self {
            begun: Instant::now(),
            instances,
            urls: none(),
            open_records: none(),
            making: AtomicU32::new(instances),
            opened_us: none(),
        }
    }

    /// Returns the number of URLs that were delivered.
    pub(super) fn urls(&self) -> u64 {
        self.urls.load(Relaxed)
    }

    /// Returns `true` if every record was delivered and is complete.
    pub(super) fn is_done(&self) -> bool {
        self.making.load(Acquire) == 0 && self.open_records.load(Acquire) == 0
    }

    /// Returns `true` if all instances will receive more records.
    pub(super) fn have_all_work(&self) -> bool {
        self.making.load(Acquire) == self.instances
    }

    /// Returns the time after which all instances had opened their partitions.
    pub(super) fn opened_after(&self) -> Duration {
        Duration::from_micros(self.opened_us.load(Relaxed))
    }

    /// Counts a record as complete.
    pub(super) fn completed(&self) {
        self.open_records.fetch_sub(1, Release);
    }

    fn opened(&self) {
        self.opened_us.fetch_max(u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    fn handed_over(&self, batch: &[Made]) {
        self.open_records.fetch_add(batch.len() as u64, Release);
        self.urls.fetch_add(batch.iter().map(|(_, urls)| urls).sum(), Relaxed);
    }

    fn ended(&self) {
        self.making.fetch_sub(1, Release);
    }
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
        let mut kept = Vec::with_capacity(records.len());
        let mut is_kept = Vec::with_capacity(records.len());
        for record in records {
            let is_new = record.tp.topic == topic::FRONTIER;
            if let (true, Some(value)) = (is_new, &record.value) {
                self.truth.passed(value);
            }
            is_kept.push(self.frontier || !is_new);
            if self.frontier || !is_new {
                kept.push(record);
            }
        }
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
        let made = MadeConsumer {
            assigned: Some(tps.collect()),
            make: self.make.clone(),
            commits: self.commits.clone(),
            starts: BTreeMap::new(),
            wanted: self.partitions.len(),
            paused: BTreeSet::new(),
            batches: None,
            ended: false,
            progress: self.progress.clone(),
        };
        Ok(Box::new(made))
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
        if Self::is_made(tp) {
            return std::future::ready(Ok(())).boxed();
        }
        self.inner.delete_below(tp, before)
    }
}

/// Group member that owns all partitions of its instance from the start.
struct MadeConsumer {
    assigned: Option<Vec<TopicPartition>>,
    make: Arc<Make>,
    commits: Arc<Commits>,
    starts: BTreeMap<Partition, Offset>,
    /// Number of partitions that must have started before records are generated.
    wanted: usize,
    paused: BTreeSet<TopicPartition>,
    batches: Option<Receiver<Vec<Made>>>,
    ended: bool,
    progress: Arc<Progress>,
}

impl MadeConsumer {
    /// Generates batches on a separate thread, some ahead.
    fn begin(&mut self) -> Result<(), LogError> {
        let mut records = (self.make)(self.starts.clone())?;
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
        Ok(())
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
                self.progress.opened();
            }
            let paused = !self.paused.is_empty();
            let Some(batches) = self.batches.as_mut().filter(|_| !paused) else {
                tokio::time::sleep(max_wait).await;
                return Ok(None);
            };
            let Ok(batch) = tokio::time::timeout(max_wait, batches.recv()).await else { return Ok(None) };
            let Some(batch) = batch else {
                if !std::mem::replace(&mut self.ended, true) {
                    self.progress.ended();
                }
                tokio::time::sleep(max_wait).await;
                return Ok(None);
            };
            self.progress.handed_over(&batch);
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
