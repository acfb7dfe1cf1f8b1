//! The store interface and its errors.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use orbweaver_messages::Millis;
use orbweaver_url::{CrawlName, Fingerprint};

use crate::{
    CaptureRow, ContentRow, DeclaredCanonical, FetchEvent, LinksOut, PageRow, RedirectRow, RobotsRow, SitePage, Write,
};

#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Reading or writing failed; it may succeed later.
    #[error("the store failed: {0}")]
    Failed(String),
    /// The request cannot succeed, however often it is retried: a setting, a permission or the value has to change.
    #[error("the store refused the request: {0}")]
    Refused(String),
    /// A stored value is unreadable.
    #[error("the store holds a damaged value at `{key}`: {reason}")]
    Damaged {
        /// Table and key.
        key: String,
        reason: String,
    },
}

/// Store of pages, links, redirects, robots.txt files and locations of archived responses. Cheap to share.
pub trait Store: Send + Sync + 'static {
    /// Writes all rows; resolves once all are durable. Idempotent.
    fn write(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write_shared(writes.into())
    }

    /// As [`Store::write`], for a caller that keeps the rows for retries, without copying them.
    fn write_shared(&self, writes: Arc<[Write]>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Returns the last known state of a page.
    fn page(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<PageRow>, StoreError>>;

    /// Returns the fetches of a page, newest first, at most `limit`.
    fn history(&self, fingerprint: Fingerprint, limit: usize) -> BoxFuture<'_, Result<Vec<FetchEvent>, StoreError>>;

    /// Returns the links of a page.
    fn links(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<LinksOut>, StoreError>>;

    /// Returns the canonical URL that a page declares, without its links.
    fn canonical(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<DeclaredCanonical>, StoreError>> {
        async move { Ok(self.links(fingerprint).await?.and_then(|links| links.canonical)) }.boxed()
    }

    /// Returns the latest redirect of a URL.
    fn redirect(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<RedirectRow>, StoreError>>;

    /// Returns a robots.txt by its authority and agent ([`RobotsRow::authority`]).
    fn robots<'a>(&'a self, authority: &'a str) -> BoxFuture<'a, Result<Option<RobotsRow>, StoreError>>;

    /// Returns the locations of the archived responses of a page, newest first, one per fetch, at most `limit`.
    fn captures(&self, fingerprint: Fingerprint, limit: usize) -> BoxFuture<'_, Result<Vec<CaptureRow>, StoreError>>;

    /// Returns the latest archived fetch with this content.
    fn content<'a>(&'a self, content_hash: &'a str) -> BoxFuture<'a, Result<Option<ContentRow>, StoreError>>;

    /// Returns the pages of a site that a crawl fetched, in the order of their fingerprints and later than `after`, at
    /// most `limit`; fewer are returned only at the end. A page may have been deleted since, or have another site by now.
    fn site_pages<'a>(
        &'a self,
        crawl: &'a CrawlName,
        site: &'a str,
        after: Option<Fingerprint>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<SitePage>, StoreError>>;
}

/// Store from which pages can be deleted.
pub trait Erase: Store {
    /// Deletes a page of a crawl, its history, its links, its redirect, its captures and its entry in the list of its site,
    /// as far as their event times are not after `until_ms`; writes of such events that arrive later have no effect, for as
    /// long as the store remembers deletions. Resolves once the deletion is durable. Contents may still lead to the page.
    fn erase<'a>(
        &'a self,
        crawl: &'a CrawlName,
        fingerprint: Fingerprint,
        until_ms: Millis,
    ) -> BoxFuture<'a, Result<(), StoreError>>;
}
