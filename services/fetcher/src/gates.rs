//! Site gates: when a request may be sent. Pure; time is a value.
//!
//! A site's clock runs from the first byte of its previous answer, or its failure (rule 19). One request is in flight a
//! site, unless it is asked more than ten times a second; then starts are spaced by the interval, and with an interval of 0
//! not at all. Sites are woken by one heap of times, and those that may be asked wait in one queue and take turns, so no
//! call looks at all sites and none is starved by a larger one.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    sync::Arc,
};

use orbweaver_messages::Millis;

use crate::site_gate::SiteGate;

/// A clock that goes back further than this has been set; less is noise.
const STEPPED_BACK_MS: Millis = 1000;
/// An answer that is said to have come later than this after the turn began comes from another clock.
const LONGEST_TURN_MS: Millis = 5000;

/// A request that waits for its moment.
#[derive(Debug)]
pub struct Wish<T> {
    /// What is to be requested.
    pub payload: T,
    /// Not before this moment.
    pub not_before_ms: Millis,
    /// Not after this moment.
    pub not_after_ms: Millis,
    /// Least time since the site's previous answer, in milliseconds.
    pub interval_ms: u64,
    /// It goes ahead of those that wait: robots.txt, or the next step of a dispatch that has begun.
    pub is_first: bool,
}

/// What became of a wish.
#[derive(Debug)]
pub enum Turn<T> {
    /// It is to be sent now; [`Gates::answered`] must follow.
    Send(Arc<str>, Wish<T>),
    /// Its `not_after_ms` has passed.
    Late(Wish<T>),
}

/// The site does not want to be asked before this moment.
#[derive(Debug)]
pub struct Blocked<T> {
    /// The wish, given back.
    pub wish: Wish<T>,
    /// Until when.
    pub until_ms: Millis,
}

/// The gates of all sites.
#[derive(Debug)]
pub struct Gates<T> {
    sites: HashMap<Arc<str>, SiteGate<T>>,
    /// When to look at a site again: time, running number, site. An entry counts only if it is its site's `timer_ms`.
    timers: BinaryHeap<Reverse<(Millis, u64, Arc<str>)>>,
    /// Sites that may be asked now, in the order in which they came to be.
    ready: VecDeque<Arc<str>>,
    armed: u64,
    held: usize,
    per_site: usize,
    now: Millis,
}

impl<T> Gates<T> {
    /// Gates for `concurrency` requests in all. One site gets seven eighths of them at most, so that an unlimited site that
    /// hangs leaves room for the others.
    #[must_use]
    pub fn new(concurrency: usize) -> Self {
        Self {
            sites: HashMap::new(),
            timers: BinaryHeap::new(),
            ready: VecDeque::new(),
            armed: 0,
            held: 0,
            per_site: (concurrency - concurrency / 8).max(1),
            now: Millis::MIN,
        }
    }

    /// Wishes that wait.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Sites that may be asked now and wait for a free slot.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Sites that are remembered.
    #[must_use]
    pub fn sites(&self) -> usize {
        self.sites.len()
    }

