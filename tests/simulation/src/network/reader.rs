//! A reader of a process.

use std::{sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt};
use orbweaver_log::{Delivered, LogError, Offset, Reader};

use super::Inner;

/// Reads with the delays of its process.
pub(super) struct ProcessReader {
    reader: Box<dyn Reader>,
    inner: Arc<Inner>,
}

impl ProcessReader {
    pub(super) fn new(reader: Box<dyn Reader>, inner: Arc<Inner>) -> Self {
        Self { reader, inner }
    }
}

impl Reader for ProcessReader {
    fn read(&mut self, max_wait: Duration) -> BoxFuture<'_, Result<Vec<Delivered>, LogError>> {
        async move {
            self.inner.gate.reaches_the_log().await;
            let records = self.reader.read(max_wait).await?;
            if !records.is_empty() {
                self.inner.ask().await;
            }
            Ok(records)
        }
        .boxed()
    }

    fn position(&self) -> Offset {
        self.reader.position()
    }
}
