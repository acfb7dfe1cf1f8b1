//! Partition reader of the in-memory log.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt};
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use super::{Shared, state::BATCH_RECORDS};
use crate::{ConsumerRecord, LogError, Offset, Reader, TopicPartition};

pub(super) struct MemoryReader {
    shared: Arc<Shared>,
    tp: TopicPartition,
    position: Offset,
    appended: Arc<Notify>,
}

impl MemoryReader {
    pub(super) fn new(shared: Arc<Shared>, tp: TopicPartition, position: Offset) -> Result<Self, LogError> {
        let appended = {
            let mut state = shared.state();
            let partition = state.partition(tp)?;
            partition.bounds.check(tp, position)?;
            partition.appended.clone()
        };
        Ok(Self { shared, tp, position, appended })
    }

    fn read_now(&mut self) -> Result<Vec<ConsumerRecord>, LogError> {
        let mut state = self.shared.state();
        let partition = state.partition(self.tp)?;
        partition.bounds.check(self.tp, self.position)?;
        let batch: Vec<_> = partition.read(self.position, BATCH_RECORDS).cloned().collect();
        // A short batch reached the log end, across any gap left by compaction.
        self.position = match batch.last() {
            Some(last) if batch.len() == BATCH_RECORDS => last.offset + 1,
            _ => partition.bounds.end,
        };
        Ok(batch)
    }
}

impl Reader for MemoryReader {
    fn read(&mut self, max_wait: Duration) -> BoxFuture<'_, Result<Vec<ConsumerRecord>, LogError>> {
        async move {
            let deadline = Instant::now() + max_wait;
            let appended = self.appended.clone();
            loop {
                // Registered before the read, so that an append during the read is noticed.
                let mut next = pin!(appended.notified());
                next.as_mut().enable();
                let before = self.position;
                let batch = self.read_now()?;
                if self.position > before || timeout_at(deadline, next).await.is_err() {
                    return Ok(batch);
                }
            }
        }
        .boxed()
    }

    fn position(&self) -> Offset {
        self.position
    }
}
