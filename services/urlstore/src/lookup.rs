//! Performs the lookups of resolutions and lists on the store.

use futures::{StreamExt as _, stream};
use orbweaver_store::{Store, StoreError};

use crate::{
    listing::Listing,
    parameters::Subject,
    resolution::{Resolved, Step},
};

/// Maximum number of pages of a list that are read concurrently.
const CONCURRENCY: usize = 16;

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
        let entries = store.site_pages(&listing.selection().site, after, count).await?;
        let (found, mut taken) = (entries.len(), 0);
        let rows = stream::iter(entries).map(|page| async move { store.page(page).await.map(|row| (page, row)) });
        let mut rows = std::pin::pin!(rows.buffered(CONCURRENCY));
        while let Some(row) = rows.next().await {
            let (fingerprint, row) = row?;
            taken += 1;
            if !listing.add(fingerprint, row) {
                break;
            }
        }
        // Of entries that were not taken, the next answer begins with the first.
        if found < count && taken == found {
            listing.end();
        }
    }
    Ok(listing)
}
