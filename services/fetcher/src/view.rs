//! Figures for a progress display.

use std::sync::atomic::{AtomicU64, Ordering};

/// Figures of the fetcher, updated once per second. Reading them costs the fetcher nothing.
#[derive(Debug, Default)]
pub struct FetcherView {
    in_flight: AtomicU64,
}

impl FetcherView {
    pub(crate) fn set(&self, in_flight: usize) {
        self.in_flight.store(in_flight as u64, Ordering::Relaxed);
    }

    /// Returns the number of requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }
}
