//! What was dispatched, when it is over, and how often a URL's dispatches were lost.

use std::collections::{HashMap, VecDeque};

use orbweaver_messages::{DispatchId, LEASE_MS, Millis};
use orbweaver_url::Fingerprint;

/// Dispatches of a URL that are lost in a row, while later ones are answered, before it is given up.
pub(crate) const LOST_DISPATCHES: u8 = 10;
/// URLs whose lost dispatches are counted, at most. When more lose theirs, something else is wrong than those URLs.
const COUNTED_URLS: usize = 4096;

/// A lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) dispatched_at_ms: Millis,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) id: DispatchId,
}

/// The leases of a partition, in the order in which they end.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// Ended ones are removed when they come to the front, so the length follows what is outstanding.
    order: VecDeque<Lease>,
    outstanding: usize,
    /// The latest dispatch that a fetcher answered for.
    answered: Option<DispatchId>,
    /// How often in a row the dispatches of a URL were lost while later ones were answered.
    lost: HashMap<Fingerprint, u8>,
}

impl Leases {
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Adds a lease. Leases are added in the order of their dispatch.
    pub(crate) fn add(&mut self, lease: Lease) {
        self.order.push_back(lease);
        self.outstanding += 1;
    }

    /// A lease ended.
    pub(crate) fn end(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }

    /// A fetcher answered for this dispatch of a URL: the way to the fetchers was open.
    pub(crate) fn answer(&mut self, id: DispatchId, fingerprint: Fingerprint) {
        self.answered = self.answered.max(Some(id));
        self.lost.remove(&fingerprint);
    }

    /// A lease ran out. Returns `true` when its URL is to be given up.
    ///
    /// It counts only if a later dispatch was answered: else the fetchers, or those before them, were away. Even then it costs
    /// no attempt (rule 16).
    pub(crate) fn lose(&mut self, lease: &Lease) -> bool {
        if self.answered.is_none_or(|answered| answered < lease.id) {
            return false;
        }
        if self.lost.len() >= COUNTED_URLS && !self.lost.contains_key(&lease.fingerprint) {
            return false;
        }
        let lost = self.lost.entry(lease.fingerprint).or_default();
        *lost += 1;
        let gives_up = *lost >= LOST_DISPATCHES;
        if gives_up {
            self.lost.remove(&lease.fingerprint);
        }
        gives_up
    }

    /// Takes the first lease that is over. `is_current` tells whether a lease is still held.
    pub(crate) fn pop_over(&mut self, now: Millis, is_current: impl Fn(&Lease) -> bool) -> Option<Lease> {
        while let Some(first) = self.order.front() {
            if is_current(first) {
                let over = now >= first.dispatched_at_ms + LEASE_MS;
                return if over { self.order.pop_front() } else { None };
            }
            self.order.pop_front();
        }
        None
    }

    /// When the first lease is over, at the latest.
    pub(crate) fn next_over_ms(&self) -> Option<Millis> {
        self.order.front().map(|lease| lease.dispatched_at_ms + LEASE_MS)
    }
}
