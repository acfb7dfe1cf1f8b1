//! Metrics and availability of a store.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use orbweaver_url::Fingerprint;
use tokio::time::Instant;

use crate::{FetchEvent, LinksOut, PageRow, RedirectRow, RobotsRow, Store, StoreError, StoreMetrics, Write};

/// Wrapper of a store that measures each request and tracks whether the store answers.
pub struct MeteredStore {
    store: Arc<dyn Store>,
    metrics: StoreMetrics,
    failing_since: Mutex<Option<Instant>>,
}

impl MeteredStore {
    /// Creates a wrapper of `store`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, metrics: StoreMetrics) -> Self {
        Self { store, metrics, failing_since: Mutex::new(None) }
    }

    /// Returns for how long every request has failed; `None` if the last one succeeded, or before the first. For
    /// readiness checks.
    #[must_use]
    pub fn failing_for(&self) -> Option<Duration> {
        self.failing_since.lock().unwrap_or_else(PoisonError::into_inner).map(|since| since.elapsed())
    }

    async fn measure<T>(
        &self,
        operation: &'static str,
        request: BoxFuture<'_, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let since = Instant::now();
        let answer = request.await;
        self.metrics.answered(operation, since.elapsed());
        let mut failing = self.failing_since.lock().unwrap_or_else(PoisonError::into_inner);
        match &answer {
            // A store that refuses or reports damage is available.
            Ok(_) | Err(StoreError::Refused(_) | StoreError::Damaged { .. }) => {
                if failing.take().is_some() {
                    self.metrics.failing(false);
                }
            }
            Err(StoreError::Failed(_)) => {
                failing.get_or_insert_with(Instant::now);
                self.metrics.failing(true);
            }
        }
        if let Err(error) = &answer {
            self.metrics.failed(operation, error);
        }
        answer
    }
}

impl Store for MeteredStore {
    fn write_shared(&self, writes: Arc<[Write]>) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let mut rows = [("pages", 0), ("links", 0), ("redirects", 0), ("robots", 0)];
            for write in &*writes {
                let table = match write {
                    Write::Page(_) => 0,
                    Write::Links(_) => 1,
                    Write::Redirect(_) => 2,
                    Write::Robots(_) => 3,
                };
                rows[table].1 += 1;
            }
            self.measure("write", self.store.write_shared(writes)).await?;
            rows.into_iter().for_each(|(table, rows)| self.metrics.wrote(table, rows));
            Ok(())
        }
        .boxed()
    }

    fn page(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<PageRow>, StoreError>> {
        self.measure("page", self.store.page(fingerprint)).boxed()
    }

    fn history(&self, fingerprint: Fingerprint, limit: usize) -> BoxFuture<'_, Result<Vec<FetchEvent>, StoreError>> {
        self.measure("history", self.store.history(fingerprint, limit)).boxed()
    }

    fn links(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<LinksOut>, StoreError>> {
        self.measure("links", self.store.links(fingerprint)).boxed()
    }

    fn redirect(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<RedirectRow>, StoreError>> {
        self.measure("redirect", self.store.redirect(fingerprint)).boxed()
    }

    fn robots<'a>(&'a self, authority: &'a str) -> BoxFuture<'a, Result<Option<RobotsRow>, StoreError>> {
        self.measure("robots", self.store.robots(authority)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{Encoder, Registry, TextEncoder};

    use super::*;
    use crate::MemoryStore;

    fn links() -> Write {
        let links = vec![("https://example.org/".into(), true)];
        Write::Links(LinksOut { fingerprint: Fingerprint([1; 16]), at_ms: 1, links })
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_fails_from_its_first_failure_to_its_next_success() {
        let inner = Arc::new(MemoryStore::new());
        let store = MeteredStore::new(inner.clone(), StoreMetrics::register(&Registry::new()).unwrap());
        assert_eq!(store.failing_for(), None);
        inner.fail_next(2);
        for _ in 0..2 {
            assert!(store.write(vec![links()]).await.is_err());
            tokio::time::advance(Duration::from_secs(3)).await;
        }
        assert_eq!(store.failing_for(), Some(Duration::from_secs(6)));
        store.write(vec![links()]).await.unwrap();
        assert_eq!(store.failing_for(), None);
    }

    #[tokio::test]
    async fn requests_rows_and_errors_are_counted_by_kind() {
        let (inner, registry) = (Arc::new(MemoryStore::new()), Registry::new());
        let store = MeteredStore::new(inner.clone(), StoreMetrics::register(&registry).unwrap());
        inner.fail_next_with(StoreError::Refused("no".into()));
        assert!(store.write(vec![links()]).await.is_err());
        store.write(vec![links(), links()]).await.unwrap();
        store.robots("https://example.org").await.unwrap();
        let mut text = vec![];
        TextEncoder::new().encode(&registry.gather(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for line in [
            r#"orbweaver_store_errors_total{kind="refused",operation="write"} 1"#,
            r#"orbweaver_store_rows_written_total{table="links"} 2"#,
            r#"orbweaver_store_request_seconds_count{operation="write"} 2"#,
            r#"orbweaver_store_request_seconds_count{operation="robots"} 1"#,
            "orbweaver_store_failing 0",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(StoreMetrics::register(&registry).is_err());
    }
}
