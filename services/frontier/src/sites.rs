//! A queue by site: whose turn it is, and who must pause.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, HashMap, VecDeque},
    sync::Arc,
};

use orbweaver_log::Offset;
use orbweaver_messages::Millis;

use crate::SiteLoad;

/// How strongly a new time from dispatch to outcome moves the smoothed one.
const SMOOTHING: f64 = 0.2;

/// Dispatches of an unlimited site that may be outstanding.
const UNLIMITED_OUTSTANDING: usize = 4096;

#[derive(Debug)]
struct Site {
    /// Lowest depth first, first come first served within it.
    queue: BTreeSet<(u16, Offset)>,
    /// Waiting URLs of it, whatever they wait for.
    waiting: usize,
    outstanding: usize,
    /// Not to be dispatched before: a block, or a deferral.
    resume_at_ms: Millis,
    crawl_delay_ms: u64,
    /// Time from dispatch to outcome, smoothed, in milliseconds.
    round_trip_ms: f64,
    in_turn: bool,
}

/// The sites of a partition.
#[derive(Debug)]
pub(crate) struct Sites {
    default_interval_ms: u64,
    sites: HashMap<Arc<str>, Site>,
    /// Sites that may be dispatched, in turn.
    turn: VecDeque<Arc<str>>,
    paused: BinaryHeap<Reverse<(Millis, Arc<str>)>>,
}

