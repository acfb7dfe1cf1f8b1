//! Scheduling of site queues: the next one to dispatch from, and those that are paused.
//!
//! A site with queued URLs takes about 150 bytes here; the URLs themselves are in the index. For a site that is
//! ready, the next ranks are read ahead (its *head*). A head may be dropped at any time: it is read again from the
//! index.

mod reading;
mod seats;
mod waits;

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, hash_map::Entry},
};

use foldhash::HashMap;
use orbweaver_messages::Millis;
use orbweaver_stage::FairQueue;

pub(crate) use self::waits::Next;
use crate::{
    crawl_shares::CrawlShares,
    index::{CrawlKey, Index, IndexEntry, IndexError, QueueKey, Rank, is_demoted},
    offsets::Offsets,
    read_ahead::{Heads, ReadAhead},
    site_slots::{QueueSeat, SiteSlots},
    site_weight::{CrawlTerms, SiteWeight, Terms},
    slots::{InFlight, Slots, Window},
};

/// Weight of a new time from dispatch to outcome, or of a new score, in the smoothed one.
const SMOOTHING: f32 = 0.2;

#[derive(Debug, Default)]
struct SiteQueue {
    crawl: CrawlKey,
    head: Option<Box<ReadAhead>>,
    /// No URL that may be dispatched has a rank below this one: reading starts here, past URLs that have ended.
    read_from: Rank,
    /// Number of URLs that may be dispatched, in the head or not.
    queued: u32,
    /// Number of demoted URLs among them.
    queued_demoted: u32,
    /// Number of queued URLs in any state.
    waiting: u32,
    in_flight: InFlight,
    seat: QueueSeat,
    window: Window,
    /// Number of dispatches of demoted URLs that have ended since the site had any other URL.
    ended_alone: u32,
    crawl_delay_ms: u32,
    /// Smoothed time from dispatch to outcome, in milliseconds.
    round_trip_ms: f32,
    weight: SiteWeight,
    is_ready: bool,
    /// Time since which it is ready, if it is.
    ready_since_ms: Millis,
    /// Paused at the page cap of its crawl.
    capped: bool,
    /// Paused until one of its dispatches ends: those in flight may reach the page cap of the site.
    awaits_outcome: bool,
    /// Time before which nothing is dispatched, because of a block or a deferral.
    resume_at_ms: Millis,
}

/// Source of ranks.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) index: &'a mut dyn Index,
    /// Offsets of idle URLs: neither leased nor being written to the log.
    pub(crate) idle: &'a Offsets,
}

/// The sites of a partition.
#[derive(Debug, Default)]
pub(crate) struct SiteQueues {
    terms: Terms,
    sites: HashMap<QueueKey, SiteQueue>,
    /// The keys of `sites`, in the order of the index.
    order: BTreeSet<QueueKey>,
    heads: Heads,
    waiting: usize,
    /// Number of queued URLs in queues that are paused at a page cap.
    capped: usize,
    /// Queues that are ready, by crawl.
    ready: FairQueue<CrawlKey, QueueKey>,
    /// Number of the next queues whose states were read together.
    touched: usize,
    shares: CrawlShares,
    slots: SiteSlots,
    paused: BinaryHeap<Reverse<(Millis, QueueKey)>>,
}

