//! Figures for a progress display.

use orbweaver_url::SiteName;
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

/// A site and the number of its queued URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteLoad {
    pub site: SiteName,
    /// Number of its queued URLs.
    pub waiting: u64,
}

/// Figures of the frontier, updated after every batch and tick. Reading them costs the frontier nothing.
#[derive(Debug, Default)]
pub struct FrontierView {
    waiting: AtomicU64,
    sites: AtomicU64,
    over_budget: AtomicU64,
    pages: AtomicU64,
    partitions: AtomicU64,
    busiest: Mutex<Vec<SiteLoad>>,
}

impl FrontierView {
    pub(crate) fn set(&self, [waiting, sites, over_budget, partitions]: [usize; 4], pages: u64) {
        self.waiting.store(waiting as u64, Ordering::Relaxed);
        self.sites.store(sites as u64, Ordering::Relaxed);
        self.over_budget.store(over_budget as u64, Ordering::Relaxed);
        self.partitions.store(partitions as u64, Ordering::Relaxed);
        self.pages.store(pages, Ordering::Relaxed);
    }

    pub(crate) fn set_busiest(&self, busiest: Vec<SiteLoad>) {
        *self.busiest.lock().unwrap_or_else(PoisonError::into_inner) = busiest;
    }

    /// Returns the number of queued URLs, including leased ones.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Returns the number of sites with queued URLs.
    #[must_use]
    pub fn sites(&self) -> u64 {
        self.sites.load(Ordering::Relaxed)
    }

    /// Returns the number of fetched pages of all crawls, as counted for page caps.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    /// Returns the number of open partitions.
    #[must_use]
    pub fn partitions(&self) -> u64 {
        self.partitions.load(Ordering::Relaxed)
    }

    /// Returns the number of patterns of similar URLs that are over their budget.
    #[must_use]
    pub fn over_budget(&self) -> u64 {
        self.over_budget.load(Ordering::Relaxed)
    }

    /// Returns the sites with the most queued URLs, in descending order.
    #[must_use]
    pub fn busiest(&self) -> Vec<SiteLoad> {
        self.busiest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
