//! Metrics and availability of a store.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use orbweaver_url::{CrawlName, Fingerprint};
use tokio::time::Instant;

use crate::{
    CaptureRow, ContentRow, DeclaredCanonical, FetchEvent, LinksOut, PageRow, RedirectRow, RobotsRow, SitePage, Store,
    StoreError, StoreMetrics, Write,
};

/// Wrapper of a store that measures each request, and shows whether the store answers.
pub struct MeteredStore {
    store: Arc<dyn Store>,
    metrics: StoreMetrics,
}

impl MeteredStore {
    /// Creates a wrapper of `store`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, metrics: StoreMetrics) -> Self {
        Self { store, metrics }
    }

    async fn measure<T>(
        &self,
        operation: &'static str,
        request: BoxFuture<'_, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let since = Instant::now();
        let answer = request.await;
        self.metrics.request.with_label_values(&[operation]).observe(since.elapsed().as_secs_f64());
        // A store that refuses or reports damage is available.
        self.metrics.failing.set(matches!(answer, Err(StoreError::Failed(_))).into());
        if let Err(error) = &answer {
            self.metrics.failed(operation, error);
        }
        answer
    }
}

impl Store for MeteredStore {
    fn write_shared(&self, writes: Arc<[Write]>) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let mut rows = [("pages", 0), ("links", 0), ("redirects", 0), ("robots", 0), ("captures", 0)];
            for write in &*writes {
                let table = match write {
                    Write::Page { .. } => 0,
                    Write::Links(_) => 1,
                    Write::Redirect(_) => 2,
                    Write::Robots(_) => 3,
                    Write::Capture(_) => 4,
                };
                rows[table].1 += 1;
            }
            self.measure("write", self.store.write_shared(writes)).await?;
            rows.into_iter().for_each(|(table, rows)| self.metrics.rows.with_label_values(&[table]).inc_by(rows));
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

    fn canonical(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<DeclaredCanonical>, StoreError>> {
        self.measure("canonical", self.store.canonical(fingerprint)).boxed()
    }

    fn redirect(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<RedirectRow>, StoreError>> {
        self.measure("redirect", self.store.redirect(fingerprint)).boxed()
    }

    fn robots<'a>(&'a self, authority: &'a str) -> BoxFuture<'a, Result<Option<RobotsRow>, StoreError>> {
        self.measure("robots", self.store.robots(authority)).boxed()
    }

    fn captures(&self, fingerprint: Fingerprint, limit: usize) -> BoxFuture<'_, Result<Vec<CaptureRow>, StoreError>> {
        self.measure("captures", self.store.captures(fingerprint, limit)).boxed()
    }

    fn content<'a>(&'a self, content_hash: &'a str) -> BoxFuture<'a, Result<Option<ContentRow>, StoreError>> {
        self.measure("content", self.store.content(content_hash)).boxed()
    }

    fn site_pages<'a>(
        &'a self,
        crawl: &'a CrawlName,
        site: &'a str,
        after: Option<Fingerprint>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<SitePage>, StoreError>> {
        self.measure("site_pages", self.store.site_pages(crawl, site, after, limit)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{Registry, TextEncoder};

    use super::*;
    use crate::{MemoryStore, contract};

    fn links() -> Write {
        Write::Links(contract::links(Fingerprint([1; 16]), 1, 1))
    }

    #[tokio::test]
    async fn a_store_fails_from_its_first_failure_to_its_next_success() {
        let (inner, registry) = (Arc::new(MemoryStore::new()), Registry::new());
        let store = MeteredStore::new(inner.clone(), StoreMetrics::register(&registry).unwrap());
        inner.fail_next(2);
        for failing in [1, 1, 0] {
            assert_eq!(store.write(vec![links()]).await.is_err(), failing == 1);
            let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
            assert!(text.contains(&format!("orbweaver_store_failing {failing}\n")), "{text}");
        }
    }

    #[tokio::test]
    async fn requests_rows_and_errors_are_counted_by_kind() {
        let (inner, registry) = (Arc::new(MemoryStore::new()), Registry::new());
        let store = MeteredStore::new(inner.clone(), StoreMetrics::register(&registry).unwrap());
        inner.fail_next_with(StoreError::Refused("no".into()));
        assert!(store.write(vec![links()]).await.is_err());
        store.write(vec![links(), links()]).await.unwrap();
        store.robots("https://example.org").await.unwrap();
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
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
