//! Dispatches, and their expiry.

use std::collections::VecDeque;

use foldhash::HashSet;
use orbweaver_messages::{DispatchId, LEASE_MS, Millis};
use orbweaver_url::Fingerprint;

/// Number of dispatches lost in a row, while later ones were answered, after which a URL is stuck.
pub(crate) const LOST_DISPATCHES: u8 = 10;

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
    /// Leased URLs with an answer to the present dispatch or an earlier one: they have lost none in a row. Their
    /// records may still have a count.
    answered_urls: HashSet<Fingerprint>,
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

    /// Ends the lease on a URL. Returns `true` if a fetcher answered a dispatch of the URL meanwhile.
    pub(crate) fn end(&mut self, fingerprint: Fingerprint) -> bool {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.answered_urls.remove(&fingerprint)
    }

    /// Notes that a fetcher answered this dispatch: dispatches reached the fetchers.
    pub(crate) fn reach(&mut self, id: DispatchId) {
        self.answered = self.answered.max(Some(id));
    }

    /// Notes that a fetcher answered this dispatch of a leased URL.
    pub(crate) fn answer(&mut self, id: DispatchId, fingerprint: Fingerprint) {
        self.reach(id);
        self.answered_urls.insert(fingerprint);
    }

    /// Returns `true` if an expired lease is lost: a later dispatch was answered. Otherwise the fetchers, or the
    /// services before them, were unavailable. Either way it costs no attempt (docs/protocol.md#attempts).
    pub(crate) fn is_lost(&self, lease: &Lease) -> bool {
        self.answered.is_some_and(|answered| answered >= lease.id)
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
