//! What waits for the cap of its crawl to be raised.
//!
//! A site's turn is withheld when a URL of a crawl that is at its cap would have it. So reaching a cap costs one look a site,
//! and raising it one turn a site, however much waits there: the URLs stay where they are.

use orbweaver_log::Offset;
use orbweaver_messages::Millis;

use super::{LET_GO_BATCH, PartitionFrontier};
use crate::{decision::Turn, index::Place};

impl PartitionFrontier {
    /// URLs whose site has no turn before the cap of their crawl is raised.
    #[must_use]
    pub fn held(&self) -> usize {
        self.sites.held()
    }

    /// Where nothing can move but by raising a cap: up to where `crawl.frontier` was read, and one of the crawls.
    #[must_use]
    pub fn held_at(&self) -> Option<(Offset, &str)> {
        let stands = self.sites.held() == self.sites.waiting() && self.active.is_empty() && self.outdated.is_empty();
        let (crawl, _) = self.held.first_key_value()?;
        stands.then_some((self.end, crawl))
    }

    /// The site of this URL has no turn before its crawl may go on. The URL stays first in its queue.
    pub(super) fn hold(&mut self, crawl: &str, place: &Place, now: Millis) {
        self.sites.hold(place, now);
        match self.held.get_mut(crawl) {
            Some(sites) => sites.push_back(place.site),
            None => drop(self.held.insert(crawl.to_owned(), [place.site].into())),
        }
    }

    /// As many sites of each crawl have their turn again as pages of it may be asked for. Whether more may, which were
    /// left out so that a call stays short.
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
