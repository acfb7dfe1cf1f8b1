//! The sites: whose turn it is, and who must pause.
//!
//! A site with URLs that wait takes some sixty bytes here; the URLs themselves are in the index. Of a site that has its turn
//! the next ranks are read ahead (its *head*). A head may be forgotten at any time: it is read again from the index.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
};

use orbweaver_messages::Millis;

use crate::{
    head::{Head, Heads, Query},
    index::{Index, IndexError, Place, Rank, SiteId, is_at_back},
    offsets::Offsets,
    slots::{InFlight, Slots},
};

/// How strongly a new time from dispatch to outcome moves the smoothed one.
const SMOOTHING: f32 = 0.2;

#[derive(Debug, Default)]
struct Site {
    head: Option<Box<Head>>,
    /// Nothing that could be dispatched stands before this rank: reading from there does not walk over what has ended.
    low: Rank,
    /// URLs that could be dispatched, in the head or not.
    queued: u32,
    /// Those of them that are at the back.
    queued_back: u32,
    /// Waiting URLs of it, whatever they wait for.
    waiting: u32,
    in_flight: InFlight,
    /// Dispatches of the back that ended since there was anything else.
    alone: u32,
    crawl_delay_ms: u32,
    /// Time from dispatch to outcome, smoothed, in milliseconds.
    round_trip_ms: f32,
    in_turn: bool,
    /// It has no turn before its crawl may go on.
    held: bool,
    /// Not to be dispatched before: a block, or a deferral.
    resume_at_ms: Millis,
}

/// Where ranks are read from.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) index: &'a mut dyn Index,
    /// The offsets of URLs that are neither leased nor on their way into the log.
    pub(crate) idle: &'a Offsets,
}

/// The sites of a partition.
#[derive(Debug)]
pub(crate) struct Sites {
    default_interval_ms: u64,
    sites: HashMap<SiteId, Site>,
    heads: Heads,
    waiting: usize,
    /// Those of them whose site is held.
    held: usize,
    /// Sites that may be dispatched, in turn.
    turn: VecDeque<SiteId>,
    paused: BinaryHeap<Reverse<(Millis, SiteId)>>,
}

