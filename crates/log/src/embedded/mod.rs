//! A single-process log, in a directory of segment files.
//!
//! ```text
//! append ──> check all ──> one write per partition ──> acknowledged ──> waiting readers are woken
//!                               │ page cache: outlives the process
//!                               v
//!                 every second: cut ──> fdatasync ──> checkpoint ──> obsolete files are removed
//! ```
//!
//! | module | responsibility |
//! |---|---|
//! | `frame`, `block` | record format; compressed blocks of small records (pure) |
//! | `frame_reader` | iteration over the records of a file |
//! | `segment`, `partition` | segments; the writer of a partition and the state its readers see |
//! | `cursor`, `consumer`, `reader` | reading |
//! | `commits` | commits of the groups |
//! | `flush`, `checkpoint` | flushing: making everything durable as of one moment |
//! | `recover`, `log_dir` | opening: the lock, the topics, torn tails, damage, failed syncs |
//! | `disk` | buffers; whether the log accepts writes, and the mark of a failed sync |
//! | `compact` | compaction |
//! | `state` | shared state: partitions, commits, groups |
//! | `files` | cache of open segment files; errors with paths |
//! | `waiters` | waiters for records of a topic |
//! | `options` | options |
//!
//! `docs/adr/0002-embedded-log.md` and `docs/adr/0050-compressed-blocks.md` give the reasons for this design and the measurements.

mod block;
mod checkpoint;
mod commits;
mod compact;
mod consumer;
mod cursor;
mod disk;
mod files;
mod flush;
mod frame;
mod frame_reader;
mod log_dir;
mod options;
mod partition;
mod reader;
mod recover;
mod segment;
mod state;
mod waiters;

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use futures::future::{BoxFuture, FutureExt, ready};
use orbweaver_messages::{Millis, Topic};

pub use self::options::Options;
use self::{
    consumer::EmbeddedConsumer, frame::Kind, frame_reader::Chunk, frame_reader::FrameReader, reader::EmbeddedReader,
    state::Shared,
};
use crate::{
    Bounds, Cleanup, Commit, Consumer, Log, LogError, Offset, Partition, Reader, Record, TopicPartition, TopicSpec,
};

/// Batches above this size are appended on the blocking pool: copying them would block a runtime thread for too long.
const LARGE_BATCH_BYTES: usize = 1 << 20;

/// Syncs external data that records refer to; returns the reason on failure.
type ExternalSync = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// A single-process log. Dropping it closes it; the directory is unlocked once its consumers and readers are gone too.
pub struct EmbeddedLog {
    shared: Arc<Shared>,
    flusher: Option<JoinHandle<()>>,
}

impl EmbeddedLog {
    /// Opens or creates the log in `dir` with these topics. Other existing topics are left unchanged.
    ///
    /// # Errors
    /// [`LogError::Invalid`] for bad options or specs, a different partition count than the log has, a directory that
    /// is not a log or is in use by another process; [`LogError::Corrupt`] for damage; [`LogError::Io`].
    pub fn open(dir: impl AsRef<Path>, options: Options, specs: &[TopicSpec]) -> Result<Self, LogError> {
        let period = options.sync_every;
        let shared = Arc::new(Shared::open(dir.as_ref(), options, specs)?);
        let flushed = Arc::clone(&shared);
        let spawned =
            thread::Builder::new().name("log-flush".to_owned()).spawn(move || flush_when_changed(&flushed, period));
        let flusher =
            spawned.map_err(|source| LogError::Io { path: "starting the thread log-flush".to_owned(), source })?;
        let _ = shared.flusher.set(flusher.thread().clone());
        Ok(Self { shared, flusher: Some(flusher) })
    }

    /// Registers `sync` to run before each checkpoint. Records may refer to data that was written elsewhere before
    /// them, such as a row in the store; after a power cut both or neither must be present. Blocks the checkpoint
    /// thread. If it fails, so does the log. Only the first call takes effect. Call it before the log is changed:
    /// records that a killed process left beyond its last checkpoint are in no checkpoint before the first change,
    /// flush or close.
    pub fn sync_before_checkpoints(&self, sync: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        let _ = self.shared.external_sync.set(Box::new(sync));
        self.shared.touch_recovered();
    }

    /// Makes everything durable that was acknowledged before the call.
    pub fn flush(&self) -> Result<(), LogError> {
        self.shared.touch_recovered();
        self.shared.flush_changes()
    }

    /// Compacts the compacted topics where worthwhile, as of `now`; blocks until done. To be called
    /// periodically. Returns the total size of the segments it replaced, in bytes.
    pub fn maintain(&self, now: Millis) -> Result<u64, LogError> {
        let (disk, mut replaced) = (&self.shared.disk, 0);
        for partition in self.shared.partitions.iter().take_while(|_| disk.check_writable().is_ok()) {
            if partition.spec.cleanup == Cleanup::Compact {
                replaced += compact::compact(partition, disk, now)?;
            }
        }
        Ok(replaced)
    }

    /// Returns the total size of a topic's segments, in bytes.
    pub fn bytes(&self, topic: Topic) -> Result<u64, LogError> {
        self.shared.topic(topic)?;
        let partitions = self.shared.partitions.iter().filter(|partition| partition.tp.topic == topic);
        Ok(partitions.map(|partition| partition.bytes()).sum())
    }

