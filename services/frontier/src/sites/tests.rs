use proptest::prelude::*;

use super::*;
use crate::{
    index::{CrawlKey, MemoryIndex},
    site_slots::SiteKey,
};

/// Returns the entry of a URL at offset 0 that is not demoted.
fn entry(site: QueueKey, crawl: CrawlKey) -> IndexEntry {
    let (depth, by_weight, failures, blocks) = (0, 0, 0, 0);
    IndexEntry {
        offset: 0,
        crawl,
        site,
        depth,
        by_weight,
        failures,
        blocks,
        demoted: false,
        not_before_ms: 0,
        asleep: false,
    }
}

#[test]
fn demoted_urls_that_are_refused_without_a_request_make_no_room_for_more_of_them() {
    let id = QueueKey(1);
    let entry = |offset| IndexEntry { offset, demoted: true, ..entry(id, CrawlKey(0)) };
    let (mut sites, mut index, mut idle) = (SiteQueues::new(100), MemoryIndex::default(), Offsets::default());
    for offset in 0..30 {
        idle.insert(offset);
        sites.admit(&entry(offset));
        sites.enqueue(id, entry(offset).rank(), 0);
    }
    let mut source = Source { index: &mut index, idle: &idle };
    for offset in 0..10 {
        assert_eq!(sites.next(100, 0, &mut source).unwrap().map(|next| next.rank), Some(entry(offset).rank()));
        sites.pass_over(&entry(offset), None, 0);
    }
    assert_eq!(sites.next(100, 0, &mut source).unwrap().map(|next| next.rank), Some(entry(10).rank()));
    assert_eq!(sites.next(100, 0, &mut source).unwrap(), None, "one is in flight, and none has ended");
    sites.end(&entry(10), None, 0);
    let next = std::iter::from_fn(|| sites.next(100, 0, &mut source).unwrap());
    assert_eq!(next.count(), 2, "one for each that has ended");
}

#[test]
fn a_site_is_ready_from_its_first_url_or_the_end_of_its_pause_until_its_dispatch() {
    let (mut sites, mut index, mut idle) = (SiteQueues::new(0), MemoryIndex::default(), Offsets::default());
    let entries = [1, 2].map(|offset| IndexEntry { offset, ..entry(QueueKey(offset), CrawlKey(0)) });
    assert_eq!(sites.ready_since_ms(), None);
    for (entry, now) in entries.iter().zip([1_000, 3_000]) {
        idle.insert(entry.offset);
        sites.admit(entry);
        sites.enqueue(entry.site, entry.rank(), now);
    }
    assert_eq!(sites.ready_since_ms(), Some(1_000));
    let mut next = |sites: &mut SiteQueues, limit, now| {
        let mut source = Source { index: &mut index, idle: &idle };
        sites.next(limit, now, &mut source).unwrap().map(|next| (next.site.0, next.ready_ms))
    };
    assert_eq!(next(&mut sites, 1, 4_000), Some((1, 3_000)));
    assert_eq!(next(&mut sites, 1, 5_000), None, "the dispatches in flight are at their limit");
    assert_eq!(sites.ready_since_ms(), Some(3_000));
    sites.pause(QueueKey(1), 8_000);
    sites.pass_over(&entries[0], Some(entries[0].rank()), 5_000);
    assert_eq!(next(&mut sites, 1, 7_000), Some((2, 4_000)));
    assert_eq!(sites.ready_since_ms(), None, "one is paused, and one has no other URL");
    sites.wake(8_000);
    assert_eq!(next(&mut sites, 2, 8_500), Some((1, 500)));
}

/// Crawls with URLs at the same site, whose queue keys are their numbers.
struct Site {
    sites: SiteQueues,
    index: MemoryIndex,
    idle: Offsets,
    now: Millis,
    next_offset: u64,
    /// URLs that are not queued yet, by crawl; few are queued at a time, so that all are read ahead.
    left: Vec<u32>,
    in_flight: Vec<IndexEntry>,
    requests: Vec<u32>,
}

