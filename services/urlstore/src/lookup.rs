//! Performs the lookups of resolutions and lists on the store.

use futures::{StreamExt as _, stream};
use orbweaver_store::{SitePage, Store, StoreError};
use orbweaver_url::Fingerprint;

use crate::{
    answers::unknown,
    api::Api,
    document::DocumentPage,
    listing::Listing,
    parameters::{Parameters, Subject},
    problem::Problem,
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
            Step::Canonical(at, state) => {
                let declared = store.canonical(at.fingerprint()).await?;
                at.canonical(*state, declared)
            }
            Step::Ended(resolved) => return Ok(*resolved),
        };
    }
}

/// The page of a request, and the end of its resolution, which is the page of the answer.
#[derive(Debug)]
pub(crate) struct Located {
    pub(crate) subject: Subject,
    /// `None`: no redirect and no canonical URL is followed, and nothing was read.
    pub(crate) resolved: Option<Resolved>,
}

impl Located {
    /// Returns the key of the page of the answer.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        self.resolved.as_ref().map_or(self.subject.identity.fingerprint, |resolved| resolved.end.fingerprint)
    }

    /// Returns the page of the answer, for a document.
    pub(crate) fn page(&self) -> DocumentPage {
        let Subject { identity, keying, .. } = &self.subject;
        let state = self.resolved.as_ref().and_then(|resolved| resolved.state.as_ref());
        DocumentPage {
            crawl: keying.crawl.clone(),
            identity: self.resolved.as_ref().map_or(identity, |resolved| &resolved.end).clone(),
            origin: state.map(|state| (state.depth, state.via.clone())),
        }
    }

    /// Returns the canonical form of the page of the answer.
    pub(crate) fn canonical(&self) -> &str {
        &self.resolved.as_ref().map_or(&self.subject.identity, |resolved| &resolved.end).canonical
    }

    /// Returns the problem of a page that is not stored.
    pub(crate) fn unknown(&self) -> Problem {
        unknown(&self.subject, self.resolved.as_ref())
    }

    /// Checks that a page that has no rows in another table is stored.
    pub(crate) async fn known(&self, store: &dyn Store) -> Result<(), Problem> {
        let is_stored = match &self.resolved {
            Some(resolved) => resolved.state.is_some(),
            None => store.page(self.fingerprint()).await?.is_some(),
        };
        if is_stored { Ok(()) } else { Err(self.unknown()) }
    }
}

/// Resolves the URL of a request, unless it has `resolve=no`.
pub(crate) async fn locate(api: &Api, parameters: &Parameters) -> Result<Located, Problem> {
    let (follows, subject) = (parameters.follows()?, parameters.subject(api.sources.policy)?);
    let resolved = if follows { Some(resolve(api.store(), &subject, true).await?) } else { None };
    Ok(Located { subject, resolved })
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