impl SiteQueues {
    pub(crate) fn new(default_interval_ms: u64) -> Self {
        let terms = Terms { default_interval_ms, ..Terms::default() };
        Self { terms, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.sites.len()
    }

    /// Returns the number of queued URLs of all sites.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Sets the terms of a crawl; `None`: it is not defined. If its interval or its page cap per site changes, the pauses of
    /// the crawl's queues end, since they may last as long as the former interval, or until a dispatch ends; those that
    /// still apply begin again with the next dispatch.
    pub(crate) fn set_terms(&mut self, crawl: CrawlKey, terms: Option<CrawlTerms>, now: Millis) {
        let former = self.terms.of(crawl);
        match terms {
            Some(terms) => self.terms.crawls.insert(crawl, terms),
            None => self.terms.crawls.remove(&crawl),
        };
        let CrawlTerms { interval_ms, share, max_pages_per_site, .. } = self.terms.of(crawl);
        self.shares.set_share(crawl, share);
        if (former.interval_ms, former.max_pages_per_site) != (interval_ms, max_pages_per_site) {
            self.end_pauses(crawl, now);
        }
    }

    /// Sets the factor of the weight of a site, in percent, if it has one.
    pub(crate) fn set_weight(&mut self, id: QueueKey, percent: Option<u32>) {
        if let Some(site) = self.sites.get_mut(&id) {
            site.weight.percent = percent;
        }
    }

    /// Learns the score of an answer of a site.
    pub(crate) fn learn_score(&mut self, id: QueueKey, score: f32) {
        if let Some(site) = self.sites.get_mut(&id) {
            site.weight.learn(score, SMOOTHING);
        }
    }

    /// Ends the pauses of the queues of a crawl, and the limits that follow its deferrals.
    pub(crate) fn end_pauses(&mut self, crawl: CrawlKey, now: Millis) {
        let of_crawl = self.sites.iter().filter(|(_, site)| site.crawl == crawl);
        let mut ids: Vec<QueueKey> = of_crawl.map(|(id, _)| *id).collect();
        // Sorted, so that equal changes lead to equal dispatches.
        ids.sort_unstable();
        for id in ids {
            if let Some(site) = self.sites.get_mut(&id) {
                (site.resume_at_ms, site.awaits_outcome, site.window) = (0, false, Window::default());
            }
            self.make_ready(id, now);
        }
    }

    /// Adds the queued URL of this entry to its site.
    pub(crate) fn admit(&mut self, entry: &IndexEntry) {
        self.waiting += 1;
        let site = match self.sites.entry(entry.site) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                self.order.insert(entry.site);
                new.insert(SiteQueue::default())
            }
        };
        site.crawl = entry.crawl;
        site.waiting += 1;
        self.capped += usize::from(site.capped);
    }

    /// Removes a queued URL from this site.
    pub(crate) fn remove_url(&mut self, id: QueueKey, now: Millis) {
        let Some(site) = self.sites.get_mut(&id) else { return };
        self.waiting = self.waiting.saturating_sub(1);
        site.waiting = site.waiting.saturating_sub(1);
        self.capped = self.capped.saturating_sub(usize::from(site.capped));
        self.sweep(id, now);
        self.call(now);
    }

    /// Makes a URL of this site available for dispatch.
    pub(crate) fn enqueue(&mut self, id: QueueKey, rank: Rank, now: Millis) {
        let Some(site) = self.sites.get_mut(&id) else { return };
        site.queued += 1;
        site.queued_demoted += u32::from(is_demoted(rank));
        site.ended_alone = if is_demoted(rank) { site.ended_alone } else { 0 };
        site.read_from = site.read_from.min(rank);
        let ahead = site.ahead(&self.terms);
        self.heads.add(&mut site.head, rank, site.queued == 1, ahead);
        self.make_ready(id, now);
    }

    /// Makes a URL available for dispatch that the index already held at the start: nothing is read ahead yet.
    pub(crate) fn count_queued(&mut self, entry: &IndexEntry, now: Millis) {
        if let Some(site) = self.sites.get_mut(&entry.site) {
            site.queued += 1;
            site.queued_demoted += u32::from(entry.demoted);
        }
        self.make_ready(entry.site, now);
    }

    /// Makes a URL unavailable for dispatch. If its rank was read ahead, it is skipped.
    pub(crate) fn withdraw(&mut self, entry: &IndexEntry) {
        if let Some(site) = self.sites.get_mut(&entry.site) {
            site.queued = site.queued.saturating_sub(1);
            site.queued_demoted = site.queued_demoted.saturating_sub(u32::from(entry.demoted));
        }
    }

    /// Counts a dispatch that was made earlier (a restored lease).
    pub(crate) fn count_in_flight(&mut self, entry: &IndexEntry) {
        if let Some(site) = self.sites.get_mut(&entry.site) {
            *site.in_flight.of(entry.demoted) += 1;
            self.shares.add(entry.crawl, self.terms.of(entry.crawl).share);
        }
    }

    /// Ends the dispatch of the URL of this entry, `round_trip_ms` after the dispatch was made, if known.
    pub(crate) fn end(&mut self, entry: &IndexEntry, round_trip_ms: Option<Millis>, now: Millis) {
        let id = entry.site;
        if let Some(site) = self.sites.get_mut(&id) {
            site.cancel(entry);
            site.awaits_outcome = false;
            self.shares.remove(entry.crawl);
            if entry.demoted && site.in_flight.normal == 0 && site.queued == site.queued_demoted {
                site.ended_alone = site.ended_alone.saturating_add(1);
            }
            if let Some(time) = round_trip_ms {
                #[allow(clippy::cast_precision_loss, reason = "a smoothed time needs no more than seven digits")]
                let time = time.max(0) as f32;
                site.round_trip_ms += SMOOTHING * (time - site.round_trip_ms);
            }
            let slots = round_trip_ms.map(|_| site.slots(&self.terms).all);
            if let Some(slots) = slots {
                site.window.grow(slots);
            }
            self.slots.end(&mut site.seat, slots, now);
        }
        self.make_ready(id, now);
        self.sweep(id, now);
        self.call(now);
    }

    /// Cancels the dispatch of the URL of this entry, which `next` returned: it is queued with the rank `to`, or no
    /// longer.
    pub(crate) fn pass_over(&mut self, entry: &IndexEntry, to: Option<Rank>, now: Millis) {
        let id = entry.site;
        if let Some(site) = self.sites.get_mut(&id) {
            site.cancel(entry);
            self.shares.remove(entry.crawl);
            self.slots.end(&mut site.seat, None, now);
        }
        match to {
            Some(rank) => self.enqueue(id, rank, now),
            None => {
                self.make_ready(id, now);
                self.remove_url(id, now);
            }
        }
        self.call(now);
    }

    /// Returns the page cap per site of a crawl.
    pub(crate) fn max_pages_per_site(&self, crawl: CrawlKey) -> Option<u64> {
        self.terms.of(crawl).max_pages_per_site
    }

    /// Returns the number of dispatches of a queue in flight, apart from the one that `next` has just returned.
    pub(crate) fn others_in_flight(&self, id: QueueKey) -> u64 {
        self.sites.get(&id).map_or(0, |site| site.in_flight.all().saturating_sub(1))
    }

    /// Pauses a queue until one of its dispatches ends. The URL of this entry, which `next` returned, returns to its rank.
    pub(crate) fn await_outcome(&mut self, entry: &IndexEntry, now: Millis) {
        if let Some(site) = self.sites.get_mut(&entry.site) {
            site.awaits_outcome = true;
        }
        self.pass_over(entry, Some(entry.rank()), now);
    }

    /// Returns the number of queued URLs in queues that are paused at a page cap.
    pub(crate) fn capped(&self) -> usize {
        self.capped
    }

    /// Pauses a queue at a page cap, until `resume_after_cap`. The URL of this entry, which `next` returned, returns to
    /// its rank.
    pub(crate) fn hold(&mut self, entry: &IndexEntry, now: Millis) {
        let id = entry.site;
        if let Some(site) = self.sites.get_mut(&id)
            && !std::mem::replace(&mut site.capped, true)
        {
            self.capped += site.waiting as usize;
        }
        self.pass_over(entry, Some(entry.rank()), now);
        // The queue may stay paused for long, and the read-ahead of all sites together is bounded.
        if let Some(site) = self.sites.get_mut(&id) {
            self.heads.forget(&mut site.head);
        }
    }

    /// Resumes a queue that was paused at a page cap.
    pub(crate) fn resume_after_cap(&mut self, id: QueueKey, now: Millis) {
        if let Some(site) = self.sites.get_mut(&id)
            && std::mem::take(&mut site.capped)
        {
            self.capped = self.capped.saturating_sub(site.waiting as usize);
            self.make_ready(id, now);
        }
    }

    /// Pauses dispatches of this site until `until_ms`.
    pub(crate) fn pause(&mut self, id: QueueKey, until_ms: Millis) {
        if let Some(site) = self.sites.get_mut(&id)
            && until_ms > site.resume_at_ms
        {
            site.resume_at_ms = until_ms;
            self.paused.push(Reverse((until_ms, id)));
        }
    }

    /// Sets the minimum time between requests that the site demands.
    pub(crate) fn learn_delay(&mut self, id: QueueKey, crawl_delay_ms: u64) {
        if let Some(site) = self.sites.get_mut(&id) {
            site.crawl_delay_ms = u32::try_from(crawl_delay_ms).unwrap_or(u32::MAX);
        }
    }

    /// Makes sites ready whose pause has ended.
    pub(crate) fn wake(&mut self, now: Millis) {
        while let Some(Reverse((at, id))) = self.paused.peek().copied()
            && at <= now
        {
            self.paused.pop();
            self.make_ready(id, now);
            self.settle(id, now);
            self.sweep(id, now);
        }
        self.call(now);
    }

    /// Returns the time at which the next pause ends.
    pub(crate) fn next_wake_ms(&self) -> Option<Millis> {
        self.paused.peek().map(|Reverse((at, _))| *at)
    }

    /// Returns `true` if a URL can be dispatched; see [`Self::next`].
    pub(crate) fn has_ready(&self, limit: usize) -> bool {
        self.ready.owners().any(|crawl| self.has_room(*crawl, limit))
    }

    /// Removes and returns the next URL to dispatch. `limit` bounds the dispatches in flight, and is
    /// shared by all crawls.
    pub(crate) fn next(
        &mut self,
        limit: usize,
        now: Millis,
        source: &mut Source<'_>,
    ) -> Result<Option<Next>, IndexError> {
        self.touch_next();
        while let Some(id) = self.ready.pop_of(|crawl| self.shares.has_room(*crawl, self.terms.of(*crawl).share, limit))
        {
            let Some(site) = self.sites.get_mut(&id) else { continue };
            site.is_ready = false;
            let ready_ms = now.saturating_sub(site.ready_since_ms);
            if !site.may_dispatch(&self.terms, now) {
                self.settle(id, now);
                self.sweep(id, now);
                self.call(now);
                continue;
            }
            let terms = (self.terms.of(site.crawl).share, site.slots(&self.terms).all);
            if !self.slots.add(id, &mut site.seat, terms) {
                continue;
            }
            site.window.begin(site.in_flight);
            let rank = match self.heads.pop(&mut site.head, source.idle) {
                Some(rank) => rank,
                None => self.read(id, now, source)?,
            };
            let Some(site) = self.sites.get_mut(&id) else { continue };
            site.read_from = rank;
            site.queued -= 1;
            site.queued_demoted = site.queued_demoted.saturating_sub(u32::from(is_demoted(rank)));
            *site.in_flight.of(is_demoted(rank)) += 1;
            self.shares.add(site.crawl, self.terms.of(site.crawl).share);
            self.make_ready(id, now);
            return Ok(Some(Next { site: id, rank, ready_ms }));
        }
        Ok(None)
    }

    /// Returns the sites with the most queued URLs, in descending order: with that number, and with the rank below
    /// which none of their URLs may be dispatched.
    pub(crate) fn busiest(&self, most: usize) -> Vec<(QueueKey, u32, Rank)> {
        let mut heap = BinaryHeap::with_capacity(most + 1);
        for (id, site) in &self.sites {
            heap.push(Reverse((site.waiting, *id, site.read_from)));
            if heap.len() > most {
                heap.pop();
            }
        }
        heap.into_sorted_vec().into_iter().map(|Reverse((waiting, id, read_from))| (id, waiting, read_from)).collect()
    }

    fn has_room(&self, crawl: CrawlKey, limit: usize) -> bool {
        self.shares.has_room(crawl, self.terms.of(crawl).share, limit)
    }

    /// Removes a site that has no state left.
    fn sweep(&mut self, id: QueueKey, now: Millis) {
        if self.sites.get(&id).is_some_and(|site| site.is_idle(now))
            && let Some(mut site) = self.sites.remove(&id)
        {
            self.heads.forget(&mut site.head);
            self.slots.settle(&mut site.seat, Millis::MAX);
            self.slots.withdraw(id, &site.seat);
            self.order.remove(&id);
        }
    }

    /// Makes a site ready if it may dispatch.
    fn make_ready(&mut self, id: QueueKey, now: Millis) {
        let Some(site) = self.sites.get_mut(&id) else { return };
        if !site.is_ready && site.may_dispatch(&self.terms, now) {
            (site.is_ready, site.ready_since_ms) = (true, now);
            let terms = self.terms.of(site.crawl);
            let weight = site.weight.of(&terms.order, site.next_by_weight(), now);
            self.ready.push((&site.crawl, terms.share), id, weight);
        }
    }
}

