//! Figures for a progress display.

use std::{
    collections::HashSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{client::Attempt, gates::Gates, metrics::class_of};

/// Number of sites shown.
const SHOWN_SITES: usize = 5;

/// Load of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteLoad {
    /// The site.
    pub site: String,
    /// Requests in flight.
    pub in_flight: u64,
    /// Queued requests.
    pub held: u64,
}

/// Figures of the fetcher. Reading them costs the fetcher nothing.
#[derive(Debug, Default)]
pub struct FetcherView {
    in_flight: AtomicU64,
    held: AtomicU64,
    requests: AtomicU64,
    bytes: AtomicU64,
    answers_4xx: AtomicU64,
    answers_5xx: AtomicU64,
    failures: AtomicU64,
    blocked: AtomicU64,
    refused: AtomicU64,
    busiest: Mutex<Vec<SiteLoad>>,
}

impl FetcherView {
    pub(crate) fn asked(&self, attempt: &Attempt, bytes: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        match class_of(attempt) {
            "4xx" => _ = self.answers_4xx.fetch_add(1, Ordering::Relaxed),
            "5xx" => _ = self.answers_5xx.fetch_add(1, Ordering::Relaxed),
            _ if attempt.result.is_err() => _ = self.failures.fetch_add(1, Ordering::Relaxed),
            _ => {}
        }
    }

    pub(crate) fn count_blocked(&self) {
        self.blocked.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, in_flight: usize, held: usize) {
        self.in_flight.store(in_flight as u64, Ordering::Relaxed);
        self.held.store(held as u64, Ordering::Relaxed);
    }

    /// Stores the busiest of the sites with a request in flight.
    pub(crate) fn set_busiest<T>(&self, sites: HashSet<&str>, gates: &Gates<T>) {
        let load = |site: &str| {
            let (held, in_flight) = gates.load_of(site);
            SiteLoad { site: site.to_owned(), in_flight: in_flight as u64, held: held as u64 }
        };
        let mut loads: Vec<_> = sites.into_iter().map(load).collect();
        loads.sort_unstable_by(|a, b| (b.in_flight, b.held, &a.site).cmp(&(a.in_flight, a.held, &b.site)));
        loads.truncate(SHOWN_SITES);
        *self.busiest.lock().unwrap_or_else(PoisonError::into_inner) = loads;
    }

    /// Returns the number of requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Returns the number of queued requests.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns the number of requests so far, including robots.txt.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns the number of decoded bytes of pages so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of responses with status 400 to 499 so far.
    #[must_use]
    pub fn answers_4xx(&self) -> u64 {
        self.answers_4xx.load(Ordering::Relaxed)
    }

    /// Returns the number of responses with status 500 to 599 so far.
    #[must_use]
    pub fn answers_5xx(&self) -> u64 {
        self.answers_5xx.load(Ordering::Relaxed)
    }

    /// Returns the number of requests without a complete response so far: DNS, connection, TLS, timeout, body.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Returns the number of outcomes `blocked` so far.
    #[must_use]
    pub fn blocked(&self) -> u64 {
        self.blocked.load(Ordering::Relaxed)
    }

    /// Returns the number of outcomes `refused` so far.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns the sites with the most requests in flight, in descending order; at most five, updated every second.
    #[must_use]
    pub fn busiest(&self) -> Vec<SiteLoad> {
        self.busiest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
