//! Live URLs of each crawl (docs/protocol.md#crawl-completion).

use std::collections::BTreeSet;

use foldhash::HashMap;
use orbweaver_log::Offset;

use crate::index::{CrawlKey, IndexEntry};

/// Live URLs of a crawl in a partition: those whose last record in `crawl.frontier` that was read is not a tombstone, and
/// that do not sleep until their next visit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Live {
    pub urls: u64,
    /// URLs that sleep until their next visit.
    pub asleep: u64,
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
    /// URLs of all crawls that sleep.
    asleep: u64,
    opened_at: Offset,
}

impl LiveUrls {
    /// Sets the offset at which the partition was opened.
    pub(super) fn open(&mut self, end: Offset) {
        self.opened_at = end;
    }

    /// Counts a URL that is found at the opening.
    pub(super) fn count(&mut self, entry: &IndexEntry) {
        self.add(entry, self.opened_at);
    }

    /// Counts the replacement of a URL's entry by a record below `end`.
    pub(super) fn replace(&mut self, old: Option<&IndexEntry>, new: Option<&IndexEntry>, end: Offset) {
        let counted_as = |entry: Option<&IndexEntry>| entry.map(|entry| (entry.crawl, entry.asleep));
        if counted_as(old) == counted_as(new) {
            return;
        }
        if let Some(old) = old {
            let live = self.change(old.crawl, end);
            let counted = if old.asleep { &mut live.asleep } else { &mut live.urls };
            *counted = counted.saturating_sub(1);
            self.asleep = self.asleep.saturating_sub(old.asleep.into());
        }
        if let Some(new) = new {
            self.add(new, end);
        }
    }

    fn add(&mut self, entry: &IndexEntry, end: Offset) {
        let live = self.change(entry.crawl, end);
        *(if entry.asleep { &mut live.asleep } else { &mut live.urls }) += 1;
        self.asleep += u64::from(entry.asleep);
    }

    /// Returns the number of URLs of all crawls that sleep.
    pub(super) fn asleep(&self) -> u64 {
        self.asleep
    }

    fn change(&mut self, crawl: CrawlKey, end: Offset) -> &mut Live {
        self.changed.insert(crawl);
        let live = self.crawls.entry(crawl).or_default();
        live.moved = live.moved.max(end);
        live
    }

    /// Returns the live URLs of a crawl.
    pub(super) fn of(&self, crawl: CrawlKey) -> Live {
        self.crawls.get(&crawl).copied().unwrap_or(Live { moved: self.opened_at, ..Live::default() })
    }

    /// Passes the live URLs of each crawl for which their number has changed to `report`, again until it returns `true`.
    pub(super) fn report(&mut self, mut report: impl FnMut(CrawlKey, Live) -> bool) {
        let Self { crawls, changed, .. } = self;
        changed.retain(|crawl| !report(*crawl, crawls.get(crawl).copied().unwrap_or_default()));
    }
}