impl Sites {
    pub(crate) fn new(default_interval_ms: u64) -> Self {
        Self { default_interval_ms, sites: HashMap::new(), turn: VecDeque::new(), paused: BinaryHeap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.sites.len()
    }

    /// A URL of `name` waits from now on. Gives the name back, shared.
    pub(crate) fn admit(&mut self, name: &str) -> Arc<str> {
        if let Some((known, _)) = self.sites.get_key_value(name) {
            let known = Arc::clone(known);
            if let Some(site) = self.sites.get_mut(name) {
                site.waiting += 1;
            }
            return known;
        }
        let known: Arc<str> = Arc::from(name);
        let site = Site {
            queue: BTreeSet::new(),
            waiting: 1,
            outstanding: 0,
            resume_at_ms: 0,
            crawl_delay_ms: 0,
            round_trip_ms: 0.0,
            in_turn: false,
        };
        self.sites.insert(Arc::clone(&known), site);
        known
    }

    /// A URL of `name` does not wait any more.
    pub(crate) fn dismiss(&mut self, name: &Arc<str>, now: Millis) {
        let Some(site) = self.sites.get_mut(name) else { return };
        site.waiting = site.waiting.saturating_sub(1);
        self.sweep(name, now);
    }

    /// Puts a URL into the queue of its site.
    pub(crate) fn enqueue(&mut self, name: &Arc<str>, depth: u16, offset: Offset, now: Millis) {
        if let Some(site) = self.sites.get_mut(name) {
            site.queue.insert((depth, offset));
        }
        self.call(name, now);
    }

    /// Takes a URL out of the queue of its site.
    pub(crate) fn withdraw(&mut self, name: &Arc<str>, depth: u16, offset: Offset) {
        if let Some(site) = self.sites.get_mut(name) {
            site.queue.remove(&(depth, offset));
        }
    }

    /// Counts a dispatch that was made before (a restored lease).
    pub(crate) fn count_outstanding(&mut self, name: &Arc<str>) {
        if let Some(site) = self.sites.get_mut(name) {
            site.outstanding += 1;
        }
    }

    /// A dispatch of `name` ended, `round_trip_ms` after it was made where that is known.
    pub(crate) fn end(&mut self, name: &Arc<str>, round_trip_ms: Option<Millis>, now: Millis) {
        if let Some(site) = self.sites.get_mut(name) {
            site.outstanding = site.outstanding.saturating_sub(1);
            if let Some(time) = round_trip_ms {
                #[allow(clippy::cast_precision_loss, reason = "milliseconds of a round trip are far below 2^52")]
                let time = time.max(0) as f64;
                site.round_trip_ms += SMOOTHING * (time - site.round_trip_ms);
            }
        }
        self.call(name, now);
        self.sweep(name, now);
    }

    /// Nothing of `name` is dispatched before `until_ms`.
    pub(crate) fn pause(&mut self, name: &Arc<str>, until_ms: Millis) {
        if let Some(site) = self.sites.get_mut(name)
            && until_ms > site.resume_at_ms
        {
            site.resume_at_ms = until_ms;
            self.paused.push(Reverse((until_ms, Arc::clone(name))));
        }
    }

    /// The site asked for this long between requests.
    pub(crate) fn learn_delay(&mut self, name: &Arc<str>, crawl_delay_ms: u64) {
        if let Some(site) = self.sites.get_mut(name) {
            site.crawl_delay_ms = crawl_delay_ms;
        }
    }

    /// Sites whose pause is over get their turn.
    pub(crate) fn wake(&mut self, now: Millis) {
        while let Some(Reverse((at, _))) = self.paused.peek()
            && *at <= now
        {
            let Some(Reverse((_, name))) = self.paused.pop() else { break };
            self.call(&name, now);
            self.sweep(&name, now);
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

    /// The next URL in turn: its site, and where its record stands.
    pub(crate) fn next(&mut self, now: Millis) -> Option<(Arc<str>, Offset)> {
        while let Some(name) = self.turn.pop_front() {
            let interval = self.default_interval_ms;
            let Some(site) = self.sites.get_mut(&name) else { continue };
            site.in_turn = false;
            if !site.may_dispatch(interval, now) {
                self.sweep(&name, now);
                continue;
            }
            let Some((_, offset)) = site.queue.pop_first() else { continue };
            site.outstanding += 1;
            self.call(&name, now);
            return Some((name, offset));
        }
        None
    }

    /// The sites with the most waiting URLs, most first.
    pub(crate) fn busiest(&self, most: usize) -> Vec<SiteLoad> {
        let mut heap = BinaryHeap::with_capacity(most + 1);
        for (name, site) in &self.sites {
            heap.push(Reverse((site.waiting, name)));
            if heap.len() > most {
                heap.pop();
            }
        }
        let sorted = heap.into_sorted_vec();
        sorted.into_iter().map(|Reverse((n, name))| SiteLoad { site: name.to_string(), waiting: n as u64 }).collect()
    }

    /// Forgets a site of which nothing is left to know.
    fn sweep(&mut self, name: &Arc<str>, now: Millis) {
        if self.sites.get(name).is_some_and(|site| site.is_idle(now)) {
            self.sites.remove(name);
        }
    }

    /// Gives a site its turn if it may have one.
    fn call(&mut self, name: &Arc<str>, now: Millis) {
        let interval = self.default_interval_ms;
        let Some(site) = self.sites.get_mut(name) else { return };
        if !site.in_turn && site.may_dispatch(interval, now) {
            site.in_turn = true;
            self.turn.push_back(Arc::clone(name));
        }
    }
}

impl Site {
    fn may_dispatch(&self, default_interval_ms: u64, now: Millis) -> bool {
        !self.queue.is_empty() && self.resume_at_ms <= now && self.outstanding < self.capacity(default_interval_ms)
    }

    fn is_idle(&self, now: Millis) -> bool {
        self.waiting == 0 && self.outstanding == 0 && self.resume_at_ms <= now && !self.in_turn
    }

    /// Rule 15: rate × (1 s + smoothed time from dispatch to outcome), so that the site always has its next request at hand
    /// and little more.
    fn capacity(&self, default_interval_ms: u64) -> usize {
        let interval = default_interval_ms.max(self.crawl_delay_ms);
        if interval == 0 {
            return UNLIMITED_OUTSTANDING;
        }
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the quotient is positive and clamped right after"
        )]
        let wanted = ((1000.0 + self.round_trip_ms) / interval as f64).ceil() as usize;
        wanted.clamp(1, UNLIMITED_OUTSTANDING)
    }
}
