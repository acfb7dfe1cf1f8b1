//! What a progress display may look at.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

/// A site and how much of it waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteLoad {
    /// The site.
    pub site: String,
    /// Its URLs that wait.
    pub waiting: u64,
}

/// Figures of the frontier, updated at its ticks. Reading them costs the frontier nothing.
#[derive(Debug, Default)]
pub struct FrontierView {
    waiting: AtomicU64,
    leased: AtomicU64,
    sites: AtomicU64,
    over_budget: AtomicU64,
    pages: AtomicU64,
    partitions: AtomicU64,
    busiest: Mutex<Vec<SiteLoad>>,
}

impl FrontierView {
    pub(crate) fn set(&self, waiting: usize, leased: usize, sites: usize) {
        self.waiting.store(waiting as u64, Ordering::Relaxed);
        self.leased.store(leased as u64, Ordering::Relaxed);
        self.sites.store(sites as u64, Ordering::Relaxed);
    }

    pub(crate) fn set_pages(&self, pages: u64, partitions: usize) {
        self.pages.store(pages, Ordering::Relaxed);
        self.partitions.store(partitions as u64, Ordering::Relaxed);
    }

    pub(crate) fn set_over_budget(&self, patterns: usize) {
        self.over_budget.store(patterns as u64, Ordering::Relaxed);
    }

    pub(crate) fn set_busiest(&self, busiest: Vec<SiteLoad>) {
        *self.busiest.lock().unwrap_or_else(PoisonError::into_inner) = busiest;
    }

    /// URLs that wait, leased ones included.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// URLs on their way.
    #[must_use]
    pub fn leased(&self) -> u64 {
        self.leased.load(Ordering::Relaxed)
    }

    /// Sites with URLs that wait.
    #[must_use]
    pub fn sites(&self) -> u64 {
        self.sites.load(Ordering::Relaxed)
    }

    /// Pages that were fetched, of all crawls, as they count for caps.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    /// Partitions that are served.
    #[must_use]
    pub fn partitions(&self) -> u64 {
        self.partitions.load(Ordering::Relaxed)
    }

    /// Patterns of similar URLs that are over their budget.
    #[must_use]
    pub fn over_budget(&self) -> u64 {
        self.over_budget.load(Ordering::Relaxed)
    }

    /// The sites with the most URLs that wait, most first.
    #[must_use]
    pub fn busiest(&self) -> Vec<SiteLoad> {
        self.busiest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
