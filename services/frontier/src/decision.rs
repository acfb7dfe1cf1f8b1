//! The decisions of a frontier, as a closed set.

use orbweaver_log::Offset;
use orbweaver_messages::{Dispatch, FrontierUrl, Millis, Outcome, PageChange, SitePages};
use orbweaver_stage::Origin;
use orbweaver_url::Fingerprint;

use crate::{index::QueueKey, pages::PageCaps, scope::CrawlScopes};

/// Action of a frontier, from a closed set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The record has no effect.
    Complete(Origin),
    /// The record stays in the index and completes when its URL ends.
    Park(Origin),
    /// A URL is leased.
    Dispatch {
        /// The dispatch.
        dispatch: Box<Dispatch>,
        /// Time for which its site was ready, in milliseconds.
        ready_ms: Millis,
    },
    /// A visit found this change of a page. It is appended before the record or the tombstone that follows the visit.
    Change(Box<PageChange>),
    /// A site has this number of pages now. Appended before the record or the tombstone that follows the visit.
    CountPages(Box<SitePages>),
    /// The number of pages in this queue's site is removed: its crawl is deleted.
    ForgetPages(QueueKey),
    /// The URL's record is re-appended; then `completes` complete.
    Rewrite {
        /// The new record.
        waiting: Box<FrontierUrl>,
        /// Origins that the new record continues.
        completes: Vec<Origin>,
    },
    /// The URL has ended: its tombstone is appended; then `completes` complete.
    End {
        /// Fingerprint of the URL.
        fingerprint: Fingerprint,
        /// Depth at which the URL was requested: a record of a lesser depth has not ended.
        depth: u16,
        /// Offset of the record that ended: a later one has not.
        ends: Offset,
        /// Origins that end with the URL.
        completes: Vec<Origin>,
    },
    /// The frontier itself refuses a URL: its outcome is appended, then its tombstone; then `completes` complete.
    Refuse {
        /// The published outcome.
        outcome: Box<Outcome>,
        /// Offset of the record that ended.
        ends: Offset,
        /// Origins that end with the URL.
        completes: Vec<Origin>,
    },
    /// A stuck URL, whose dispatches were lost repeatedly, ends: its record goes to the dead letters, then its outcome
    /// is appended, then its tombstone.
    Abandon {
        /// The published outcome.
        outcome: Box<Outcome>,
        /// The URL's record in `crawl.frontier`.
        waiting: Box<FrontierUrl>,
        /// Origin of that record; it completes.
        origin: Origin,
        /// Reason for the dead letter.
        reason: String,
    },
}

/// Content of a tombstone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tombstone {
    /// Owner epoch of the writer.
    pub epoch: u64,
    /// Offset of the record that ended. A later record of the URL has not ended: the URL was discovered again, or its
    /// owner re-appended it while a former owner did not yet know that it had lost the partition.
    pub ends: Offset,
    /// Depth of the record that ended. A record of a lesser depth has not ended.
    pub depth: u16,
}

/// Inputs of the decisions of one call, and their output.
#[derive(Debug)]
pub struct DecisionContext<'a> {
    /// Current time.
    pub now: Millis,
    /// Page counts of each crawl, and the number of pages that may still be requested.
    pub pages: &'a mut PageCaps,
    /// Definitions that decide whether a queued URL is still in scope.
    pub scopes: &'a CrawlScopes,
    /// Collected decisions.
    pub out: &'a mut Vec<Decision>,
}
