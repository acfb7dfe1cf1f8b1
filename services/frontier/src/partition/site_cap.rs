//! Page caps per site: further URLs of a site at its cap are refused, and those that those in flight may make superfluous
//! stay queued until then.

use orbweaver_messages::{FrontierUrl, SitePages, UrlContext};
use orbweaver_stage::Origin;
use orbweaver_url::CrawlName;

use super::{Ending, PartitionFrontier};
use crate::{
    decision::{Decision, DecisionContext},
    index::{CrawlKey, IndexEntry, QueueKey},
};

/// Maximum number of page counts of deleted crawls that are removed per call.
const FORGET_BATCH: usize = 512;

/// Pages of a site that may still be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SiteSlack {
    /// One more, at least.
    Page,
    /// None, unless one of those in flight is no page.
    InFlight,
    /// None.
    None,
}

impl PartitionFrontier {
    /// Replays a record of `crawl.site-pages`.
    pub fn restore_pages(&mut self, record: &SitePages) {
        self.site_pages.restore(record);
    }

    /// Replays a tombstone of `crawl.site-pages`.
    pub(crate) fn restore_forgotten(&mut self, queue: QueueKey) {
        self.site_pages.remove(queue);
    }

    /// Returns the decision that corrects a record of a former owner of the partition, which was appended too late.
    pub(crate) fn corrected_pages(&self, stale: &SitePages) -> Option<Decision> {
        let corrected = self.site_pages.corrected(stale, self.owner.epoch)?;
        Some(Decision::CountPages(Box::new(corrected)))
    }

    /// Begins to remove the page counts of a deleted crawl.
    pub(crate) fn delete(&mut self, crawl: &CrawlName) {
        self.forgotten.extend(self.site_pages.take(CrawlKey::of(crawl)));
    }

    /// Removes the next page counts of deleted crawls.
    pub(super) fn forget_pages(&mut self, turn: &mut DecisionContext<'_>) {
        let rest = self.forgotten.len().saturating_sub(FORGET_BATCH);
        turn.out.extend(self.forgotten.drain(rest..).map(Decision::ForgetPages));
    }

    /// Returns the pages that may be fetched of the site of this URL, which `next` of the sites has returned.
    pub(super) fn site_slack(&self, entry: &IndexEntry, waiting: &FrontierUrl) -> SiteSlack {
        let Some(max) = self.sites.max_pages_per_site(entry.crawl).filter(|_| waiting.context.may_be_new_page()) else {
            return SiteSlack::Page;
        };
        let pages = self.site_pages.pages(entry.site);
        if pages >= max {
            SiteSlack::None
        } else if pages.saturating_add(self.sites.others_in_flight(entry.site)) >= max {
            SiteSlack::InFlight
        } else {
            SiteSlack::Page
        }
    }

    /// Counts the page that an outcome brings, if its crawl has a page cap per site.
    pub(super) fn count_page(&mut self, context: &UrlContext, ending: &Ending, outcome: Origin) {
        if ending.is_page && self.has_site_cap(context) {
            self.site_pages.count(context, outcome.offset);
        }
    }

    /// Returns the number of pages of a site after the end of a visit, if the visit counts.
    pub(super) fn page_count(&self, context: &UrlContext, ending: &Ending) -> Option<Box<SitePages>> {
        let counts = ending.is_page && self.has_site_cap(context);
        counts.then(|| self.site_pages.record(context, self.owner.epoch))?.map(Box::new)
    }

    fn has_site_cap(&self, context: &UrlContext) -> bool {
        self.sites.max_pages_per_site(CrawlKey::of(&context.crawl)).is_some()
    }
}
