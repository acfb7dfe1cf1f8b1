//! Stopped crawls: their URLs end when they would be dispatched, and nothing delays that.

use orbweaver_messages::Millis;
use orbweaver_url::{CrawlName, Fingerprint};

use super::{PartitionFrontier, WAKE_BATCH};
use crate::index::{CrawlKey, IndexEntry, IndexError};

impl PartitionFrontier {
    /// Ends the pauses of the queues of a stopped crawl, and begins to release its delayed URLs.
    pub(crate) fn stop(&mut self, crawl: &CrawlName, now: Millis) {
        let crawl = CrawlKey::of(crawl);
        self.sites.end_pauses(crawl, now);
        self.stopped.insert(crawl, None);
    }

    /// Checks the next delayed URLs for those of a stopped crawl.
    pub(super) fn release_stopped(&mut self, now: Millis) -> Result<(), IndexError> {
        let Some((crawl, after)) = self.stopped.pop_first() else { return Ok(()) };
        let delayed = self.index.delayed(after, Millis::MAX, WAKE_BATCH)?;
        for (fingerprint, entry) in delayed.iter().filter(|(_, entry)| entry.crawl == crawl) {
            self.make_due(*fingerprint, *entry, now);
        }
        if delayed.len() == WAKE_BATCH {
            self.stopped.insert(crawl, delayed.last().map(|(_, entry)| *entry));
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
