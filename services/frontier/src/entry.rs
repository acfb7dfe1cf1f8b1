//! One URL that waits, in few bytes.

use std::sync::Arc;

use orbweaver_log::Offset;
use orbweaver_messages::{Dispatch, DispatchId, EXPIRES_MS, Millis, NOT_AFTER_MS, Sighting, Waiting};
use orbweaver_stage::Origin;
use orbweaver_url::Fingerprint;

/// What a waiting URL waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// Its site's turn.
    Queued,
    /// A moment.
    Delayed,
    /// The outcome of a dispatch.
    Leased(DispatchId),
    /// Its own new record, which was appended and is not yet read back (rule 7: one outstanding write a key). The outcomes
    /// that ended it meanwhile complete with the tombstone that follows.
    Rewriting(Vec<Origin>),
}

/// A URL that waits.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) offset: Offset,
    pub(crate) site: Arc<str>,
    crawl: Arc<str>,
    url: Box<str>,
    key: Option<Box<str>>,
    via: Option<Arc<str>>,
    #[allow(clippy::box_collection, reason = "one word where there is no chain, as nearly always")]
    chain: Option<Box<Vec<String>>>,
    pub(crate) admitted_at_ms: Millis,
    pub(crate) not_before_ms: Millis,
    pub(crate) depth: u16,
    pub(crate) failures: u8,
    pub(crate) blocks: u8,
    sighting: Sighting,
    pub(crate) state: State,
}

/// Shares the texts that neighbouring records have in common.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    crawl: Option<Arc<str>>,
    via: Option<Arc<str>>,
}

fn shared(last: &mut Option<Arc<str>>, text: &str) -> Arc<str> {
    match last {
        Some(known) if &**known == text => Arc::clone(known),
        _ => Arc::clone(last.insert(Arc::from(text))),
    }
}

impl Entry {
    pub(crate) fn new(waiting: Waiting, offset: Offset, site: Arc<str>, interner: &mut Interner) -> Self {
        Self {
            offset,
            site,
            crawl: shared(&mut interner.crawl, &waiting.crawl),
            url: waiting.url.into_boxed_str(),
            key: waiting.key.map(String::into_boxed_str),
            via: waiting.via.as_deref().map(|via| shared(&mut interner.via, via)),
            chain: (!waiting.chain.is_empty()).then(|| Box::new(waiting.chain)),
            admitted_at_ms: waiting.admitted_at_ms,
            not_before_ms: waiting.not_before_ms,
            depth: waiting.depth,
            failures: waiting.failures,
            blocks: waiting.blocks,
            sighting: waiting.sighting,
            state: State::Queued,
        }
    }

    /// The record of it, to be appended anew.
    pub(crate) fn to_waiting(&self, fingerprint: Fingerprint) -> Waiting {
        Waiting {
            crawl: self.crawl.to_string(),
            fingerprint,
            url: self.url.to_string(),
            key: self.key.as_deref().map(str::to_owned),
            site: self.site.to_string(),
            depth: self.depth,
            sighting: self.sighting,
            via: self.via.as_deref().map(str::to_owned),
            chain: self.chain.as_deref().cloned().unwrap_or_default(),
            failures: self.failures,
            blocks: self.blocks,
            not_before_ms: self.not_before_ms,
            admitted_at_ms: self.admitted_at_ms,
        }
    }

    /// A lease on it, from `now` on.
    pub(crate) fn to_dispatch(&self, fingerprint: Fingerprint, id: DispatchId, last: bool, now: Millis) -> Dispatch {
        Dispatch {
            id,
            crawl: self.crawl.to_string(),
            fingerprint,
            url: self.url.to_string(),
            key: self.key.as_deref().map(str::to_owned),
            site: self.site.to_string(),
            depth: self.depth,
            sighting: self.sighting,
            via: self.via.as_deref().map(str::to_owned),
            chain: self.chain.as_deref().cloned().unwrap_or_default(),
            attempt: self.failures.saturating_add(1),
            last_attempt: last,
            blocks: self.blocks,
            dispatched_at_ms: now,
            not_after_ms: now + NOT_AFTER_MS,
            expires_ms: now + EXPIRES_MS,
        }
    }
}
