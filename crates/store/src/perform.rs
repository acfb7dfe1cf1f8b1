//! Store writes as the effects of a stage.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use orbweaver_stage::{Perform, PerformError};
use tokio::time::{Instant, sleep};

use crate::{Store, StoreError, Write};

/// The first wait before a write is tried again; it doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// A store that stays away is reported so often, however many writes wait for it.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Writes what stages want written. A store that is away is waited for without end (the watchdog of the stage says when
/// nothing moves); a damaged value ends the stage, since no repetition mends it.
pub struct StoreWriter {
    store: Arc<dyn Store>,
    reported: Mutex<Option<Instant>>,
}

impl StoreWriter {
    /// A writer to `store`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, reported: Mutex::new(None) }
    }

    async fn write(&self, effects: Vec<Write>) -> Result<(), PerformError> {
        let mut wait = FIRST_WAIT;
        loop {
            match self.store.write(effects.clone()).await {
                Ok(()) => {
                    self.report_success();
                    return Ok(());
                }
                Err(StoreError::Failed(reason)) => self.report_failure(&reason),
                Err(damaged @ StoreError::Damaged { .. }) => return Err(PerformError(damaged.to_string())),
            }
            sleep(wait).await;
            wait = LONGEST_WAIT.min(wait * 2);
        }
    }

    fn report_failure(&self, reason: &str) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY) {
            *reported = Some(Instant::now());
            tracing::warn!(reason, "the store does not take writes; they are tried again until it does");
        }
    }

    fn report_success(&self) {
        if self.reported.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            tracing::info!("the store takes writes again");
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
    use crate::{LinksOut, MemoryStore};

    fn links() -> LinksOut {
        LinksOut { fingerprint: Fingerprint([1; 16]), at_ms: 1, links: vec![("https://example.org/".into(), true)] }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_store_is_waited_for_and_then_holds_everything() {
        let store = Arc::new(MemoryStore::new());
        store.fail_next(12);
        let since = Instant::now();
        StoreWriter::new(store.clone()).perform(vec![Write::Links(links())]).await.unwrap();
        assert_eq!(store.attempts(), 13);
        assert_eq!(store.links(links().fingerprint).await.unwrap(), Some(links()));
        // 100 ms doubling seven times up to 10 s, which five more waits take.
        assert_eq!(since.elapsed(), Duration::from_millis(100 * 127) + Duration::from_secs(50));
    }

    #[tokio::test]
    async fn a_damaged_value_ends_the_stage_and_names_the_place() {
        let store = Arc::new(MemoryStore::new());
        store.fail_next_with(StoreError::Damaged { key: "pages/01".into(), reason: "cut off".into() });
        let error = StoreWriter::new(store.clone()).perform(vec![Write::Links(links())]).await.unwrap_err();
        assert_eq!(error.to_string(), "the store holds a damaged value at `pages/01`: cut off");
        assert_eq!(store.attempts(), 1);
    }
}
