//! Site queues paused by their crawl's page cap, or with their crawl.
//!
//! A queue pauses when its next URL belongs to a crawl at its cap, or to a paused one. Reaching a cap thus costs one check
//! per site and raising it one scheduling step, regardless of queue length; URLs keep their place. Revisits,
//! requisites and external URLs bring no further page: their queues pause only with their crawl.

use orbweaver_log::Offset;
use orbweaver_messages::{Millis, UrlContext};
use orbweaver_url::CrawlName;

use super::{PartitionFrontier, RESUME_BATCH};
use crate::{decision::DecisionContext, index::IndexEntry};

impl PartitionFrontier {
    /// Returns the number of URLs in these queues.
    #[must_use]
    pub fn capped_urls(&self) -> usize {
        self.sites.capped()
    }

    /// Returns the read offset of `crawl.frontier` and one crawl at its cap or paused, if only a raised cap or its
    /// resumption allows progress.
    #[must_use]
    pub fn capped_at(&self) -> Option<(Offset, &CrawlName)> {
        let is_idle = self.sites.capped() == self.sites.waiting() && self.active.is_empty() && self.outdated.is_empty();
        let ((crawl, _), _) = self.held.first_key_value()?;
        is_idle.then_some((self.end, crawl))
    }

    /// Pauses the URL's queue until its crawl may send requests again; the URL stays first.
    pub(super) fn pause_for_cap(&mut self, context: &UrlContext, entry: &IndexEntry, now: Millis) {
        self.sites.hold(entry, now);
        self.held.entry((context.crawl.clone(), context.may_be_new_page())).or_default().push_back(entry.site);
    }

    /// Resumes as many queues per crawl as pages remain, up to `RESUME_BATCH`, which keeps a call short. Returns `true`
    /// if more could resume.
    pub(super) fn resume_after_cap(&mut self, turn: &DecisionContext<'_>) -> bool {
        let mut more = false;
        let Self { held, sites, .. } = self;
        held.retain(|(crawl, may_be_new_page), waiting| {
            let slack = turn.pages.slack_of(crawl, *may_be_new_page);
            for _ in 0..slack.min(RESUME_BATCH) {
                let Some(site) = waiting.pop_front() else { break };
                sites.resume_after_cap(site, turn.now);
            }
            more |= slack > RESUME_BATCH && !waiting.is_empty();
            !waiting.is_empty()
        });
        more
    }
}
