//! Live URLs of each crawl (docs/protocol.md#crawl-completion).

use std::collections::{BTreeSet, HashMap};

use orbweaver_log::Offset;

use crate::index::{CrawlKey, IndexEntry};

/// Live URLs of a crawl in a partition: those whose last record in `crawl.frontier` that was read is not a tombstone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Live {
    pub urls: u64,
    /// Offset in `crawl.frontier` up to which the last URL that became live, or ceased to be, is contained; at least the
    /// offset at which the partition was opened.
    pub moved: Offset,
}

/// Live URLs of all crawls in a partition.
#[derive(Debug, Default)]
pub(super) struct LiveUrls {
    crawls: HashMap<CrawlKey, Live>,
    /// Crawls whose number of live URLs has changed and was not reported.
    changed: BTreeSet<CrawlKey>,
    opened_at: Offset,
}

impl LiveUrls {
    /// Sets the offset at which the partition was opened.
    pub(super) fn open(&mut self, end: Offset) {
        self.opened_at = end;
    }

    /// Counts a URL that is found at the opening.
    pub(super) fn count(&mut self, entry: &IndexEntry) {
        self.change(entry.crawl, self.opened_at).urls += 1;
    }

    /// Counts the replacement of a URL's entry by a record below `end`.
    pub(super) fn replace(&mut self, old: Option<CrawlKey>, new: Option<CrawlKey>, end: Offset) {
        if old == new {
            return;
        }
        if let Some(old) = old {
            let live = self.change(old, end);
            live.urls = live.urls.saturating_sub(1);
        }
        if let Some(new) = new {
            self.change(new, end).urls += 1;
        }
    }

    fn change(&mut self, crawl: CrawlKey, end: Offset) -> &mut Live {
        self.changed.insert(crawl);
        let live = self.crawls.entry(crawl).or_default();
        live.moved = live.moved.max(end);
        live
    }

    /// Returns the live URLs of a crawl.
    pub(super) fn of(&self, crawl: CrawlKey) -> Live {
        self.crawls.get(&crawl).copied().unwrap_or(Live { urls: 0, moved: self.opened_at })
    }

    /// Passes each changed number of live URLs to `report`, again until it returns `true`.
    pub(super) fn report(&mut self, mut report: impl FnMut(CrawlKey, u64) -> bool) {
        let Self { crawls, changed, .. } = self;
        changed.retain(|crawl| !report(*crawl, crawls.get(crawl).map_or(0, |live| live.urls)));
    }
}