    /// Makes everything durable and closes the log.
    pub fn close(mut self) -> Result<(), LogError> {
        self.shared.touch_recovered();
        self.end()
    }

    fn end(&mut self) -> Result<(), LogError> {
        if self.shared.closing.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        if let Some(flusher) = self.flusher.take() {
            flusher.thread().unpark();
            // A panic has already been reported.
            let _ = flusher.join();
        }
        self.shared.flush_changes()
    }
}

impl Drop for EmbeddedLog {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "the log was not closed cleanly; opening it repairs it");
        }
    }
}

/// Flushes `period` after the first change; sleeps while nothing changes.
fn flush_when_changed(shared: &Shared, period: Duration) {
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
        // The closing thread runs the last flush and returns its error.
        if shared.closing.load(Ordering::Acquire) || shared.flush_changes().is_err() {
            return;
        }
    }
}

impl Log for EmbeddedLog {
    fn partitions(&self, topic: Topic) -> Result<Partition, LogError> {
        self.shared.topic(topic).map(|topic| topic.spec.partitions)
    }

    fn record_limit(&self) -> usize {
        self.shared.disk.options.record_limit
    }

    // Runs on the caller's thread, before the future is returned: a small batch is a copy into the page cache, which
    // takes microseconds, less than switching threads. Large batches go to the blocking pool.
    fn append(&self, records: Vec<Record>) -> BoxFuture<'_, Result<Vec<Offset>, LogError>> {
        let large = records.iter().map(Record::bytes).sum::<usize>() > LARGE_BATCH_BYTES;
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) if large => {
                let shared = Arc::clone(&self.shared);
                let job = runtime.spawn_blocking(move || shared.append(&records));
                let ended = |error| LogError::Fatal(format!("the task of an append failed: {error}"));
                job.map(move |done| done.unwrap_or_else(|error| Err(ended(error)))).boxed()
            }
            _ => ready(self.shared.append(&records)).boxed(),
        }
    }

    fn consumer(&self, group: &str, topics: &[Topic]) -> Result<Box<dyn Consumer>, LogError> {
        Ok(Box::new(EmbeddedConsumer::new(Arc::clone(&self.shared), group, topics)?))
    }

    fn reader(&self, tp: TopicPartition, from: Offset) -> BoxFuture<'_, Result<Box<dyn Reader>, LogError>> {
        let reader = EmbeddedReader::new(Arc::clone(&self.shared), tp, from);
        ready(reader.map(|reader| Box::new(reader) as Box<dyn Reader>)).boxed()
    }

    fn bounds(&self, tp: TopicPartition) -> BoxFuture<'_, Result<Bounds, LogError>> {
        ready(self.shared.partition(tp).map(|partition| partition.segments().bounds)).boxed()
    }

    fn offset_at(&self, tp: TopicPartition, timestamp_ms: Millis) -> BoxFuture<'_, Result<Offset, LogError>> {
        let shared = Arc::clone(&self.shared);
        // Scans a segment, which may be on disk.
        let job = tokio::task::spawn_blocking(move || offset_at(&shared, tp, timestamp_ms));
        job.map(|done| done.unwrap_or_else(|error| Err(reader::read_ended(&error)))).boxed()
    }

    fn committed<'a>(
        &'a self,
        group: &'a str,
        tps: &'a [TopicPartition],
    ) -> BoxFuture<'a, Result<Vec<Option<Commit>>, LogError>> {
        let committed = |tp: &TopicPartition| {
            self.shared.partition(*tp)?;
            Ok(self.shared.commits.committed(group, *tp))
        };
        ready(tps.iter().map(committed).collect()).boxed()
    }

    fn delete_below(&self, tp: TopicPartition, before: Offset) -> BoxFuture<'_, Result<(), LogError>> {
        ready(self.shared.delete_below(tp, before)).boxed()
    }
}

/// Returns the first offset at or after `timestamp_ms`, found in the first segment whose latest timestamp reaches it.
fn offset_at(shared: &Shared, tp: TopicPartition, timestamp_ms: Millis) -> Result<Offset, LogError> {
    let partition = shared.partition(tp)?;
    let mut from = partition.segments().bounds.start;
    loop {
        let (segment, file) = {
            let segments = partition.segments();
            from = from.max(segments.bounds.start);
            let reaches = |segment: &&segment::Segment| segment.end > from && segment.max_ms >= timestamp_ms;
            let Some(segment) = segments.list.iter().find(reaches).copied() else { return Ok(segments.bounds.end) };
            (segment, partition.file(&shared.disk, segment.base, segment.generation)?)
        };
        let path = partition.path(segment.base);
        let mut chunk = Chunk::default();
        let mut walk = FrameReader::new(&path, &file, 0, segment.len, &mut chunk).starting_at(from);
        while let Some(frame) = walk.next()? {
            if frame.kind == Kind::Record && frame.offset >= from && frame.timestamp_ms >= timestamp_ms {
                return Ok(frame.offset);
            }
        }
        from = segment.end;
    }
}
