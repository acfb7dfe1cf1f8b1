//! Reader of a process.

use std::{sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt};
use orbweaver_log::{ConsumerRecord, Log, LogError, Offset, Reader, TopicPartition};
use tokio::time::{Instant, sleep};

use super::Inner;
use crate::broken::Rule;

/// A reader with the delays of its process.
pub(super) struct ProcessReader {
    reader: Box<dyn Reader>,
    tp: TopicPartition,
    inner: Arc<Inner>,
    /// Time until which its leader lags.
    lags_until: Instant,
    /// Reported position with `Rule::Ends` disabled: the log end, although records were not read.
    end: Option<Offset>,
}

impl ProcessReader {
    pub(super) fn new(reader: Box<dyn Reader>, tp: TopicPartition, inner: Arc<Inner>) -> Self {
        let lags_until = Instant::now() + inner.readers_lag;
        Self { reader, tp, inner, lags_until, end: None }
    }

    async fn read_on(&mut self, max_wait: Duration) -> Result<Vec<ConsumerRecord>, LogError> {
        self.inner.gate.reaches_the_log().await;
        let lag = self.lags_until.saturating_duration_since(Instant::now());
        if !lag.is_zero() {
            sleep(lag.min(max_wait)).await;
            if self.inner.broken.is_off(Rule::Ends) {
                self.end = Some(self.inner.log.bounds(self.tp).await?.end);
            }
            return Ok(vec![]);
        }
        self.end = None;
        let records = self.reader.read(max_wait).await?;
        if !records.is_empty() {
            self.inner.ask().await;
        }
        Ok(self.inner.broken.read(records))
    }
}

impl Reader for ProcessReader {
    fn read(&mut self, max_wait: Duration) -> BoxFuture<'_, Result<Vec<ConsumerRecord>, LogError>> {
        self.read_on(max_wait).boxed()
    }

    fn position(&self) -> Offset {
        self.end.unwrap_or_else(|| self.reader.position())
    }
}