impl SiteQueue {
    fn may_dispatch(&self, terms: &Terms, now: Millis) -> bool {
        if self.capped || self.awaits_outcome || self.queued == 0 || self.resume_at_ms > now {
            return false;
        }
        let slots = self.slots(terms);
        if !self.window.admits(self.in_flight) {
            return false;
        }
        if self.queued > self.queued_demoted {
            slots.admit_front(self.in_flight)
        } else {
            slots.admits_demoted(self.in_flight, self.ended_alone)
        }
    }

    /// Returns the rank by weight of the next URL, or of one before it; `None` if nothing has been read yet, or if the URL
    /// is demoted.
    fn next_by_weight(&self) -> Option<u32> {
        let next = self.head.as_ref().and_then(|head| head.first()).unwrap_or(self.read_from);
        (next != Rank::default() && !is_demoted(next)).then_some(next.0)
    }

    /// Removes a dispatch from those in flight.
    fn cancel(&mut self, entry: &IndexEntry) {
        let in_flight = self.in_flight.of(entry.demoted);
        *in_flight = in_flight.saturating_sub(1);
    }

    fn is_idle(&self, now: Millis) -> bool {
        self.waiting == 0 && self.in_flight.is_empty() && self.resume_at_ms <= now && !self.is_ready
    }

    fn slots(&self, terms: &Terms) -> Slots {
        Slots::of(terms.interval_ms(self.crawl).max(u64::from(self.crawl_delay_ms)), self.round_trip_ms)
    }

    /// Returns the number of ranks to read ahead: enough for some seconds.
    fn ahead(&self, terms: &Terms) -> usize {
        (4 * self.slots(terms).all as usize).clamp(8, 512)
    }
}

#[cfg(test)]
mod tests;
