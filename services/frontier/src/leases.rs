//! Dispatches, their expiry, and the number of lost dispatches per URL.

use std::collections::{HashMap, VecDeque};

use orbweaver_messages::{DispatchId, LEASE_MS, Millis};
use orbweaver_url::Fingerprint;

/// Number of dispatches lost in a row, while later ones were answered, after which a URL is stuck.
pub(crate) const LOST_DISPATCHES: u8 = 10;
/// Maximum number of URLs whose lost dispatches are counted. If more URLs lose theirs, those URLs are not the cause.
const COUNTED_URLS: usize = 4096;

/// Lease on a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) dispatched_at_ms: Millis,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) id: DispatchId,
}

/// Leases of a partition, in the order of their expiry.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// Ended leases are removed when they reach the front, so the length follows the number of outstanding ones.
    order: VecDeque<Lease>,
    outstanding: usize,
    /// Latest dispatch that a fetcher answered.
    answered: Option<DispatchId>,
    /// Number of dispatches lost in a row, while later ones were answered, by URL.
    lost: HashMap<Fingerprint, u8>,
}

impl Leases {
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Adds a lease. Leases must be added in the order of their dispatch.
    pub(crate) fn add(&mut self, lease: Lease) {
        self.order.push_back(lease);
        self.outstanding += 1;
    }

    /// Ends a lease.
    pub(crate) fn end(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }

    /// Notes that a fetcher answered this dispatch of a URL: dispatches reached the fetchers.
    pub(crate) fn answer(&mut self, id: DispatchId, fingerprint: Fingerprint) {
        self.answered = self.answered.max(Some(id));
        self.lost.remove(&fingerprint);
    }

    /// Counts an expired lease. Returns `true` if its URL is stuck.
    ///
    /// The lease counts only if a later dispatch was answered; otherwise the fetchers, or the services before them,
    /// were unavailable. Even then it costs no attempt (docs/protocol.md#attempts).
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

    /// Removes and returns the oldest expired lease. `is_current` returns `true` for a lease that is still held.
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

    /// Returns the time at which the first lease expires; that lease may have ended already.
    pub(crate) fn next_over_ms(&self) -> Option<Millis> {
        self.order.front().map(|lease| lease.dispatched_at_ms + LEASE_MS)
    }
}
