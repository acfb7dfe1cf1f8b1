//! Shares of crawls in the dispatches in flight of a partition. Pure.

use foldhash::HashMap;

use crate::index::CrawlKey;

/// Dispatches in flight, by crawl.
#[derive(Debug, Default)]
pub(crate) struct CrawlShares {
    /// Crawls with dispatches in flight.
    crawls: HashMap<CrawlKey, InFlight>,
    all: usize,
    /// Sum of the shares of these crawls.
    shares: u64,
}

#[derive(Debug)]
struct InFlight {
    dispatches: usize,
    /// Share of the crawl when its first dispatch was added.
    share: u32,
}

impl CrawlShares {
    /// Adds a dispatch of a crawl with this share.
    pub(crate) fn add(&mut self, crawl: CrawlKey, share: u32) {
        self.all += 1;
        let shares = &mut self.shares;
        let add_share = || {
            *shares += u64::from(share);
            InFlight { dispatches: 0, share }
        };
        self.crawls.entry(crawl).or_insert_with(add_share).dispatches += 1;
    }

    pub(crate) fn remove(&mut self, crawl: CrawlKey) {
        let Some(in_flight) = self.crawls.get_mut(&crawl) else { return };
        in_flight.dispatches -= 1;
        self.all -= 1;
        if in_flight.dispatches == 0 {
            self.shares -= u64::from(in_flight.share);
            self.crawls.remove(&crawl);
        }
    }

    /// Changes the share of a crawl.
    pub(crate) fn set_share(&mut self, crawl: CrawlKey, share: u32) {
        if let Some(in_flight) = self.crawls.get_mut(&crawl) {
            self.shares = self.shares - u64::from(in_flight.share) + u64::from(share);
            in_flight.share = share;
        }
    }

    /// Returns `true` if a crawl with this share may have another dispatch in flight. All crawls divide `limit` by their
    /// shares, and may also use what others leave of it. A crawl that uses all of it therefore does not delay the first
    /// dispatches of another; all together have at most twice the limit.
    pub(crate) fn has_room(&self, crawl: CrawlKey, share: u32, limit: usize) -> bool {
        let (own, others) = match self.crawls.get(&crawl) {
            Some(in_flight) => (in_flight.dispatches, self.shares - u64::from(in_flight.share)),
            None => (0, self.shares),
        };
        let part = limit as u64 * u64::from(share) / (others + u64::from(share)).max(1);
        self.all < limit || ((own as u64) < part.max(1) && self.all < 2 * limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EQUAL: u32 = 100;

    /// Returns the number of dispatches that a crawl may add.
    fn fill(shares: &mut CrawlShares, (crawl, share): (u32, u32), limit: usize) -> usize {
        let room = (0..10 * limit).take_while(|_| {
            let has_room = shares.has_room(CrawlKey(crawl), share, limit);
            if has_room {
                shares.add(CrawlKey(crawl), share);
            }
            has_room
        });
        room.count()
    }

    #[test]
    fn a_crawl_alone_has_the_whole_limit_and_another_has_its_share_at_once() {
        let mut shares = CrawlShares::default();
        assert_eq!(fill(&mut shares, (1, EQUAL), 100), 100);
        assert_eq!(fill(&mut shares, (2, EQUAL), 100), 50);
        assert_eq!(fill(&mut shares, (3, EQUAL), 100), 33);
        assert_eq!(fill(&mut shares, (1, EQUAL), 100), 0);
        // Others use the slots of ended dispatches only below the limit, or below their share.
        (0..90).for_each(|_| shares.remove(CrawlKey(1)));
        assert_eq!(fill(&mut shares, (2, EQUAL), 100), 7);
        assert_eq!(fill(&mut shares, (1, EQUAL), 100), 23, "up to its share");
        (0..150).for_each(|_| shares.remove(CrawlKey(2)));
        (0..150).for_each(|_| shares.remove(CrawlKey(3)));
        assert_eq!(fill(&mut shares, (1, EQUAL), 100), 67);
        assert_eq!((shares.all, shares.shares), (100, u64::from(EQUAL)));
    }

    #[test]
    fn the_limit_is_divided_in_proportion_to_the_shares_as_they_are_by_now() {
        let mut shares = CrawlShares::default();
        assert_eq!(fill(&mut shares, (1, 100), 100), 100);
        assert_eq!(fill(&mut shares, (2, 300), 100), 75);
        shares.set_share(CrawlKey(1), 300);
        shares.set_share(CrawlKey(9), 300);
        assert_eq!(fill(&mut shares, (3, 200), 100), 25);
        (0..100).for_each(|_| shares.remove(CrawlKey(1)));
        (0..75).for_each(|_| shares.remove(CrawlKey(2)));
        assert_eq!((shares.all, shares.shares), (25, 200));
    }

    #[test]
    fn all_crawls_together_have_at_most_twice_the_limit() {
        let mut shares = CrawlShares::default();
        for crawl in 0..1000 {
            fill(&mut shares, (crawl, EQUAL), 512);
        }
        assert_eq!(shares.all, 2 * 512);
    }
}