impl Sites {
    pub(crate) fn new(default_interval_ms: u64) -> Self {
        Self {
            default_interval_ms,
            sites: HashMap::new(),
            heads: Heads::default(),
            waiting: 0,
            held: 0,
            turn: VecDeque::new(),
            paused: BinaryHeap::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.sites.len()
    }

    /// URLs that wait, of all sites.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// A URL of this site waits from now on.
    pub(crate) fn admit(&mut self, id: SiteId) {
        self.waiting += 1;
        let site = self.sites.entry(id).or_default();
        site.waiting += 1;
        self.held += usize::from(site.held);
    }

    /// A URL of this site does not wait any more.
    pub(crate) fn dismiss(&mut self, id: SiteId, now: Millis) {
        let Some(site) = self.sites.get_mut(&id) else { return };
        self.waiting = self.waiting.saturating_sub(1);
        site.waiting = site.waiting.saturating_sub(1);
        self.held = self.held.saturating_sub(usize::from(site.held));
        self.sweep(id, now);
    }

    /// A URL of this site may be dispatched from now on.
    pub(crate) fn enqueue(&mut self, id: SiteId, rank: Rank, now: Millis) {
        let interval = self.default_interval_ms;
        let Some(site) = self.sites.get_mut(&id) else { return };
        site.queued += 1;
        site.queued_back += u32::from(is_at_back(rank));
        site.alone = if is_at_back(rank) { site.alone } else { 0 };
        site.low = site.low.min(rank);
        let ahead = site.ahead(interval);
        self.heads.add(&mut site.head, rank, site.queued == 1, ahead);
        self.call(id, now);
    }

    /// A queued URL that the index held already, at the start: nothing is read ahead yet.
    pub(crate) fn count_queued(&mut self, place: &Place, now: Millis) {
        if let Some(site) = self.sites.get_mut(&place.site) {
            site.queued += 1;
            site.queued_back += u32::from(place.back);
        }
        self.call(place.site, now);
    }

    /// A queued URL may not be dispatched any more. If its rank was read ahead it is passed over.
    pub(crate) fn withdraw(&mut self, place: &Place) {
        if let Some(site) = self.sites.get_mut(&place.site) {
            site.queued = site.queued.saturating_sub(1);
            site.queued_back = site.queued_back.saturating_sub(u32::from(place.back));
        }
    }

    /// Counts a dispatch that was made before (a restored lease).
    pub(crate) fn count_in_flight(&mut self, place: &Place) {
        if let Some(site) = self.sites.get_mut(&place.site) {
            *site.in_flight.of(place.back) += 1;
        }
    }

    /// The dispatch of the URL at this place ended, `round_trip_ms` after it was made where that is known.
    pub(crate) fn end(&mut self, place: &Place, round_trip_ms: Option<Millis>, now: Millis) {
        let id = place.site;
        if let Some(site) = self.sites.get_mut(&id) {
            site.land(place);
            if let Some(time) = round_trip_ms {
                #[allow(clippy::cast_precision_loss, reason = "a smoothed time needs no more than seven digits")]
                let time = time.max(0) as f32;
                site.round_trip_ms += SMOOTHING * (time - site.round_trip_ms);
            }
        }
        self.call(id, now);
        self.sweep(id, now);
    }

    /// The URL at this place was in turn and is not dispatched now: it waits with the rank `to`, or does not wait any more.
    pub(crate) fn pass_over(&mut self, place: &Place, to: Option<Rank>, now: Millis) {
        let id = place.site;
        if let Some(site) = self.sites.get_mut(&id) {
            site.land(place);
        }
        match to {
            Some(rank) => self.enqueue(id, rank, now),
            None => {
                self.call(id, now);
                self.dismiss(id, now);
            }
        }
    }

    /// URLs that wait, of sites that are held.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// A site has no turn before it is let go. The URL at this place was in turn and goes back to its rank.
    pub(crate) fn hold(&mut self, place: &Place, now: Millis) {
        let id = place.site;
        if let Some(site) = self.sites.get_mut(&id)
            && !std::mem::replace(&mut site.held, true)
        {
            self.held += site.waiting as usize;
        }
        self.pass_over(place, Some(place.rank()), now);
        // It may stand so for long, and what is read ahead is bounded over all sites.
        if let Some(site) = self.sites.get_mut(&id) {
            self.heads.forget(&mut site.head);
        }
    }

    /// A site that was held may have its turn.
    pub(crate) fn let_go(&mut self, id: SiteId, now: Millis) {
        if let Some(site) = self.sites.get_mut(&id)
            && std::mem::take(&mut site.held)
        {
            self.held = self.held.saturating_sub(site.waiting as usize);
            self.call(id, now);
        }
    }

    /// Nothing of this site is dispatched before `until_ms`.
    pub(crate) fn pause(&mut self, id: SiteId, until_ms: Millis) {
        if let Some(site) = self.sites.get_mut(&id)
            && until_ms > site.resume_at_ms
        {
            site.resume_at_ms = until_ms;
            self.paused.push(Reverse((until_ms, id)));
        }
    }

    /// The site asked for this long between requests.
    pub(crate) fn learn_delay(&mut self, id: SiteId, crawl_delay_ms: u64) {
        if let Some(site) = self.sites.get_mut(&id) {
            site.crawl_delay_ms = u32::try_from(crawl_delay_ms).unwrap_or(u32::MAX);
        }
    }

    /// Sites whose pause is over get their turn.
    pub(crate) fn wake(&mut self, now: Millis) {
        while let Some(Reverse((at, id))) = self.paused.peek().copied()
            && at <= now
        {
            self.paused.pop();
            self.call(id, now);
            self.sweep(id, now);
        }
    }

    /// When the next pause is over.
    pub(crate) fn next_wake_ms(&self) -> Option<Millis> {
        self.paused.peek().map(|Reverse((at, _))| *at)
    }

    /// Whether a site could be dispatched now.
    pub(crate) fn has_turn(&self) -> bool {
        !self.turn.is_empty()
    }

    /// The next URL in turn: its site and rank.
    pub(crate) fn next(&mut self, now: Millis, source: &mut Source<'_>) -> Result<Option<(SiteId, Rank)>, IndexError> {
        let interval = self.default_interval_ms;
        while let Some(id) = self.turn.pop_front() {
            let Some(site) = self.sites.get_mut(&id) else { continue };
            site.in_turn = false;
            if !site.may_dispatch(interval, now) {
                self.sweep(id, now);
                continue;
            }
            let query = Query { site: id, low: site.low, ahead: site.ahead(interval) };
            site.low = self.heads.pop(&mut site.head, query, source)?;
            let rank = site.low;
            site.queued -= 1;
            site.queued_back = site.queued_back.saturating_sub(u32::from(is_at_back(rank)));
            *site.in_flight.of(is_at_back(rank)) += 1;
            self.call(id, now);
            return Ok(Some((id, rank)));
        }
        Ok(None)
    }

    /// The sites with the most waiting URLs, most first: with their numbers, and the rank before which nothing of them could be
    /// dispatched.
    pub(crate) fn busiest(&self, most: usize) -> Vec<(SiteId, u32, Rank)> {
        let mut heap = BinaryHeap::with_capacity(most + 1);
        for (id, site) in &self.sites {
            heap.push(Reverse((site.waiting, *id, site.low)));
            if heap.len() > most {
                heap.pop();
            }
        }
        heap.into_sorted_vec().into_iter().map(|Reverse((waiting, id, low))| (id, waiting, low)).collect()
    }

    /// Forgets a site of which nothing is left to know.
    fn sweep(&mut self, id: SiteId, now: Millis) {
        if self.sites.get(&id).is_some_and(|site| site.is_idle(now))
            && let Some(mut site) = self.sites.remove(&id)
        {
            self.heads.forget(&mut site.head);
        }
    }

    /// Gives a site its turn if it may have one.
    fn call(&mut self, id: SiteId, now: Millis) {
        let interval = self.default_interval_ms;
        let Some(site) = self.sites.get_mut(&id) else { return };
        if !site.in_turn && site.may_dispatch(interval, now) {
            site.in_turn = true;
            self.turn.push_back(id);
        }
    }
}

impl Site {
    fn may_dispatch(&self, default_interval_ms: u64, now: Millis) -> bool {
        if self.held || self.queued == 0 || self.resume_at_ms > now {
            return false;
        }
        let slots = self.slots(default_interval_ms);
        if self.queued > self.queued_back {
            slots.admit_front(self.in_flight)
        } else {
            slots.admit_back(self.in_flight, self.alone)
        }
    }

    /// A dispatch that was in flight is not any more.
    fn land(&mut self, place: &Place) {
        let in_flight = self.in_flight.of(place.back);
        *in_flight = in_flight.saturating_sub(1);
        if place.back && self.in_flight.front == 0 && self.queued == self.queued_back {
            self.alone = self.alone.saturating_add(1);
        }
    }

    fn is_idle(&self, now: Millis) -> bool {
        self.waiting == 0 && self.in_flight.is_empty() && self.resume_at_ms <= now && !self.in_turn
    }

    fn slots(&self, default_interval_ms: u64) -> Slots {
        Slots::of(default_interval_ms.max(u64::from(self.crawl_delay_ms)), self.round_trip_ms)
    }

    /// How many ranks are read ahead: some seconds' worth.
    fn ahead(&self, default_interval_ms: u64) -> usize {
        (4 * self.slots(default_interval_ms).all as usize).clamp(8, 512)
    }
}
