//! Reader of one partition, outside of any group.

use std::{sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt};
use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use super::{
    cursor::{Cursor, Room},
    frame_reader::Chunk,
    state::Shared,
};
use crate::{ConsumerRecord, LogError, Offset, Reader, TopicPartition};

/// A batch, and the cursor after it.
pub(super) type Read = (Cursor, Result<Vec<ConsumerRecord>, LogError>);

/// Reads a batch on the blocking pool: a sealed segment may be on disk.
pub(super) fn read_aside(shared: &Arc<Shared>, mut cursor: Cursor) -> JoinHandle<Read> {
    let shared = Arc::clone(shared);
    tokio::task::spawn_blocking(move || {
        let mut batch = vec![];
        let mut room = Room::OF_A_BATCH;
        let read = cursor.read(&shared.disk, &mut Chunk::default(), &mut room, &mut batch);
        (cursor, read.map(|()| batch))
    })
}

pub(super) fn read_ended(error: &tokio::task::JoinError) -> LogError {
    LogError::Fatal(format!("the task of a read failed: {error}"))
}

pub(super) struct EmbeddedReader {
    shared: Arc<Shared>,
    cursor: Cursor,
    chunk: Chunk,
    /// A read in progress. It survives a dropped call, so that calls that are dropped early make progress too.
    pending: Option<JoinHandle<Read>>,
    wake: Arc<Notify>,
}

impl EmbeddedReader {
    pub(super) fn new(shared: Arc<Shared>, tp: TopicPartition, from: Offset) -> Result<Self, LogError> {
        let cursor = Cursor::new(Arc::clone(shared.partition(tp)?), from)?;
        let wake = Arc::new(Notify::new());
        shared.topic(tp.topic)?.waiters.join(Some(tp.partition), &wake);
        Ok(Self { shared, cursor, chunk: Chunk::default(), pending: None, wake })
    }
}

impl Reader for EmbeddedReader {
    fn read(&mut self, max_wait: Duration) -> BoxFuture<'_, Result<Vec<ConsumerRecord>, LogError>> {
        async move {
            let deadline = Instant::now() + max_wait;
            loop {
                if let Some(pending) = &mut self.pending {
                    let Ok(done) = timeout_at(deadline, pending).await else { return Ok(vec![]) };
                    self.pending = None;
                    let (cursor, batch) = done.map_err(|error| read_ended(&error))?;
                    self.cursor = cursor;
                    return batch;
                }
                if !self.cursor.is_behind() {
                    if timeout_at(deadline, self.wake.notified()).await.is_err() {
                        return Ok(vec![]);
                    }
                } else if self.cursor.is_warm() {
                    let (mut room, mut batch) = (Room::OF_A_BATCH, vec![]);
                    self.cursor.read(&self.shared.disk, &mut self.chunk, &mut room, &mut batch)?;
                    return Ok(batch);
                } else {
                    self.pending = Some(read_aside(&self.shared, self.cursor.clone()));
                }
            }
        }
        .boxed()
    }

    fn position(&self) -> Offset {
        self.cursor.offset
    }
}
