//! Sites at which several crawls have queues: their dispatches in flight are bounded together, and the crawls take turns
//! in proportion to their shares. Pure.
//!
//! Turns are start-time fair queueing (Goyal, Vin and Cheng, 1996): the next turn of a crawl begins when its last one ends, in
//! virtual time, or at the present virtual time if that is later; the crawl whose turn begins first is next.

use std::collections::{BTreeMap, HashMap};

use crate::index::{CrawlKey, QueueKey, SiteKey};

/// Length of a turn at a share of 1, in virtual time.
const TURN: u64 = 1 << 20;

/// The sites of a partition at which more than one crawl has a queue.
#[derive(Debug, Default)]
pub(crate) struct SharedSites {
    sites: HashMap<SiteKey, SharedSite>,
    /// Number of queues of each crawl, at any site.
    crawls: BTreeMap<CrawlKey, usize>,
    /// Queues that wait for their turn although there is room: the crawl whose turn it is may have lost its room in the
    /// partition since, and then does not delay them any longer.
    overtaken: Vec<(QueueKey, CrawlKey)>,
}

#[derive(Debug, Default)]
struct SharedSite {
    crawls: BTreeMap<CrawlKey, CrawlAtSite>,
    in_flight: u32,
    /// Virtual time: the start of the last turn.
    now: u64,
    /// Queues that may dispatch, and wait for room or for their turn.
    waiting: Vec<QueueKey>,
}

#[derive(Debug, Default)]
struct CrawlAtSite {
    /// Dispatches in flight that its interval permits.
    slots: u32,
    /// End of its last turn.
    ended_at: u64,
}

impl SharedSite {
    /// The fastest crawl determines the bound, as it does the clock of the site.
    fn has_room(&self) -> bool {
        self.in_flight < self.crawls.values().map(|crawl| crawl.slots).max().unwrap_or_default().max(1)
    }

    fn next_turn(&self, crawl: &CrawlAtSite) -> u64 {
        self.now.max(crawl.ended_at)
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
            crawls: others.iter().map(|(other, _)| (*other, CrawlAtSite::default())).collect(),
            in_flight: others.iter().map(|(_, in_flight)| in_flight).sum(),
            ..SharedSite::default()
        });
        site.crawls.insert(crawl, CrawlAtSite::default());
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

    /// Returns `true` if a queue has the next turn at its site, and there is room for its dispatch. Otherwise it waits until
    /// [`SharedSites::resume`] returns it. `slots`: the dispatches that it may have in flight by its interval. `contends`
    /// returns whether the queue of another crawl may dispatch as well.
    pub(crate) fn admit(
        &mut self,
        id: QueueKey,
        (crawl, share): (CrawlKey, u32),
        slots: u32,
        contends: impl Fn(QueueKey, CrawlKey) -> bool,
    ) -> bool {
        let key = id.site(crawl);
        let Some(site) = self.sites.get_mut(&key) else { return true };
        let own = site.crawls.entry(crawl).or_default();
        own.slots = slots;
        let begins_at = site.now.max(own.ended_at);
        let is_earlier = |(other, at): (&CrawlKey, &CrawlAtSite)| {
            *other != crawl && site.next_turn(at) < begins_at && contends(QueueKey::at(key, *other), *other)
        };
        let has_room = site.has_room();
        if !has_room || site.crawls.iter().any(is_earlier) {
            site.waiting.push(id);
            self.overtaken.extend(has_room.then_some((id, crawl)));
            return false;
        }
        site.now = begins_at;
        let ended_at = begins_at + TURN / u64::from(share.max(1));
        site.crawls.insert(crawl, CrawlAtSite { slots, ended_at });
        true
    }

    /// Removes and returns the queues that waited for their turn although there was room, each with its crawl.
    pub(crate) fn take_overtaken(&mut self) -> Vec<(QueueKey, CrawlKey)> {
        std::mem::take(&mut self.overtaken)
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

    /// Removes and returns the queues that wait at the site of this one, if there is room. To be called after each
    /// dispatch and each end of one at the site, and when a queue ceases to contend.
    pub(crate) fn resume(&mut self, id: QueueKey, crawl: CrawlKey) -> Vec<QueueKey> {
        let site = self.sites.get_mut(&id.site(crawl)).filter(|site| site.has_room());
        site.map(|site| std::mem::take(&mut site.waiting)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

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
    fn crawls_at_one_site_have_its_slots_by_their_shares_in_any_order_and_one_alone_has_no_bound_here() {
        let mut sites = SharedSites::default();
        let shares = [100, 300, 50, 150];
        let (first, crawl) = queue(0);
        sites.add(first, crawl, |_| None);
        assert!(
            (0..10).all(|_| sites.admit(first, (crawl, 100), 2, |_, _| true)),
            "a site of one crawl is not tracked"
        );
        for number in 1..4 {
            let (id, crawl) = queue(number);
            sites.add(id, crawl, |_| Some(0));
        }
        let mut ready: VecDeque<u32> = (0..4).collect();
        let (mut dispatched, mut flying) = ([0u32; 4], VecDeque::new());
        for round in 0..1200 {
            // The queue whose dispatch has just ended is ready before those that wait, or after them.
            while let Some(number) = if round % 3 == 0 { ready.pop_front() } else { ready.pop_back() } {
                let ((id, crawl), share) = (queue(number), shares[number as usize]);
                if sites.admit(id, (crawl, share), if number == 1 { 2 } else { 1 }, |_, other| other != crawl) {
                    sites.start(id, crawl);
                    dispatched[number as usize] += 1;
                    flying.push_back(number);
                    ready.push_back(number);
                }
            }
            assert!((1..=2).contains(&flying.len()), "the slots of the fastest crawl, for all together");
            let ended = flying.pop_front().unwrap();
            let (id, crawl) = queue(ended);
            sites.end(id, crawl);
            ready.extend(
                sites.resume(id, crawl).into_iter().map(|id| (0..4).find(|number| queue(*number).0 == id).unwrap()),
            );
        }
        for (count, share) in dispatched.iter().zip(shares) {
            assert!(count.abs_diff(2 * share) <= 12, "{dispatched:?}");
        }
    }

    #[test]
    fn a_crawl_that_returns_has_no_turns_to_make_up_for_and_one_that_cannot_dispatch_delays_no_other() {
        let mut sites = SharedSites::default();
        let ((first, a), (second, b)) = (queue(1), queue(2));
        sites.add(first, a, |_| None);
        sites.add(second, b, |id| (id == first).then_some(0));
        assert!((0..100).all(|_| sites.admit(first, (a, 1), 10, |_, _| false)), "the other one has no URL");
        assert!(!sites.admit(first, (a, 1), 10, |_, _| true), "now it has, and its turn begins earlier");
        let turns = (0..5).take_while(|_| sites.admit(second, (b, 1), 10, |_, _| true)).count();
        assert_eq!(turns, 2, "one that begins earlier, and one at the same time");
        assert_eq!(sites.resume(first, a), [first, second]);
        assert!(sites.admit(first, (a, 1), 10, |_, _| true), "they take turns");
    }

    #[test]
    fn a_site_that_one_crawl_is_left_at_is_no_longer_tracked() {
        let mut sites = SharedSites::default();
        let ((first, a), (second, b)) = (queue(1), queue(2));
        sites.add(first, a, |_| None);
        sites.add(second, b, |id| (id == first).then_some(0));
        sites.remove(first, a);
        assert!(sites.sites.is_empty() && sites.admit(second, (b, 1), 1, |_, _| true));
        sites.remove(second, b);
        assert!(sites.crawls.is_empty());
    }
}
