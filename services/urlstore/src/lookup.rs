//! Performs the lookups of resolutions and lists on the store.

use futures::{StreamExt as _, stream};
use orbweaver_store::{SitePage, Store, StoreError};

use crate::{
    listing::Listing,
    parameters::Subject,
    resolution::{Resolved, Step},
};

/// Maximum number of pages of a list that are read concurrently.
const CONCURRENCY: usize = 16;
/// Number of pages after which other requests may continue: an embedded store reads pages on the threads that serve all
/// requests, these in about a millisecond.
const AT_A_STRETCH: usize = 100;

/// Resolves a URL.
pub(crate) async fn resolve(store: &dyn Store, subject: &Subject, follows: bool) -> Result<Resolved, StoreError> {
    let mut step = Step::begin(subject.identity.clone(), subject.keying.clone(), follows);
    loop {
        step = match step {
            Step::Page(at) => {
                let row = store.page(at.fingerprint()).await?;
                at.page(row)
            }
            Step::Redirect(at, state) => {
                let row = store.redirect(at.fingerprint()).await?;
                at.redirect(*state, row)
            }
            Step::Ended(resolved) => return Ok(*resolved),
        };
    }
}

/// Reads a list from its position on, until the answer is complete.
pub(crate) async fn list(store: &dyn Store, mut listing: Listing) -> Result<Listing, StoreError> {
    while let Some((after, count)) = listing.next_read() {
        let selection = listing.selection().clone();
        let entries = store.site_pages(&selection.crawl, &selection.site, after, count).await?;
        let (found, mut taken) = (entries.len(), 0);
        let rows = stream::iter(entries).map(|SitePage { fingerprint, status }| {
            let is_admitted = selection.status.admits(status);
            async move {
                let row = if is_admitted { Some(store.page(fingerprint).await?) } else { None };
                Ok::<_, StoreError>((fingerprint, row))
            }
        });
        let mut rows = std::pin::pin!(rows.buffered(CONCURRENCY));
        while let Some(row) = rows.next().await {
            let (fingerprint, row) = row?;
            taken += 1;
            let has_room = match row {
                Some(row) => listing.add(fingerprint, row),
                None => listing.pass(fingerprint),
            };
            if !has_room {
                break;
            }
            if taken % AT_A_STRETCH == 0 {
                tokio::task::yield_now().await;
            }
        }
        // Of entries that were not taken, the next answer begins with the first.
        if found < count && taken == found {
            listing.end();
        }
    }
    Ok(listing)
}