    /// When [`Gates::poll`] has something to do next. May be too early, never too late.
    #[must_use]
    pub fn next_ms(&self) -> Option<Millis> {
        self.timers.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Until when a site is blocked, when it is.
    #[must_use]
    pub fn blocked_until(&self, site: &str, now: Millis) -> Option<Millis> {
        self.sites.get(site).map(|gate| gate.blocked_until_ms).filter(|until| *until > now)
    }

    /// The interval that the last wish of a site had, when the site is remembered.
    #[must_use]
    pub fn interval_of(&self, site: &str) -> Option<u64> {
        self.sites.get(site).map(|gate| gate.interval_ms)
    }

    /// Wishes and requests of a site: held, in flight.
    #[must_use]
    pub fn load_of(&self, site: &str) -> (usize, usize) {
        self.sites.get(site).map_or((0, 0), |gate| (gate.held(), gate.in_flight))
    }

    /// Adds a wish. A site counts as asked at `asked_ms` at the earliest, one that is remembered, too: it may have been another's
    /// since (rule 20).
    ///
    /// # Errors
    /// When the site is blocked.
    pub fn push(&mut self, site: &str, wish: Wish<T>, asked_ms: Millis, now: Millis) -> Result<(), Blocked<T>> {
        let site = self.known(site, asked_ms);
        let Some(gate) = self.sites.get_mut(&site) else { return Ok(()) };
        if gate.blocked_until_ms > now {
            return Err(Blocked { until_ms: gate.blocked_until_ms, wish });
        }
        gate.asked_since(asked_ms);
        gate.interval_ms = wish.interval_ms;
        let line = if wish.is_first { &mut gate.ahead } else { &mut gate.queue };
        line.push_back(wish);
        self.held += 1;
        self.arm(&site, now);
        Ok(())
    }

    /// Learns a crawl-delay; the longest that is known of a site applies.
    pub fn learn_delay(&mut self, site: &str, delay_ms: u64, asked_ms: Millis, now: Millis) {
        let site = self.known(site, asked_ms);
        if let Some(gate) = self.sites.get_mut(&site) {
            gate.crawl_delay_ms = gate.crawl_delay_ms.max(delay_ms);
        }
        self.arm(&site, now);
    }

    /// Blocks a site; what is held for it is given back.
    pub fn block(&mut self, site: &str, until_ms: Millis, asked_ms: Millis, now: Millis) -> Vec<Wish<T>> {
        let site = self.known(site, asked_ms);
        let Some(gate) = self.sites.get_mut(&site) else { return vec![] };
        gate.blocked_until_ms = gate.blocked_until_ms.max(until_ms);
        let back: Vec<_> = gate.ahead.drain(..).chain(gate.queue.drain(..)).collect();
        self.held -= back.len();
        self.arm(&site, now);
        back
    }

    /// A request of a site has ended; the first byte of its answer came (or it failed) at `answered_ms`.
    pub fn answered(&mut self, site: &Arc<str>, answered_ms: Millis, now: Millis) {
        if let Some(gate) = self.sites.get_mut(site) {
            gate.in_flight = gate.in_flight.saturating_sub(1);
            // An answer may come while a turn lasts, so its time may lie behind the turn's.
            gate.answered_ms = gate.answered_ms.max(answered_ms.min(now.saturating_add(LONGEST_TURN_MS)));
        }
        self.arm(site, now);
    }

    /// Takes out what is held and matches. Looks at all that is held; for a partition that goes.
    pub fn take_where(&mut self, matches: impl Fn(&T) -> bool) -> Vec<T> {
        let mut taken = vec![];
        for gate in self.sites.values_mut() {
            gate.take_where(&matches, &mut taken);
        }
        self.held -= taken.len();
        taken
    }

    /// Every site counts as asked just now: after a clock that was set back, or a process that was frozen.
    pub fn ask_anew(&mut self, now: Millis) {
        let back = self.now.saturating_sub(now).max(0);
        self.now = now;
        for gate in self.sites.values_mut() {
            gate.ask_anew(now, back);
        }
        self.timers.clear();
        let mut sites: Vec<_> = self.sites.keys().cloned().collect();
        sites.sort_unstable();
        for site in sites {
            self.arm(&site, now);
        }
    }

    /// Tells what may be sent now, `free` at most, and what has become too late.
    pub fn poll(&mut self, now: Millis, free: usize, turns: &mut Vec<Turn<T>>) {
        if self.now.saturating_sub(now) > STEPPED_BACK_MS {
            self.ask_anew(now);
        }
        self.now = now;
        while self.timers.peek().is_some_and(|Reverse((at, _, _))| *at <= now) {
            let Some(Reverse((at, _, site))) = self.timers.pop() else { break };
            self.wake(&site, at, now, turns);
        }
        let mut free = free;
        while free > 0 {
            let Some(site) = self.ready.pop_front() else { break };
            free -= usize::from(self.serve(&site, now, turns));
        }
    }

    /// A timer of a site has run out.
    fn wake(&mut self, site: &Arc<str>, at: Millis, now: Millis, turns: &mut Vec<Turn<T>>) {
        let Some(gate) = self.sites.get_mut(site).filter(|gate| gate.timer_ms == at) else { return };
        gate.timer_ms = Millis::MAX;
        self.held -= gate.expire(now, turns);
        if gate.is_idle(now) {
            self.sites.remove(site);
            return;
        }
        if !gate.is_ready && gate.earliest_ms(now, self.per_site).is_some_and(|at| at <= now) {
            gate.is_ready = true;
            self.ready.push_back(site.clone());
        }
        self.arm(site, now);
    }

    /// Gives a site its turn. Tells whether a request is sent.
    fn serve(&mut self, site: &Arc<str>, now: Millis, turns: &mut Vec<Turn<T>>) -> bool {
        let Some(gate) = self.sites.get_mut(site) else { return false };
        gate.is_ready = false;
        // Timers have run out before, so that nothing here is too late.
        let may = gate.earliest_ms(now, self.per_site).is_some_and(|at| at <= now);
        let wish = if may { gate.take() } else { None };
        let sent = wish.is_some();
        if let Some(wish) = wish {
            self.held -= 1;
            gate.in_flight += 1;
            gate.started_ms = now;
            turns.push(Turn::Send(site.clone(), wish));
            if gate.earliest_ms(now, self.per_site).is_some_and(|at| at <= now) {
                gate.is_ready = true;
                self.ready.push_back(site.clone());
            }
        }
        self.arm(site, now);
        sent
    }

    fn known(&mut self, site: &str, asked_ms: Millis) -> Arc<str> {
        if let Some((site, _)) = self.sites.get_key_value(site) {
            return site.clone();
        }
        let site: Arc<str> = site.into();
        self.sites.insert(site.clone(), SiteGate::asked_at(asked_ms));
        site
    }

    /// Sets the timer of a site to the moment at which it has to be looked at next.
    fn arm(&mut self, site: &Arc<str>, now: Millis) {
        let Some(gate) = self.sites.get_mut(site) else { return };
        let at = gate.wake_ms(now, self.per_site);
        if at < gate.timer_ms {
            gate.timer_ms = at;
            self.armed += 1;
            self.timers.push(Reverse((at, self.armed, site.clone())));
        }
    }
}

#[cfg(test)]
mod tests;
