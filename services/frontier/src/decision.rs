//! The closed set of decisions.

use orbweaver_log::Offset;
use orbweaver_messages::{Dispatch, Millis, Outcome, Waiting};
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
        /// The offset of the record that ended: a later one has not.
        ends: Offset,
        /// What ended with it.
        completes: Vec<Origin>,
    },
    /// The frontier itself refuses a URL: its outcome is appended, then its tombstone; then `completes` complete.
    Refuse {
        /// What everyone hears of it.
        outcome: Box<Outcome>,
        /// The offset of the record that ended.
        ends: Offset,
        /// What ended with it.
        completes: Vec<Origin>,
    },
    /// A URL is given up, since its dispatches were lost again and again: its record goes to the dead letters, then its outcome
    /// is appended, then its tombstone.
    GiveUp {
        /// What everyone hears of it.
        outcome: Box<Outcome>,
        /// Its record in `crawl.frontier`.
        waiting: Box<Waiting>,
        /// Where that record stands; it completes.
        origin: Origin,
        /// Why, for the dead letter.
        reason: String,
    },
}

/// What a tombstone says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tombstone {
    /// The epoch of its writer.
    pub epoch: u64,
    /// The offset of the record that ended. A later record of the URL has not: it was found again, or its owner appended it anew
    /// while a former owner did not know that it had lost the partition.
    pub ends: Offset,
    /// The depth of what ended. A record of a lesser depth has not.
    pub depth: u16,
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
