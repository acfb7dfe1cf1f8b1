//! Sites at which several crawls have queues: their dispatches in flight are bounded together, and the crawls take turns
//! in proportion to their shares. Pure.

use std::collections::{BTreeMap, HashMap};

use orbweaver_stage::FairQueue;

use crate::index::{CrawlKey, QueueKey, SiteKey};

/// The sites of a partition at which more than one crawl has a queue.
#[derive(Debug, Default)]
pub(crate) struct SharedSites {
    sites: HashMap<SiteKey, SharedSite>,
    /// Number of queues of each crawl, at any site.
    crawls: BTreeMap<CrawlKey, usize>,
}

#[derive(Debug, Default)]
struct SharedSite {
    /// Crawls with a queue here, each with the number of dispatches that its interval permits.
    crawls: BTreeMap<CrawlKey, u32>,
    in_flight: u32,
    /// Queues that may dispatch, and wait for room.
    waiting: FairQueue<CrawlKey, QueueKey>,
}

impl SharedSite {
    /// The fastest crawl determines the bound, as it does the clock of the site.
    fn has_room(&self) -> bool {
        self.in_flight < self.crawls.values().copied().max().unwrap_or(1).max(1)
    }
}

impl SharedSites {
    /// Adds a queue. `in_flight` returns the number of dispatches in flight of an existing queue.
    pub(crate) fn add(&mut self, id: QueueKey, crawl: CrawlKey, in_flight: impl Fn(QueueKey) -> Option<u32>) {
        let key = id.site(crawl);
        let others = self.crawls.keys().filter(|other| **other != crawl);
        let others: Vec<_> = others.filter_map(|other| Some((*other, in_flight(QueueKey::at(key, *other))?))).collect();
        *self.crawls.entry(crawl).or_default() += 1;
        if others.is_empty() {
            return;
        }
        let site = self.sites.entry(key).or_insert_with(|| SharedSite {
            crawls: others.iter().map(|(other, _)| (*other, 1)).collect(),
            in_flight: others.iter().map(|(_, in_flight)| in_flight).sum(),
            waiting: FairQueue::default(),
        });
        site.crawls.insert(crawl, 1);
    }

    /// Removes a queue, which has no dispatch in flight and does not wait.
    pub(crate) fn remove(&mut self, id: QueueKey, crawl: CrawlKey) {
        if let Some(queues) = self.crawls.get_mut(&crawl) {
            *queues -= 1;
            if *queues == 0 {
                self.crawls.remove(&crawl);
            }
        }
        let key = id.site(crawl);
        if let Some(site) = self.sites.get_mut(&key) {
            site.crawls.remove(&crawl);
            if site.crawls.len() < 2 && site.waiting.is_empty() {
                self.sites.remove(&key);
            }
        }
    }

    /// Returns `true` if a queue may dispatch, as far as the other crawls at its site allow. Otherwise it waits until
    /// [`SharedSites::next`] returns it. `slots`: the dispatches that it may have in flight by its interval.
    pub(crate) fn admit(&mut self, id: QueueKey, (crawl, share): (CrawlKey, u32), slots: u32) -> bool {
        let Some(site) = self.sites.get_mut(&id.site(crawl)) else { return true };
        site.crawls.insert(crawl, slots);
        let has_room = site.has_room();
        if !has_room {
            site.waiting.push((&crawl, share), id, 1);
        }
        has_room
    }

    /// Counts a dispatch of a queue.
    pub(crate) fn start(&mut self, id: QueueKey, crawl: CrawlKey) {
        if let Some(site) = self.sites.get_mut(&id.site(crawl)) {
            site.in_flight += 1;
        }
    }

    /// Ends a dispatch of a queue.
    pub(crate) fn end(&mut self, id: QueueKey, crawl: CrawlKey) {
        if let Some(site) = self.sites.get_mut(&id.site(crawl)) {
            site.in_flight = site.in_flight.saturating_sub(1);
        }
    }

    /// Removes and returns the next queue that waits at the site of this one, if there is room. To be called after each
    /// dispatch and each end of one at the site, and when a queue that was returned does not dispatch.
    pub(crate) fn next(&mut self, id: QueueKey, crawl: CrawlKey) -> Option<QueueKey> {
        let site = self.sites.get_mut(&id.site(crawl)).filter(|site| site.has_room())?;
        site.waiting.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: SiteKey = SiteKey(77);

    fn queue(crawl: u32) -> (QueueKey, CrawlKey) {
        (QueueKey::at(SITE, CrawlKey(crawl)), CrawlKey(crawl))
    }

    #[test]
    fn a_queue_has_the_site_from_which_it_was_made() {
        for crawl in [0, 1, u32::MAX] {
            let (id, crawl) = queue(crawl);
            assert_eq!(id.site(crawl), SITE);
        }
        assert_ne!(queue(1).0, queue(2).0);
    }

    #[test]
    fn crawls_at_one_site_have_its_slots_by_their_shares_and_one_alone_has_no_bound_here() {
        let mut sites = SharedSites::default();
        let ((one, a), (three, b)) = (queue(1), queue(2));
        sites.add(one, a, |_| None);
        assert!((0..10).all(|_| sites.admit(one, (a, 100), 2)), "a site of one crawl is not tracked");
        sites.add(three, b, |id| (id == one).then_some(1));
        let mut ready = std::collections::VecDeque::from([(one, a, 100), (three, b, 300)]);
        let (mut dispatched, mut flying) = (HashMap::<_, u32>::new(), std::collections::VecDeque::from([(one, a)]));
        for _ in 0..400 {
            while let Some((id, crawl, share)) = ready.pop_front() {
                if sites.admit(id, (crawl, share), if id == one { 1 } else { 2 }) {
                    sites.start(id, crawl);
                    *dispatched.entry(crawl).or_insert(0) += 1;
                    flying.push_back((id, crawl));
                    ready.push_back((id, crawl, share));
                }
            }
            assert_eq!(flying.len(), 2, "the slots of the faster crawl, for both together");
            let (id, crawl) = flying.pop_front().unwrap();
            sites.end(id, crawl);
            let next = sites.next(id, crawl).unwrap();
            ready.push_back(if next == one { (one, a, 100) } else { (three, b, 300) });
        }
        assert!(dispatched[&a].abs_diff(100) < 5 && dispatched[&b].abs_diff(300) < 5, "{dispatched:?}");
    }

    #[test]
    fn a_site_that_one_crawl_is_left_at_is_no_longer_tracked() {
        let mut sites = SharedSites::default();
        let ((first, a), (second, b)) = (queue(1), queue(2));
        sites.add(first, a, |_| None);
        sites.add(second, b, |id| (id == first).then_some(0));
        sites.remove(first, a);
        assert!(sites.sites.is_empty() && sites.admit(second, (b, 1), 1));
        sites.remove(second, b);
        assert!(sites.crawls.is_empty());
    }
}
