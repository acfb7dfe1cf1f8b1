//! Shares of crawls in the dispatches in flight of a partition. Pure.

use std::collections::HashMap;

use crate::index::CrawlKey;

/// Dispatches in flight, by crawl.
#[derive(Debug, Default)]
pub(crate) struct CrawlShares {
    /// Crawls with dispatches in flight.
    crawls: HashMap<CrawlKey, usize>,
    all: usize,
}

impl CrawlShares {
    pub(crate) fn add(&mut self, crawl: CrawlKey) {
        *self.crawls.entry(crawl).or_default() += 1;
        self.all += 1;
    }

    pub(crate) fn remove(&mut self, crawl: CrawlKey) {
        let Some(in_flight) = self.crawls.get_mut(&crawl) else { return };
        *in_flight -= 1;
        self.all -= 1;
        if *in_flight == 0 {
            self.crawls.remove(&crawl);
        }
    }

    /// Returns `true` if a crawl may have another dispatch in flight. All crawls have an equal share of `limit`, and may
    /// also use what others leave of it. A crawl that uses all of it therefore does not delay the first dispatches of
    /// another; all together have at most twice the limit.
    pub(crate) fn has_room(&self, crawl: CrawlKey, limit: usize) -> bool {
        let own = self.crawls.get(&crawl).copied().unwrap_or(0);
        let crawls = self.crawls.len() + usize::from(own == 0);
        self.all < limit || (own < (limit / crawls).max(1) && self.all < 2 * limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of dispatches that a crawl may add.
    fn fill(shares: &mut CrawlShares, crawl: u32, limit: usize) -> usize {
        let room = (0..10 * limit).take_while(|_| {
            let has_room = shares.has_room(CrawlKey(crawl), limit);
            if has_room {
                shares.add(CrawlKey(crawl));
            }
            has_room
        });
        room.count()
    }

    #[test]
    fn a_crawl_alone_has_the_whole_limit_and_another_has_its_share_at_once() {
        let mut shares = CrawlShares::default();
        assert_eq!(fill(&mut shares, 1, 100), 100);
        assert_eq!(fill(&mut shares, 2, 100), 50);
        assert_eq!(fill(&mut shares, 3, 100), 33);
        assert_eq!(fill(&mut shares, 1, 100), 0);
        // Others use the slots of ended dispatches only below the limit, or below their share.
        (0..90).for_each(|_| shares.remove(CrawlKey(1)));
        assert_eq!(fill(&mut shares, 2, 100), 7);
        assert_eq!(fill(&mut shares, 1, 100), 23, "up to its share");
        (0..150).for_each(|_| shares.remove(CrawlKey(2)));
        (0..150).for_each(|_| shares.remove(CrawlKey(3)));
        assert_eq!(fill(&mut shares, 1, 100), 67);
        assert_eq!(shares.all, 100);
    }

    #[test]
    fn all_crawls_together_have_at_most_twice_the_limit() {
        let mut shares = CrawlShares::default();
        for crawl in 0..1000 {
            fill(&mut shares, crawl, 512);
        }
        assert_eq!(shares.all, 2 * 512);
    }
}