impl Site {
    fn new(interval_ms: u64, shares: &[u32], urls: u32) -> Self {
        let mut sites = SiteQueues::new(interval_ms);
        for (crawl, share) in shares.iter().enumerate() {
            let terms = CrawlTerms { share: *share, ..CrawlTerms::default() };
            sites.set_terms(CrawlKey(crawl as u32), Some(terms), 0);
        }
        let (left, requests) = (vec![urls; shares.len()], vec![0; shares.len()]);
        let (index, idle) = (MemoryIndex::default(), Offsets::default());
        let mut site = Self { sites, index, idle, now: 0, next_offset: 0, left, in_flight: vec![], requests };
        (0..shares.len()).for_each(|crawl| site.queue(crawl));
        site
    }

    /// Queues URLs of a crawl.
    fn queue(&mut self, crawl: usize) {
        let id = QueueKey(crawl as u64);
        while self.left[crawl] > 0 && self.sites.sites.get(&id).is_none_or(|site| site.queued < 4) {
            self.left[crawl] -= 1;
            let entry = IndexEntry { offset: self.next_offset, ..entry(id, CrawlKey(crawl as u32)) };
            self.next_offset += 1;
            self.idle.insert(entry.offset);
            self.sites.admit(&entry);
            self.sites.enqueue(id, entry.rank(), self.now);
        }
    }

    fn dispatch(&mut self) {
        self.sites.wake(self.now);
        let key = SiteKey::of(&"a.test".into());
        let mut source = Source { index: &mut self.index, idle: &self.idle };
        while let Some(Next { site: id, rank, .. }) = self.sites.next(10_000, self.now, &mut source).unwrap() {
            let entry = IndexEntry { offset: rank.1, ..entry(id, CrawlKey(id.0 as u32)) };
            if self.sites.join(&entry, key, self.now) {
                self.in_flight.push(entry);
            }
        }
        assert!(!self.sites.has_ready(10_000));
    }

    /// Returns the number of crawls with dispatches in flight.
    fn crawls(&self) -> usize {
        self.in_flight.iter().map(|entry| entry.site).collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Ends a dispatch with a request, which took a second.
    fn fetched(&mut self, entry: &IndexEntry) {
        self.requests[entry.site.0 as usize] += 1;
        self.idle.remove(entry.offset);
        self.sites.end(entry, Some(1_000), self.now);
        self.sites.remove_url(entry.site, self.now);
        self.queue(entry.site.0 as usize);
    }

    fn deferred(&mut self, entry: &IndexEntry, for_ms: Millis) {
        self.sites.end(entry, None, self.now);
        self.sites.defer(entry, self.now + for_ms);
        self.sites.enqueue(entry.site, entry.rank(), self.now);
    }
}

#[test]
fn a_thousand_crawls_at_a_slow_site_have_a_few_dispatches_in_flight_and_requests_by_their_shares() {
    let shares: Vec<u32> = (0..1000).map(|crawl| if crawl % 2 == 0 { 100 } else { 300 }).collect();
    let mut site = Site::new(1_000, &shares, 1_000);
    for _ in 0..20_000 {
        site.dispatch();
        assert!(site.in_flight.len() <= 8 + 1, "{} are in flight", site.in_flight.len());
        let entry = site.in_flight.remove(0);
        site.fetched(&entry);
        site.now += 1_000;
    }
    for (crawl, requests) in site.requests.iter().enumerate() {
        let part = if crawl % 2 == 0 { 9..=11 } else { 28..=32 };
        assert!(part.contains(requests), "crawl {crawl} had {requests} requests");
    }
}

#[test]
fn crawls_at_a_fast_site_divide_its_slots_by_their_shares_until_one_of_them_is_alone() {
    let mut site = Site::new(10, &[100, 300], 10_000);
    let of = |site: &Site, crawl: u64| site.in_flight.iter().filter(|entry| entry.site.0 == crawl).count();
    let mut fetch = |requests| {
        for _ in 0..requests {
            site.dispatch();
            let entry = site.in_flight.remove(0);
            site.fetched(&entry);
        }
        site.dispatch();
        (of(&site, 0), of(&site, 1), site.left[1] = 0).0
    };
    // The round trip is a second, so that the site has 200 slots.
    assert_eq!(fetch(2_000), 50);
    assert_eq!(fetch(2_000), 200);
}

#[test]
fn crawls_that_come_one_by_one_and_are_deferred_have_as_many_requests_each() {
    let mut site = Site::new(100, &[100; 60], 0);
    // As at a rate-limiter: a time for each request within half a second, first to those that had the fewest, and a deferral beyond it.
    let (mut next_ms, mut deferred) = (0, 0);
    for tick in 0..9_000u64 {
        site.now += 20;
        if tick % 50 == 0 && tick < 3_000 {
            let crawl = tick as usize / 50;
            site.left[crawl] = 10_000;
            site.queue(crawl);
        }
        site.dispatch();
        if tick == 6_000 {
            site.requests.fill(0);
        }
        let mut due: Vec<_> = if tick % 3 == 0 { site.in_flight.drain(..).collect() } else { vec![] };
        due.sort_by_key(|entry| (site.requests[entry.site.0 as usize], entry.offset));
        for entry in due {
            next_ms = next_ms.max(site.now);
            if next_ms < site.now + 500 {
                next_ms += 100;
                site.fetched(&entry);
            } else {
                deferred += 1;
                site.deferred(&entry, 100 + (entry.offset % 7) as Millis * 50);
            }
        }
    }
    println!("{:?}, {deferred} deferred", site.requests);
    assert!(site.requests.iter().all(|requests| (8..=12).contains(requests)), "{:?}", site.requests);
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Fetched(prop::sample::Index),
    Deferred(prop::sample::Index, Millis),
    Passed(prop::sample::Index),
    Share(prop::sample::Index, u32),
    Wait(Millis),
}

fn op() -> impl Strategy<Value = Op> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        4 => index().prop_map(Op::Fetched),
        3 => (index(), 1..60_000i64).prop_map(|(at, ms)| Op::Deferred(at, ms)),
        1 => index().prop_map(Op::Passed),
        1 => (index(), 1..1000u32).prop_map(|(at, share)| Op::Share(at, share)),
        3 => (1..20_000i64).prop_map(Op::Wait),
    ]
}

