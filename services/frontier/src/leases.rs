//! What was dispatched and when it is over.

use std::collections::VecDeque;

use orbweaver_messages::{DispatchId, LEASE_MS, Millis};
use orbweaver_url::Fingerprint;

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
    /// The latest dispatch that had an outcome (rule 16).
    answered: Option<DispatchId>,
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

    /// A lease that was taken by [`Leases::pop_over`] goes on.
    pub(crate) fn renew(&mut self, lease: Lease) {
        self.order.push_back(lease);
    }

    /// A lease ended; `answered`: by an outcome.
    pub(crate) fn end(&mut self, id: DispatchId, answered: bool) {
        self.outstanding = self.outstanding.saturating_sub(1);
        if answered {
            self.answered = self.answered.max(Some(id));
        }
    }

    /// Whether a later dispatch than this had an outcome: then the way is open and this one got lost on it.
    pub(crate) fn overtaken(&self, id: DispatchId) -> bool {
        self.answered.is_some_and(|answered| answered > id)
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
