//! What a store can do.

use std::sync::Arc;

use futures::future::BoxFuture;
use orbweaver_url::Fingerprint;

use crate::{FetchEvent, LinksOut, PageRow, RedirectRow, RobotsRow, Write};

/// What can go wrong with a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Reading or writing failed; it may succeed later.
    #[error("the store failed: {0}")]
    Failed(String),
    /// What was asked for cannot be done, however often it is tried: the setting, the right or the value has to change.
    #[error("the store refuses: {0}")]
    Refused(String),
    /// A stored value cannot be read.
    #[error("the store holds a damaged value at `{key}`: {reason}")]
    Damaged {
        /// Where.
        key: String,
        /// What is wrong.
        reason: String,
    },
}

/// Pages, links, redirects and sites. Cheap to share.
pub trait Store: Send + Sync + 'static {
    /// Writes all; resolves when all are durable. Idempotent.
    fn write(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write_shared(writes.into())
    }

    /// The same for a caller that keeps what it writes, to try again: no row is copied for that.
    fn write_shared(&self, writes: Arc<[Write]>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// What is known of a page.
    fn page(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<PageRow>, StoreError>>;

    /// The fetches of a page, newest first, `limit` at most.
    fn history(&self, fingerprint: Fingerprint, limit: usize) -> BoxFuture<'_, Result<Vec<FetchEvent>, StoreError>>;

    /// The links of a page.
    fn links(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<LinksOut>, StoreError>>;

    /// The redirect that a URL answered with last.
    fn redirect(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<RedirectRow>, StoreError>>;

    /// The robots.txt of an authority.
    fn robots<'a>(&'a self, authority: &'a str) -> BoxFuture<'a, Result<Option<RobotsRow>, StoreError>>;
}