proptest! {
    #[test]
    fn crawls_at_one_site_have_at_most_as_many_seats_as_it_has_slots_and_all_of_their_urls_end(
        interval_ms in prop::sample::select(vec![0, 100, 250, 1_000, 30_000]),
        shares in prop::collection::vec(1..1000u32, 1..40),
        ops in prop::collection::vec(op(), 0..300),
    ) {
        let mut site = Site::new(interval_ms, &shares, 20);
        for op in ops {
            site.dispatch();
            let slots = Slots::of(interval_ms, 1_000.0).all as usize;
            prop_assert!(site.crawls() <= slots.max(8), "{} crawls", site.crawls());
            prop_assert!(site.in_flight.len() <= slots + slots.max(8), "{} in flight", site.in_flight.len());
            let mut take = |at: prop::sample::Index| {
                (!site.in_flight.is_empty()).then(|| site.in_flight.remove(at.index(site.in_flight.len())))
            };
            match op {
                Op::Fetched(at) => if let Some(entry) = take(at) { site.fetched(&entry) },
                Op::Deferred(at, ms) => if let Some(entry) = take(at) { site.deferred(&entry, ms) },
                Op::Passed(at) => if let Some(entry) = take(at) {
                    site.sites.pass_over(&entry, None, site.now);
                    site.queue(entry.site.0 as usize);
                },
                Op::Share(at, share) => {
                    let crawl = CrawlKey(at.index(shares.len()) as u32);
                    site.sites.set_terms(crawl, Some(CrawlTerms { share, ..CrawlTerms::default() }), site.now);
                }
                Op::Wait(ms) => site.now += ms,
            }
        }
        for _ in 0..shares.len() * 20 + 1 {
            site.now += 60_000;
            site.dispatch();
            for entry in std::mem::take(&mut site.in_flight) {
                site.fetched(&entry);
            }
        }
        prop_assert_eq!((site.sites.waiting(), site.left.iter().sum::<u32>()), (0, 0));
        prop_assert!(site.sites.slots.is_empty(), "{:?}", site.sites.slots);
    }
}
