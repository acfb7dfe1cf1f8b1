//! Performs store writes as effects of a stage.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use orbweaver_stage::{Perform, PerformError};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::{Store, StoreError, StoreMetrics, Write};

/// Wait before the first retry of a write; doubled for each further one.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// Maximum wait: recovery should be noticed soon, and an attempt on an unavailable store costs little.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Interval at which an unavailable store is reported, regardless of the number of waiting writes.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Performs the writes of stages. It retries without limit while the store is unavailable (the stage's watchdog reports
/// a stall), and the first success wakes all other waiting writes. A damaged value or a refusal ends the stage, since
/// no retry can fix it. No other component retries writes.
pub struct StoreWriter {
    store: Arc<dyn Store>,
    metrics: Option<StoreMetrics>,
    reported: Mutex<Option<Instant>>,
    back: Notify,
}

impl StoreWriter {
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, metrics: None, reported: Mutex::new(None), back: Notify::new() }
    }

    /// Counts retries in `metrics`.
    #[must_use]
    pub fn with_metrics(self, metrics: StoreMetrics) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    async fn write(&self, effects: Vec<Write>) -> Result<(), PerformError> {
        let effects: Arc<[Write]> = effects.into();
        let mut wait = FIRST_WAIT;
        loop {
            // Subscribe before the attempt: a success between the failure and the wait would be missed otherwise.
            let mut back = pin!(self.back.notified());
            back.as_mut().enable();
            match self.store.write_shared(Arc::clone(&effects)).await {
                Ok(()) => {
                    self.report_success();
                    return Ok(());
                }
                Err(StoreError::Failed(reason)) => self.report_failure(&reason),
                Err(error @ (StoreError::Damaged { .. } | StoreError::Refused(_))) => {
                    return Err(PerformError(error.to_string()));
                }
            }
            let _ = timeout(wait, back).await;
            wait = LONGEST_WAIT.min(wait * 2);
            if let Some(metrics) = &self.metrics {
                metrics.retries.inc();
            }
        }
    }

    fn report_failure(&self, reason: &str) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY) {
            *reported = Some(Instant::now());
            tracing::warn!(reason, "the store does not accept writes; retrying until it does");
        }
    }

    fn report_success(&self) {
        if self.reported.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            tracing::info!("the store accepts writes again");
            self.back.notify_waiters();
        }
    }
}

impl Perform<Write> for StoreWriter {
    fn perform(&self, effects: Vec<Write>) -> BoxFuture<'_, Result<(), PerformError>> {
        self.write(effects).boxed()
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_url::Fingerprint;

    use super::*;
    use crate::{LinksOut, MemoryStore, contract};

    fn links() -> LinksOut {
        contract::links(Fingerprint([1; 16]), 1, 1)
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_store_is_waited_for_and_then_holds_everything() {
        let store = Arc::new(MemoryStore::new());
        store.fail_next(12);
        let since = Instant::now();
        StoreWriter::new(store.clone()).perform(vec![Write::Links(links())]).await.unwrap();
        assert_eq!(store.attempts(), 13);
        assert_eq!(store.links(links().fingerprint).await.unwrap(), Some(links()));
        // Five waits that double from 100 ms, then seven of 2 s.
        assert_eq!(since.elapsed(), Duration::from_millis(100 * 31) + Duration::from_secs(14));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_write_that_is_taken_wakes_the_others() {
        let store = Arc::new(MemoryStore::new());
        let writer = StoreWriter::new(store.clone());
        store.fail_next(12);
        let since = Instant::now();
        let first = writer.perform(vec![Write::Links(links())]);
        let second = async {
            tokio::time::sleep(Duration::from_millis(12_000)).await;
            writer.perform(vec![Write::Links(contract::links(Fingerprint([2; 16]), 1, 1))]).await
        };
        let (first, second) = tokio::join!(first, second);
        assert!(first.is_ok() && second.is_ok());
        // The second write starts with short waits again and uses up the failures; the first would wait until 13.1 s.
        assert_eq!(since.elapsed(), Duration::from_millis(12_300));
        assert_eq!(store.attempts(), 14);
    }

    #[tokio::test]
    async fn a_refusal_and_a_damaged_value_end_the_stage_at_once() {
        let damaged = StoreError::Damaged { key: "pages/01".into(), reason: "cut off".into() };
        for (error, reported) in [
            (StoreError::Refused("no right to write".into()), "the store refused the request: no right to write"),
            (damaged, "the store holds a damaged value at `pages/01`: cut off"),
        ] {
            let store = Arc::new(MemoryStore::new());
            store.fail_next_with(error);
            let error = StoreWriter::new(store.clone()).perform(vec![Write::Links(links())]).await.unwrap_err();
            assert_eq!((error.to_string().as_str(), store.attempts()), (reported, 1));
        }
    }
}
