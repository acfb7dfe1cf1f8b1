//! Pages of each site in crawls with a page cap per site. Pure.
//!
//! A page counts when its outcome ends the first visit to its URL. The count is in `crawl.site-pages` before that outcome
//! completes, together with the offset below which outcomes are counted, so that one that is delivered again counts once.
//! Outcomes of a site arrive in the order of their offsets.

use foldhash::HashMap;
use orbweaver_log::Offset;
use orbweaver_messages::{SitePages, UrlContext};

use crate::index::{CrawlKey, QueueKey};

/// Reason of an outcome: the site of the URL has as many pages as its crawl allows.
pub(crate) const SITE_CAP: &str = "site_cap";

#[derive(Debug, Clone, Copy)]
struct Count {
    crawl: CrawlKey,
    pages: u64,
    /// Outcomes below this offset are counted.
    upto: Offset,
}

/// Page counts by site of one partition.
#[derive(Debug, Default)]
pub(crate) struct SitePageCounts {
    counts: HashMap<QueueKey, Count>,
}

impl SitePageCounts {
    /// Replays a record of `crawl.site-pages`.
    pub(crate) fn restore(&mut self, record: &SitePages) {
        let SitePages { pages, upto, .. } = *record;
        let queue = QueueKey::of_first_visits(&record.crawl, &record.site);
        if self.counts.get(&queue).is_none_or(|known| known.upto <= upto) {
            self.counts.insert(queue, Count { crawl: CrawlKey::of(&record.crawl), pages, upto });
        }
    }

    /// Replays a tombstone of `crawl.site-pages`.
    pub(crate) fn remove(&mut self, queue: QueueKey) {
        self.counts.remove(&queue);
    }

    /// Counts a page whose outcome has this offset, unless it is counted.
    pub(crate) fn count(&mut self, context: &UrlContext, outcome: Offset) {
        let queue = QueueKey::of(context);
        let crawl = CrawlKey::of(&context.crawl);
        let count = self.counts.entry(queue).or_insert(Count { crawl, pages: 0, upto: 0 });
        if outcome >= count.upto {
            (count.pages, count.upto) = (count.pages + 1, outcome + 1);
        }
    }

    /// Returns the number of pages of the crawl and site of this queue.
    pub(crate) fn pages(&self, queue: QueueKey) -> u64 {
        self.counts.get(&queue).map_or(0, |count| count.pages)
    }

    /// Returns the count as a record of the owner with this epoch; `None` if there is none.
    pub(crate) fn record(&self, context: &UrlContext, epoch: u64) -> Option<SitePages> {
        let Count { pages, upto, .. } = *self.counts.get(&QueueKey::of(context))?;
        Some(SitePages { crawl: context.crawl.clone(), site: context.site.clone(), epoch, pages, upto })
    }

    /// Returns the present count instead of that of a stale owner; `None` if that one is not lower.
    pub(crate) fn corrected(&self, stale: &SitePages, epoch: u64) -> Option<SitePages> {
        let queue = QueueKey::of_first_visits(&stale.crawl, &stale.site);
        let Count { pages, upto, .. } = *self.counts.get(&queue).filter(|count| count.upto > stale.upto)?;
        (stale.epoch < epoch).then(|| SitePages { epoch, pages, upto, ..stale.clone() })
    }

    /// Removes the counts of a crawl, and returns their queues.
    pub(crate) fn take(&mut self, crawl: CrawlKey) -> Vec<QueueKey> {
        let mut taken: Vec<QueueKey> =
            self.counts.extract_if(|_, count| count.crawl == crawl).map(|(queue, _)| queue).collect();
        // Sorted, so that equal deletions lead to equal records.
        taken.sort_unstable();
        taken
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use super::*;

    fn context(crawl: &str, site: &str) -> UrlContext {
        UrlContext::of_seed(crawl.parse().unwrap(), format!("https://{site}/"), site.into())
    }

    #[test]
    fn an_outcome_counts_once_before_and_after_a_restart() {
        let context = context("docs", "example.org");
        let queue = QueueKey::of(&context);
        let mut counts = SitePageCounts::default();
        for offset in [3, 7, 7, 3] {
            counts.count(&context, offset);
        }
        assert_eq!(counts.pages(queue), 2);
        let written = counts.record(&context, 5).unwrap();
        let mut restored = SitePageCounts::default();
        restored.restore(&written);
        // The record of a stale owner that was appended later.
        restored.restore(&SitePages { pages: 1, upto: 4, epoch: 2, ..written.clone() });
        restored.count(&context, 7);
        assert_eq!(restored.pages(queue), 2);
        restored.count(&context, 8);
        assert_eq!(restored.pages(queue), 3);
    }

    #[test]
    fn a_lower_count_of_a_stale_owner_is_corrected_and_no_other_one_is() {
        let context = context("docs", "example.org");
        let mut counts = SitePageCounts::default();
        counts.count(&context, 7);
        let present = counts.record(&context, 5).unwrap();
        let stale = SitePages { pages: 0, upto: 2, epoch: 4, ..present.clone() };
        assert_eq!(counts.corrected(&stale, 5), Some(present.clone()));
        assert_eq!(counts.corrected(&SitePages { epoch: 5, ..stale }, 5), None, "the owner's own, on its way");
        assert_eq!(counts.corrected(&SitePages { epoch: 4, ..present }, 5), None, "the same");
    }

    #[test]
    fn the_counts_of_a_deleted_crawl_are_taken_and_those_of_others_stay() {
        let (deleted, other) = (context("docs", "example.org"), context("news", "example.org"));
        let mut counts = SitePageCounts::default();
        counts.count(&deleted, 1);
        counts.count(&other, 2);
        assert_eq!(counts.take(CrawlKey::of(&deleted.crawl)), [QueueKey::of(&deleted)]);
        assert_eq!((counts.pages(QueueKey::of(&deleted)), counts.pages(QueueKey::of(&other))), (0, 1));
    }
}
