//! The log of one process, in a folder of segment files.
//!
//! ```text
//! append ──> check all ──> one write a partition ──> acknowledged ──> whoever waits is woken
//!                               │ page cache: outlives the process
//!                               v
//!                 every second: cut ──> fdatasync ──> checkpoint ──> what is not needed is freed
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `frame` | how a record lies in a file (pure) |
//! | `walk` | goes over the frames of a file |
//! | `segment`, `partition` | segments; the writer of a partition and what its readers see |
//! | `cursor`, `consumer`, `reader` | reading |
//! | `commits` | what groups have committed |
//! | `pass`, `checkpoint` | makes everything durable as of one moment |
//! | `recover`, `folder` | opening: the lock, the topics, torn tails, damage |
//! | `compact` | keeps the last record of each key |
//!
//! `docs/adr/0002-embedded-log.md` tells why it is made so, and what was measured.

mod checkpoint;
mod commits;
mod compact;
mod consumer;
mod cursor;
mod disk;
mod files;
mod folder;
mod frame;
mod options;
mod partition;
mod pass;
mod reader;
mod recover;
mod segment;
mod state;
mod waiters;
mod walk;

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use futures::future::{BoxFuture, FutureExt, ready};
use orbweaver_messages::{Millis, Topic};

pub use self::{
    compact::Compacted,
    options::{Options, SyncPolicy},
};
use self::{consumer::EmbeddedConsumer, frame::Kind, reader::EmbeddedReader, state::Shared, walk::Chunk, walk::Walk};
use crate::{
    Bounds, Cleanup, Commit, Consumer, Log, LogError, Offset, Partition, Reader, Record, TopicPartition, TopicSpec,
};

/// A batch of so many bytes is appended on the blocking pool: copying it takes longer than a runtime thread should be held.
const LARGE_BATCH_BYTES: usize = 1 << 20;

/// Makes durable what records vouch for; on failure, says why.
type Vouched = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The log of one process. It is closed when it is dropped; the folder is free when its consumers and readers are gone too.
pub struct EmbeddedLog {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl EmbeddedLog {
    /// Opens the log in `folder`, or makes one, with these topics. Topics that exist beyond them stay as they are.
    ///
    /// # Errors
    /// [`LogError::Invalid`] for bad options or specs, another number of partitions than the log has, a folder that is not a
    /// log or is in use by another process; [`LogError::Corrupt`] for damage; [`LogError::Io`].
    pub fn open(folder: impl AsRef<Path>, options: Options, specs: &[TopicSpec]) -> Result<Self, LogError> {
        let maintain_every = options.maintain_every;
        let period = options.sync.period();
        let durable = options.sync != SyncPolicy::Never;
        let shared = Arc::new(Shared::open(folder.as_ref(), options, specs)?);
        let mut log = Self { shared, threads: vec![] };
        let shared = Arc::clone(&log.shared);
        let flusher = log.spawn("log-flush", move || flush_when_changed(&shared, period, durable))?;
        let _ = log.shared.flusher.set(flusher);
        if let Some(every) = maintain_every.filter(|_| specs.iter().any(|spec| spec.cleanup == Cleanup::Compact)) {
            let shared = Arc::clone(&log.shared);
            log.spawn("log-compact", move || maintain_at_times(&shared, every))?;
        }
        Ok(log)
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<thread::Thread, LogError> {
        let spawned = thread::Builder::new().name(name.to_owned()).spawn(run);
        let handle = spawned.map_err(|source| LogError::Io { path: format!("the thread {name}"), source })?;
        let thread = handle.thread().clone();
        self.threads.push(handle);
        Ok(thread)
    }

    /// Calls `sync` before each checkpoint: records in it may say that something else was written before them, such as a row
    /// of the store, and after a power cut both or neither are there. Blocks the thread of the checkpoint. When it fails, so
    /// does the log. Only the first call counts.
    pub fn sync_before_checkpoints(&self, sync: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        let _ = self.shared.vouched.set(Box::new(sync));
    }

    /// Makes everything durable that was acknowledged before.
    ///
    /// # Errors
    /// When the log failed, or fails now.
    pub fn flush(&self) -> Result<(), LogError> {
        self.shared.pass(true)
    }

    /// Compacts the compacted topics where it is worth it, as of `now`; blocks until it is done. Happens by itself, too.
    ///
    /// # Errors
    /// When the log failed, or a segment cannot be read or written.
    pub fn maintain(&self, now: Millis) -> Result<Compacted, LogError> {
        maintain(&self.shared, now)
    }

    /// How many bytes the segments of a topic have.
    ///
    /// # Errors
    /// When there is no such topic.
    pub fn bytes(&self, topic: Topic) -> Result<u64, LogError> {
        self.shared.topic(topic)?;
        let partitions = self.shared.partitions.iter().filter(|partition| partition.place.topic == topic);
        Ok(partitions.map(|partition| partition.bytes()).sum())
    }

    /// Makes everything durable and closes.
    ///
    /// # Errors
    /// When the log failed, or fails now.
    pub fn close(mut self) -> Result<(), LogError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), LogError> {
        if self.shared.closing.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // One that panicked has said so already.
            let _ = thread.join();
        }
        self.shared.pass(true)
    }
}

impl Drop for EmbeddedLog {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "the log was not closed cleanly; opening it repairs it");
        }
    }
}

