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
};

/// How strongly a new time from dispatch to outcome moves the smoothed one.
const SMOOTHING: f32 = 0.2;

/// Dispatches of an unlimited site that may be outstanding.
const UNLIMITED_OUTSTANDING: u32 = 4096;

/// The same of a site of which only what is at the back is left: what comes before it is soon found, and must not wait for
/// much of that.
const BACK_OUTSTANDING: u32 = 2;

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
    outstanding: u32,
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
    pub(crate) fn count_outstanding(&mut self, id: SiteId) {
        if let Some(site) = self.sites.get_mut(&id) {
            site.outstanding += 1;
        }
    }

    /// A dispatch of this site ended, `round_trip_ms` after it was made where that is known.
    pub(crate) fn end(&mut self, id: SiteId, round_trip_ms: Option<Millis>, now: Millis) {
        if let Some(site) = self.sites.get_mut(&id) {
            site.outstanding = site.outstanding.saturating_sub(1);
            if let Some(time) = round_trip_ms {
                #[allow(clippy::cast_precision_loss, reason = "a smoothed time needs no more than seven digits")]
                let time = time.max(0) as f32;
                site.round_trip_ms += SMOOTHING * (time - site.round_trip_ms);
            }
        }
        self.call(id, now);
        self.sweep(id, now);
    }

    /// A URL that was in turn is not dispatched now: it waits with this rank, or does not wait any more.
    pub(crate) fn pass_over(&mut self, id: SiteId, to: Option<Rank>, now: Millis) {
        if let Some(site) = self.sites.get_mut(&id) {
            site.outstanding = site.outstanding.saturating_sub(1);
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

    /// A site has no turn before it is let go. The URL that was in turn goes back to its rank.
    pub(crate) fn hold(&mut self, id: SiteId, rank: Rank, now: Millis) {
        if let Some(site) = self.sites.get_mut(&id)
            && !std::mem::replace(&mut site.held, true)
        {
            self.held += site.waiting as usize;
        }
        self.pass_over(id, Some(rank), now);
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
            site.outstanding += 1;
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
        let capacity = self.capacity(default_interval_ms);
        let capacity = if self.queued > self.queued_back { capacity } else { capacity.min(BACK_OUTSTANDING) };
        !self.held && self.queued > 0 && self.resume_at_ms <= now && self.outstanding < capacity
    }

    fn is_idle(&self, now: Millis) -> bool {
        self.waiting == 0 && self.outstanding == 0 && self.resume_at_ms <= now && !self.in_turn
    }

    /// Rule 15: rate × (1 s + smoothed time from dispatch to outcome), so that the site always has its next request at hand
    /// and little more.
    fn capacity(&self, default_interval_ms: u64) -> u32 {
        let interval = default_interval_ms.max(u64::from(self.crawl_delay_ms));
        if interval == 0 {
            return UNLIMITED_OUTSTANDING;
        }
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the quotient is positive and clamped right after"
        )]
        let wanted = ((1000.0 + f64::from(self.round_trip_ms)) / interval as f64).ceil() as u32;
        wanted.clamp(1, UNLIMITED_OUTSTANDING)
    }

    /// How many ranks are read ahead: some seconds' worth.
    fn ahead(&self, default_interval_ms: u64) -> usize {
        (4 * self.capacity(default_interval_ms) as usize).clamp(8, 512)
    }
}
