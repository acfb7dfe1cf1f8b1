//! Reader of one partition, fed by a shared consumer.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::{BoxFuture, FutureExt};
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use super::pool::{Command, ReaderSlot};
use crate::{ConsumerRecord, LogError, Offset, Reader, TopicPartition};

/// Limits of one read.
const BATCH_RECORDS: usize = 1_000;
const BATCH_BYTES: usize = 1 << 20;

/// Queue from the pool's thread to a reader.
#[derive(Default)]
pub(super) struct RecordQueue {
    state: Mutex<FeedState>,
    arrived: Notify,
}

#[derive(Default)]
struct FeedState {
    records: VecDeque<ConsumerRecord>,
    bytes: usize,
    /// All records below this offset are, or were, in `records`.
    proven: Offset,
    error: Option<LogError>,
    /// Whether the thread waits for room.
    wanted: bool,
}

impl RecordQueue {
    fn state(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a record. Returns the bytes now queued.
    pub(super) fn push(&self, record: ConsumerRecord) -> usize {
        let mut state = self.state();
        state.bytes += record.bytes() + size_of::<ConsumerRecord>();
        state.records.push_back(record);
        let held = state.bytes;
        drop(state);
        self.arrived.notify_one();
        held
    }

    /// Records that all records below `end` have arrived.
    pub(super) fn advance_to(&self, end: Offset) {
        let mut state = self.state();
        state.proven = state.proven.max(end);
        drop(state);
        self.arrived.notify_one();
    }

    pub(super) fn fail(&self, error: LogError) {
        self.state().error.get_or_insert(error);
        self.arrived.notify_one();
    }

    /// Returns whether at most `bytes` are queued; if not, the reader wakes the thread after its next read.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let mut state = self.state();
        state.wanted = state.bytes > bytes;
        !state.wanted
    }
}

pub(super) struct KafkaReader {
    tp: TopicPartition,
    position: Offset,
    name: Arc<str>,
    seat: ReaderSlot,
    feed: Arc<RecordQueue>,
    begun: bool,
}

impl KafkaReader {
    pub(super) fn new(tp: TopicPartition, name: Arc<str>, from: Offset, seat: ReaderSlot) -> Self {
        Self { tp, position: from, name, seat, feed: Arc::default(), begun: false }
    }

    /// Takes queued records; `None` if there is nothing.
    fn take(&mut self) -> Result<Option<Vec<ConsumerRecord>>, LogError> {
        let mut state = self.feed.state();
        let mut batch = Vec::with_capacity(state.records.len().min(BATCH_RECORDS));
        let mut bytes = 0;
        while batch.len() < BATCH_RECORDS && bytes < BATCH_BYTES {
            let Some(record) = state.records.pop_front() else { break };
            bytes += record.bytes() + size_of::<ConsumerRecord>();
            batch.push(record);
        }
        state.bytes = state.bytes.saturating_sub(bytes);
        let (wanted, proven) = (std::mem::take(&mut state.wanted), state.proven);
        let error = if batch.is_empty() { state.error.take() } else { None };
        drop(state);
        if wanted {
            self.seat.send(Command::Look);
        }
        if let Some(last) = batch.last() {
            self.position = last.offset + 1;
            return Ok(Some(batch));
        }
        if let Some(error) = error {
            // A read after an error reopens the partition.
            self.begun = false;
            return Err(error);
        }
        if proven > self.position {
            self.position = proven;
            return Ok(Some(batch));
        }
        Ok(None)
    }
}

impl Reader for KafkaReader {
    fn read(&mut self, max_wait: Duration) -> BoxFuture<'_, Result<Vec<ConsumerRecord>, LogError>> {
        async move {
            if !std::mem::replace(&mut self.begun, true) {
                let (tp, name, feed) = (self.tp, self.name.clone(), self.feed.clone());
                self.seat.send(Command::Open { tp, name, from: self.position, feed });
            }
            let deadline = Instant::now() + max_wait;
            loop {
                if let Some(batch) = self.take()? {
                    return Ok(batch);
                }
                if timeout_at(deadline, self.feed.arrived.notified()).await.is_err() {
                    return Ok(self.take()?.unwrap_or_default());
                }
            }
        }
        .boxed()
    }

    fn position(&self) -> Offset {
        self.position
    }
}
