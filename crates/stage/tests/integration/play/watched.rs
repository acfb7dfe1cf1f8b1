//! A log in memory that a test watches and disturbs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::{BoxFuture, FutureExt as _, pending, ready};
use orbweaver_log::{
    Bounds, Commit, Consumer, Event, Log, LogError, MemoryLog, Offset, Partition, Reader, Record, TopicPartition,
};
use orbweaver_messages::{Millis, Topic, topic};
use tokio::{
    task::yield_now,
    time::{Instant, sleep},
};

/// Call of a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Poll,
    Commit,
}

type Hook = Arc<dyn Fn(Call) + Send + Sync>;

/// Group whose commits a troubled log does not return.
pub const UNANSWERED: &str = "unanswered";

pub struct Watched {
    pub inner: MemoryLog,
    /// Number of readers created.
    pub readers: AtomicUsize,
    /// Number of records by which the end of every partition of `crawl.control` seems to be later.
    pub ahead: AtomicUsize,
    /// Time before which no reader opens.
    pub away_until: Instant,
    /// Number of further queries of commits whose answer is older than all commits.
    pub old_answers: AtomicUsize,
    /// Time in milliseconds until a commit is answered.
    pub commit_takes: Arc<AtomicUsize>,
    /// Whether the commits of [`UNANSWERED`] and the bounds of `crawl.discovered/0` are never answered, and deletions
    /// from `crawl.outcomes/1` fail.
    pub is_troubled: AtomicBool,
    /// Called at the start of each call of a consumer.
    pub hook: Hook,
}

impl Watched {
    pub fn new(inner: &MemoryLog) -> Self {
        Self {
            inner: inner.clone(),
            readers: AtomicUsize::default(),
            ahead: AtomicUsize::default(),
            away_until: Instant::now(),
            old_answers: AtomicUsize::default(),
            commit_takes: Arc::default(),
            is_troubled: AtomicBool::default(),
            hook: Arc::new(|_| {}),
        }
    }

    fn is_troubled(&self, at: bool) -> bool {
        at && self.is_troubled.load(Ordering::Relaxed)
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
        let inner = self.inner.consumer(group, topics)?;
        Ok(Box::new(Member { inner, commit_takes: self.commit_takes.clone(), hook: self.hook.clone() }))
    }

    fn reader(&self, tp: TopicPartition, from: Offset) -> BoxFuture<'_, Result<Box<dyn Reader>, LogError>> {
        if Instant::now() < self.away_until {
            return ready(Err(LogError::Unavailable("no leader".to_owned()))).boxed();
        }
        self.readers.fetch_add(1, Ordering::Relaxed);
        self.inner.reader(tp, from)
    }

    fn bounds(&self, tp: TopicPartition) -> BoxFuture<'_, Result<Bounds, LogError>> {
        if self.is_troubled(tp == TopicPartition::new(topic::DISCOVERED, 0)) {
            return pending().boxed();
        }
        let ahead = if tp.topic == topic::CONTROL { self.ahead.load(Ordering::Relaxed) as u64 } else { 0 };
        async move {
            let bounds = self.inner.bounds(tp).await?;
            Ok(Bounds { end: bounds.end + ahead, ..bounds })
        }
        .boxed()
    }

    fn offset_at(&self, tp: TopicPartition, timestamp_ms: Millis) -> BoxFuture<'_, Result<Offset, LogError>> {
        self.inner.offset_at(tp, timestamp_ms)
    }

    fn committed<'a>(
        &'a self,
        group: &'a str,
        tps: &'a [TopicPartition],
    ) -> BoxFuture<'a, Result<Vec<Option<Commit>>, LogError>> {
        if self.is_troubled(group == UNANSWERED) {
            return pending().boxed();
        }
        let less = |left: usize| left.checked_sub(1);
        if self.old_answers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
            return ready(Ok(vec![None; tps.len()])).boxed();
        }
        self.inner.committed(group, tps)
    }

    fn delete_below(&self, tp: TopicPartition, before: Offset) -> BoxFuture<'_, Result<(), LogError>> {
        if self.is_troubled(tp == TopicPartition::new(topic::OUTCOMES, 1)) {
            return ready(Err(LogError::Unavailable("REQUEST_TIMED_OUT".to_owned()))).boxed();
        }
        self.inner.delete_below(tp, before)
    }
}

struct Member {
    inner: Box<dyn Consumer>,
    commit_takes: Arc<AtomicUsize>,
    hook: Hook,
}

impl Consumer for Member {
    /// As on a remote log, other tasks run before a poll ends.
    fn poll(&mut self, max_wait: Duration) -> BoxFuture<'_, Result<Option<Event>, LogError>> {
        async move {
            (self.hook)(Call::Poll);
            yield_now().await;
            self.inner.poll(max_wait).await
        }
        .boxed()
    }

    fn start(&mut self, tp: TopicPartition, from: Offset) -> Result<(), LogError> {
        self.inner.start(tp, from)
    }

    fn pause(&mut self, tps: &[TopicPartition]) -> Result<(), LogError> {
        self.inner.pause(tps)
    }

    fn resume(&mut self, tps: &[TopicPartition]) -> Result<(), LogError> {
        self.inner.resume(tps)
    }

    fn commit(&mut self, commits: Vec<(TopicPartition, Commit)>) -> BoxFuture<'static, Result<(), LogError>> {
        (self.hook)(Call::Commit);
        let takes = Duration::from_millis(self.commit_takes.load(Ordering::Relaxed) as u64);
        let answer = self.inner.commit(commits);
        async move {
            if !takes.is_zero() {
                sleep(takes).await;
            }
            answer.await
        }
        .boxed()
    }

    fn release(&mut self, tps: &[TopicPartition]) -> Result<(), LogError> {
        self.inner.release(tps)
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), LogError>> {
        self.inner.close()
    }
}
