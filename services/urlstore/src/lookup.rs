//! Performs the lookups of a resolution on the store.

use orbweaver_store::{Store, StoreError};

use crate::{
    parameters::Subject,
    resolution::{Resolved, Step},
};

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
