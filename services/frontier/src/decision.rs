//! The closed set of decisions.

use orbweaver_messages::{Dispatch, Millis, Outcome, OutcomeKind, Waiting};
use orbweaver_stage::Origin;
use orbweaver_url::Fingerprint;

use crate::{pages::Pages, scope::CrawlScopes};

/// What is to be done, in the closed set of a frontier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Nothing was caused.
    Complete(Origin),
    /// The record stays in the index; it completes when its URL ends.
    Park(Origin),
    /// A lease is given out.
    Dispatch(Box<Dispatch>),
    /// The URL's record is appended anew; then `completes` complete.
    Rewrite {
        /// The new record.
        waiting: Box<Waiting>,
        /// What the new record carries on.
        completes: Vec<Origin>,
    },
    /// The URL ended: its tombstone is appended; then `completes` complete.
    End {
        /// Whose tombstone.
        fingerprint: Fingerprint,
        /// The depth at which it was asked for: a record of a lesser depth has not ended.
        depth: u16,
        /// What ended with it.
        completes: Vec<Origin>,
    },
    /// The frontier itself refuses a URL: its outcome is appended, then its tombstone; then `completes` complete.
    Refuse {
        /// What everyone hears of it.
        outcome: Box<Outcome>,
        /// What ended with it.
        completes: Vec<Origin>,
    },
    /// The frontier itself gives a URL up: every attempt's lease ended without an outcome.
    GiveUp(Box<Outcome>),
}

/// What one call decides upon and with.
#[derive(Debug)]
pub struct Turn<'a> {
    /// The moment.
    pub now: Millis,
    /// The pages of each crawl, and how many more may be asked for.
    pub pages: &'a mut Pages,
    /// Which of what waits still belongs to its crawl.
    pub scopes: &'a CrawlScopes,
    /// Collects the decisions.
    pub out: &'a mut Vec<Decision>,
}

/// The outcome of a URL whose every lease ended without one.
pub(crate) fn gave_up(dispatch: Dispatch, now: Millis) -> Outcome {
    ended_unasked(dispatch, OutcomeKind::Gone, "lease_expired", now)
}

/// The outcome of a URL that ends without an answer.
pub(crate) fn ended_unasked(dispatch: Dispatch, kind: OutcomeKind, reason: &str, now: Millis) -> Outcome {
    Outcome {
        id: dispatch.id,
        crawl: dispatch.crawl,
        fingerprint: dispatch.fingerprint,
        url: dispatch.url,
        key: dispatch.key,
        site: dispatch.site,
        depth: dispatch.depth,
        via: dispatch.via,
        attempt: dispatch.attempt,
        kind,
        reason: Some(reason.to_owned()),
        status: None,
        content_type: None,
        bytes: 0,
        location: None,
        dispatched_at_ms: dispatch.dispatched_at_ms,
        requested_at_ms: None,
        answered_at_ms: None,
        ended_at_ms: now,
        retry_at_ms: None,
        blocked_until_ms: None,
        crawl_delay_ms: None,
    }
}
