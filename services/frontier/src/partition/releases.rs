//! Delayed URLs that are due before their time: those of stopped crawls, which end when they would be dispatched, and those
//! that would sleep for longer than the longest interval of their crawl.

use orbweaver_log::Offset;
use orbweaver_messages::{Millis, RevisitPolicy};
use orbweaver_url::{CrawlName, Fingerprint};

use super::{PartitionFrontier, WAKE_BATCH};
use crate::index::{CrawlKey, IndexEntry, IndexError, QueueKey};

/// Delayed URLs of a crawl that are being released.
#[derive(Debug, Clone, Copy)]
pub(super) struct Release {
    /// The last delayed URL that was checked, or an entry before the first one.
    after: Option<IndexEntry>,
    /// Whether only those that sleep are released.
    only_asleep: bool,
}

impl PartitionFrontier {
    /// Ends the pauses of the queues of a stopped crawl, and begins to release its delayed URLs.
    pub(crate) fn stop(&mut self, crawl: &CrawlName, now: Millis) {
        let crawl = CrawlKey::of(crawl);
        self.sites.end_pauses(crawl, now);
        self.releases.insert(crawl, Release { after: None, only_asleep: false });
    }

    /// Begins to wake the URLs of a crawl that would sleep for longer than its longest interval: that was longer before, or their
    /// times were set by a frontier with a clock that was ahead.
    pub fn wake_beyond(&mut self, crawl: &CrawlName, policy: &RevisitPolicy, now: Millis) {
        let crawl = CrawlKey::of(crawl);
        let last = IndexEntry {
            offset: Offset::MAX,
            crawl,
            site: QueueKey(u64::MAX),
            depth: 0,
            by_weight: u32::MAX,
            failures: 0,
            blocks: 0,
            demoted: true,
            not_before_ms: now.saturating_add_unsigned(policy.longest_ms()),
            asleep: true,
        };
        self.releases.insert(crawl, Release { after: Some(last), only_asleep: true });
    }

    /// Checks the next delayed URLs for those that are being released.
    pub(super) fn release(&mut self, now: Millis) -> Result<(), IndexError> {
        let Some((crawl, Release { after, only_asleep })) = self.releases.pop_first() else { return Ok(()) };
        let delayed = self.index.delayed(after, Millis::MAX, WAKE_BATCH)?;
        let is_released = |entry: &IndexEntry| entry.crawl == crawl && (entry.asleep || !only_asleep);
        for (fingerprint, entry) in delayed.iter().filter(|(_, entry)| is_released(entry)) {
            self.make_due(*fingerprint, *entry, now);
        }
        if delayed.len() == WAKE_BATCH {
            let after = delayed.last().map(|(_, entry)| *entry);
            self.releases.insert(crawl, Release { after, only_asleep });
        }
        Ok(())
    }

    /// Moves a delayed URL into the queue of its site.
    pub(super) fn make_due(&mut self, fingerprint: Fingerprint, entry: IndexEntry, now: Millis) {
        self.index.make_due(fingerprint, entry);
        if entry.asleep {
            self.sites.admit(&entry);
            self.live.replace(Some(&entry), Some(&entry.queued()), self.end);
        }
        match self.active.get_mut(&fingerprint) {
            Some(active) => active.entry = active.entry.queued(),
            None => self.sites.enqueue(entry.site, entry.rank(), now),
        }
    }
}