/// Makes a pass a while after something changed; sleeps while nothing does.
fn flush_when_changed(shared: &Shared, period: Duration, durable: bool) {
    loop {
        thread::park();
        let until = Instant::now() + period;
        while !shared.closing.load(Ordering::Acquire) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::park_timeout(left);
        }
        // The last pass is made by who closes, who also tells its error.
        if shared.closing.load(Ordering::Acquire) || shared.pass(durable).is_err() {
            return;
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the edge where compaction reads the clock, for the age of tombstones")]
fn maintain_at_times(shared: &Shared, every: Duration) {
    while !shared.closing.load(Ordering::Acquire) {
        thread::park_timeout(every);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        if let Err(error) = maintain(shared, Millis::try_from(now.as_millis()).unwrap_or(Millis::MAX)) {
            tracing::error!(%error, "compaction failed; it is tried again");
        }
    }
}

fn maintain(shared: &Shared, now: Millis) -> Result<Compacted, LogError> {
    let mut done = Compacted::default();
    let stop = || shared.closing.load(Ordering::Acquire);
    for partition in shared.partitions.iter().filter(|partition| partition.spec.cleanup == Cleanup::Compact) {
        if stop() || shared.disk.alive().is_err() {
            break;
        }
        let Compacted { before_bytes, after_bytes } = compact::compact(partition, &shared.disk, now, &stop)?;
        done.before_bytes += before_bytes;
        done.after_bytes += after_bytes;
    }
    Ok(done)
}

impl Log for EmbeddedLog {
    fn partitions(&self, topic: Topic) -> Result<Partition, LogError> {
        self.shared.topic(topic).map(|topic| topic.spec.partitions)
    }

    fn record_limit(&self) -> usize {
        self.shared.disk.options.record_limit
    }

    // Done before the future is returned, on the caller's thread: a small batch is a copy into the page cache, microseconds,
    // which is less than a hop to another thread costs. What takes longer goes to the blocking pool: large batches, and all
    // of them when each waits for the disk.
    fn append(&self, records: Vec<Record>) -> BoxFuture<'_, Result<Vec<Offset>, LogError>> {
        let large = || records.iter().map(Record::bytes).sum::<usize>() > LARGE_BATCH_BYTES;
        let aside = self.shared.disk.syncs_each_append() || large();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) if aside => {
                let shared = Arc::clone(&self.shared);
                let job = runtime.spawn_blocking(move || shared.append(&records));
                let ended = |error| LogError::Fatal(format!("an append did not end: {error}"));
                job.map(move |done| done.unwrap_or_else(|error| Err(ended(error)))).boxed()
            }
            _ => ready(self.shared.append(&records)).boxed(),
        }
    }

    fn consumer(&self, group: &str, topics: &[Topic]) -> Result<Box<dyn Consumer>, LogError> {
        Ok(Box::new(EmbeddedConsumer::new(Arc::clone(&self.shared), group, topics)?))
    }

    fn reader(&self, place: TopicPartition, from: Offset) -> BoxFuture<'_, Result<Box<dyn Reader>, LogError>> {
        let reader = EmbeddedReader::new(Arc::clone(&self.shared), place, from);
        ready(reader.map(|reader| Box::new(reader) as Box<dyn Reader>)).boxed()
    }

    fn bounds(&self, place: TopicPartition) -> BoxFuture<'_, Result<Bounds, LogError>> {
        let bounds = self.shared.partition(place).map(|partition| {
            let segments = partition.segments();
            Bounds { start: segments.start, end: segments.end }
        });
        ready(bounds).boxed()
    }

    fn offset_at(&self, place: TopicPartition, timestamp_ms: Millis) -> BoxFuture<'_, Result<Offset, LogError>> {
        let shared = Arc::clone(&self.shared);
        // A scan of a segment, which may come from the disk.
        let job = tokio::task::spawn_blocking(move || offset_at(&shared, place, timestamp_ms));
        job.map(|done| done.unwrap_or_else(|error| Err(reader::read_ended(&error)))).boxed()
    }

    fn committed<'a>(
        &'a self,
        group: &'a str,
        places: &'a [TopicPartition],
    ) -> BoxFuture<'a, Result<Vec<Option<Commit>>, LogError>> {
        let committed = |place: &TopicPartition| {
            self.shared.partition(*place)?;
            Ok(self.shared.commits.committed(group, *place))
        };
        ready(places.iter().map(committed).collect()).boxed()
    }

    fn delete_below(&self, place: TopicPartition, before: Offset) -> BoxFuture<'_, Result<(), LogError>> {
        ready(self.shared.delete_below(place, before)).boxed()
    }
}

/// The first record made at or after `timestamp_ms`: in the first segment whose latest one was.
fn offset_at(shared: &Shared, place: TopicPartition, timestamp_ms: Millis) -> Result<Offset, LogError> {
    let partition = shared.partition(place)?;
    let mut from = partition.segments().start;
    loop {
        let (segment, file) = {
            let segments = partition.segments();
            from = from.max(segments.start);
            let reaches = |segment: &&segment::Segment| segment.end > from && segment.max_ms >= timestamp_ms;
            let Some(segment) = segments.list.iter().find(reaches).copied() else { return Ok(segments.end) };
            (segment, partition.file(&shared.disk, segment.base, segment.generation)?)
        };
        let path = partition.path(segment.base);
        let mut chunk = Chunk::default();
        let mut walk = Walk::new(&file, 0, segment.len, &mut chunk);
        while let Some(frame) = walk.next().map_err(|trouble| trouble.of(&path))? {
            if frame.kind == Kind::Record && frame.offset >= from && frame.timestamp_ms >= timestamp_ms {
                return Ok(frame.offset);
            }
        }
        from = segment.end;
    }
}
