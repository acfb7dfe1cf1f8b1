//! Figures for a progress display.

use std::sync::{Mutex, MutexGuard, PoisonError};

use orbweaver_messages::Millis;
use orbweaver_url::SiteName;

use crate::CrawlState;

/// A site and the number of its queued URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteLoad {
    pub site: SiteName,
    /// Number of its queued URLs.
    pub waiting: u64,
}

/// Figures of the open partitions of the frontier at one time.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Number of queued URLs, including leased ones.
    pub waiting: u64,
    /// Whether a crawl has reached one of its caps.
    pub is_capped: bool,
    /// Number of URLs that sleep until their next visit.
    pub asleep: u64,
    /// Time at which the first delayed or sleeping URL is due, in milliseconds since the Unix epoch.
    pub next_due_ms: Option<Millis>,
    /// Sum of the offsets up to which `crawl.frontier` was read, over the open partitions.
    pub read: u64,
    /// Number of sites with queued URLs.
    pub sites: u64,
    /// Number of patterns of similar URLs that are over their budget.
    pub over_budget: u64,
    /// Number of fetched pages of all crawls, as counted for page caps.
    pub pages: u64,
    /// Number of open partitions.
    pub partitions: u64,
    /// Sites with the most queued URLs, in descending order.
    pub busiest: Vec<SiteLoad>,
}

/// Figures of the frontier, updated after every batch and tick. Reading them costs the frontier next to nothing.
#[derive(Debug, Default)]
pub struct FrontierView {
    figures: Mutex<Figures>,
    crawls: Mutex<Option<Vec<CrawlState>>>,
}

impl FrontierView {
    /// Returns the current figures.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.lock().clone()
    }

    /// Returns the states of all crawls, as of the last second; `None` unless partition 0 is open here.
    #[must_use]
    pub fn crawls(&self) -> Option<Vec<CrawlState>> {
        self.lock_crawls().clone()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_crawls(&self) -> MutexGuard<'_, Option<Vec<CrawlState>>> {
        self.crawls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
