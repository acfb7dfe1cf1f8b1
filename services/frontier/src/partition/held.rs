//! Site queues paused by their crawl's page cap.
//!
//! A queue pauses when its next URL belongs to a crawl at its cap. Reaching a cap thus costs one check per site and
//! raising it one scheduling step, regardless of queue length; URLs keep their place.

use orbweaver_log::Offset;
use orbweaver_messages::Millis;

use super::{LET_GO_BATCH, PartitionFrontier};
use crate::{decision::Turn, index::Place};

impl PartitionFrontier {
    /// Returns the number of URLs in capped queues.
    #[must_use]
    pub fn held(&self) -> usize {
        self.sites.held()
    }

    /// Returns the read offset of `crawl.frontier` and one capped crawl, if only a raised cap allows progress.
    #[must_use]
    pub fn held_at(&self) -> Option<(Offset, &str)> {
        let stands = self.sites.held() == self.sites.waiting() && self.active.is_empty() && self.outdated.is_empty();
        let (crawl, _) = self.held.first_key_value()?;
        stands.then_some((self.end, crawl))
    }

    /// Pauses the URL's queue until its crawl's cap is raised; the URL stays first.
    pub(super) fn hold(&mut self, crawl: &str, place: &Place, now: Millis) {
        self.sites.hold(place, now);
        match self.held.get_mut(crawl) {
            Some(sites) => sites.push_back(place.site),
            None => drop(self.held.insert(crawl.to_owned(), [place.site].into())),
        }
    }

    /// Resumes as many queues per crawl as pages remain, up to `LET_GO_BATCH`, which keeps a call short. Returns `true`
    /// if more could resume.
    pub(super) fn let_go(&mut self, turn: &Turn<'_>) -> bool {
        let mut more = false;
        let Self { held, sites, .. } = self;
        held.retain(|crawl, waiting| {
            let slack = turn.pages.slack(crawl);
            for _ in 0..slack.min(LET_GO_BATCH) {
                let Some(site) = waiting.pop_front() else { break };
                sites.let_go(site, turn.now);
            }
            more |= slack > LET_GO_BATCH && !waiting.is_empty();
            !waiting.is_empty()
        });
        more
    }
}
