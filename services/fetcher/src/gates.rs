//! Site gates: when a request may be sent. Pure; time is a value.
//!
//! A site's clock runs from the first byte of its previous response, or its failure (docs/protocol.md#answer-delay). A
//! site has one request in flight, unless its rate is above ten per second; then request starts are spaced by the
//! interval, and not at all with an interval of 0. One heap of timers wakes the sites, and ready sites wait in one
//! queue: the crawls take turns in proportion to their shares, and the sites of each alternate. So no call visits all
//! sites, and neither a site nor a crawl is starved by a larger one. Last comes the door: the bound by address.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

use orbweaver_messages::Millis;
use orbweaver_stage::FairQueue;
use orbweaver_url::{CrawlName, SiteName};

use crate::site_gate::SiteGate;

/// Threshold for a clock that steps back, in milliseconds; a smaller step is noise.
const STEPPED_BACK_MS: Millis = 1000;
/// Maximum time from the start of a loop iteration to a response in it, in milliseconds; a later response time comes
/// from another clock.
const LONGEST_TURN_MS: Millis = 5000;

#[derive(Debug)]
pub(crate) struct QueuedRequest<T> {
    pub(crate) payload: T,
    /// Earliest time to send it.
    pub(crate) not_before_ms: Millis,
    /// Latest time to send it.
    pub(crate) not_after_ms: Millis,
    /// Minimum time since the site's previous response, in milliseconds.
    pub(crate) interval_ms: u64,
    pub(crate) crawl: CrawlName,
    /// Share of the crawl in the slots, relative to the other crawls.
    pub(crate) share: u32,
    /// Minimum time since the site's previous response for the crawl, in milliseconds; 0: none.
    pub(crate) own_ms: u64,
    /// Whether it goes ahead of the others: robots.txt, or the next request of a dispatch that has begun.
    pub(crate) is_first: bool,
}

/// Event of a poll: a queued request to send, or one that is too late.
#[derive(Debug)]
pub(crate) enum GateEvent<T> {
    /// The request is to be sent now; [`SiteGates::answered`] must follow.
    Send(SiteName, QueuedRequest<T>),
    /// The `not_after_ms` of the request has passed.
    Late(QueuedRequest<T>),
}

/// Further condition for the next request of a ready site.
pub(crate) trait Door<T> {
    /// Decides whether the request may be sent; otherwise the site waits until [`SiteGates::resume`].
    fn admit(&mut self, site: &SiteName, request: &QueuedRequest<T>) -> bool;

    /// Notes that a ready site has no request to send after all.
    fn withdraw(&mut self, site: &SiteName);
}

#[derive(Debug)]
pub(crate) struct SiteGates<T> {
    /// Known sites.
    pub(crate) sites: HashMap<SiteName, SiteGate<T>>,
    /// Timers: time, running number, site. An entry counts only if its time is its site's `timer_ms`.
    timers: BinaryHeap<Reverse<(Millis, u64, SiteName)>>,
    /// Sites ready for a request, which wait for a free slot, by the crawl of that request.
    pub(crate) ready: FairQueue<CrawlName, SiteName>,
    timer_sequence: u64,
    /// Number of queued requests.
    pub(crate) queued: usize,
    per_site: usize,
    now: Millis,
}

impl<T> SiteGates<T> {
    /// Creates gates for `concurrency` requests in total. One site gets at most seven eighths of them, so that an
    /// unlimited site that hangs leaves room for the others.
    pub(crate) fn new(concurrency: usize) -> Self {
        Self {
            sites: HashMap::new(),
            timers: BinaryHeap::new(),
            ready: FairQueue::default(),
            timer_sequence: 0,
            queued: 0,
            per_site: (concurrency - concurrency / 8).max(1),
            now: Millis::MIN,
        }
    }

    /// Returns the time of the next call of [`SiteGates::poll`]. May be too early, never too late.
    pub(crate) fn next_ms(&self) -> Option<Millis> {
        self.timers.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Returns the end of a site's block, if it is blocked.
    pub(crate) fn blocked_until(&self, site: &SiteName, now: Millis) -> Option<Millis> {
        self.sites.get(site).map(|gate| gate.blocked_until_ms).filter(|until| *until > now)
    }

    /// Returns the interval of a site's last queued request, if one is known: a site with a crawl-delay or a block may
    /// have none.
    pub(crate) fn interval_of(&self, site: &SiteName) -> Option<u64> {
        self.sites.get(site).and_then(|gate| gate.interval_ms)
    }

    /// Returns the crawl-delay of a site in milliseconds, 0 if it has none, if the site is known.
    pub(crate) fn crawl_delay_of(&self, site: &SiteName) -> Option<u64> {
        self.sites.get(site).map(|gate| gate.crawl_delay_ms)
    }

    /// Queues a request. Its site counts as requested no earlier than `asked_ms`, even if it is known: another fetcher
    /// may have owned it since (docs/protocol.md#delays-restart).
    ///
    /// # Errors
    /// Returns the request and the end of the block if the site is blocked.
    pub(crate) fn push(
        &mut self,
        site: &SiteName,
        request: QueuedRequest<T>,
        asked_ms: Millis,
        now: Millis,
    ) -> Result<(), (QueuedRequest<T>, Millis)> {
        let (site, gate) = self.known(site, asked_ms);
        if gate.blocked_until_ms > now {
            return Err((request, gate.blocked_until_ms));
        }
        gate.started_ms = gate.started_ms.max(asked_ms);
        gate.answered_ms = gate.answered_ms.max(asked_ms);
        gate.interval_ms = Some(request.interval_ms);
        gate.crawls.queue(&request.crawl, request.own_ms, asked_ms, now);
        let line = if request.is_first { &mut gate.ahead } else { &mut gate.queue };
        line.push_back(request);
        self.queued += 1;
        self.arm(&site, now);
        Ok(())
    }

    /// Records a crawl-delay; the longest one known for a site applies.
    pub(crate) fn learn_delay(&mut self, site: &SiteName, delay_ms: u64, asked_ms: Millis, now: Millis) {
        let (site, gate) = self.known(site, asked_ms);
        gate.crawl_delay_ms = gate.crawl_delay_ms.max(delay_ms);
        self.arm(&site, now);
    }

    /// Blocks a site; removes and returns its queued requests.
    pub(crate) fn block(
        &mut self,
        site: &SiteName,
        until_ms: Millis,
        asked_ms: Millis,
        now: Millis,
    ) -> Vec<QueuedRequest<T>> {
        let (site, gate) = self.known(site, asked_ms);
        gate.blocked_until_ms = gate.blocked_until_ms.max(until_ms);
        let back: Vec<_> = gate.ahead.drain(..).chain(gate.queue.drain(..)).collect();
        self.queued -= back.len();
        self.arm(&site, now);
        back
    }

    /// Records the end of a request of a crawl; the first byte of its response arrived (or it failed) at `answered_ms`.
    pub(crate) fn answered(&mut self, site: &SiteName, crawl: &CrawlName, answered_ms: Millis, now: Millis) {
        if let Some(gate) = self.sites.get_mut(site) {
            gate.in_flight = gate.in_flight.saturating_sub(1);
            // A response may arrive during a loop iteration, so its time may be after the iteration's.
            let answered_ms = answered_ms.min(now.saturating_add(LONGEST_TURN_MS));
            gate.answered_ms = gate.answered_ms.max(answered_ms);
            gate.crawls.answered(crawl, answered_ms);
        }
        self.arm(site, now);
    }

    /// Removes and returns the queued requests that match. Checks all of them; for a partition that is released or
    /// lost.
    pub(crate) fn take_where(&mut self, matches: impl Fn(&T) -> bool) -> Vec<T> {
        let mut taken = vec![];
        for gate in self.sites.values_mut() {
            gate.take_where(&matches, &mut taken);
        }
        self.queued -= taken.len();
        taken
    }

    /// Counts every site as requested now: after a clock stepped back, or the process was suspended.
    pub(crate) fn reset_clocks(&mut self, now: Millis) {
        let back = self.now.saturating_sub(now).max(0);
        self.now = now;
        for gate in self.sites.values_mut() {
            gate.reset_clocks(now, back);
        }
        self.timers.clear();
        let mut sites: Vec<_> = self.sites.keys().cloned().collect();
        sites.sort_unstable();
        for site in sites {
            self.arm(&site, now);
        }
    }

    /// Resumes a site that waited at the door; `false` if it has no request to send now.
    pub(crate) fn resume(&mut self, site: &SiteName, now: Millis) -> bool {
        let Some(gate) = self.sites.get_mut(site) else { return false };
        gate.is_ready = false;
        gate.make_ready(site, (now, self.per_site), &mut self.ready);
        let is_ready = gate.is_ready;
        self.arm(site, now);
        is_ready
    }

    /// Adds to `events` the requests to send now, at most `free`, and those that are too late.
    pub(crate) fn poll(&mut self, now: Millis, free: usize, door: &mut impl Door<T>, events: &mut Vec<GateEvent<T>>) {
        if self.now.saturating_sub(now) > STEPPED_BACK_MS {
            self.reset_clocks(now);
        }
        self.now = now;
        while self.timers.peek().is_some_and(|Reverse((at, _, _))| *at <= now) {
            let Some(Reverse((at, _, site))) = self.timers.pop() else { break };
            self.wake(&site, at, now, events);
        }
        let mut free = free;
        while free > 0 {
            let Some(site) = self.ready.pop() else { break };
            free -= usize::from(self.serve(&site, now, door, events));
        }
    }

    /// Handles an expired timer of a site.
    fn wake(&mut self, site: &SiteName, at: Millis, now: Millis, events: &mut Vec<GateEvent<T>>) {
        let Some(gate) = self.sites.get_mut(site).filter(|gate| gate.timer_ms == at) else { return };
        gate.timer_ms = Millis::MAX;
        self.queued -= gate.expire(now, events);
        if gate.is_idle(now) {
            self.sites.remove(site);
            return;
        }
        gate.make_ready(site, (now, self.per_site), &mut self.ready);
        self.arm(site, now);
    }

    /// Takes the next request of a ready site. Returns `true` if one is sent.
    fn serve(&mut self, site: &SiteName, now: Millis, door: &mut impl Door<T>, events: &mut Vec<GateEvent<T>>) -> bool {
        let Some(gate) = self.sites.get_mut(site) else { return false };
        gate.is_ready = false;
        // Expired timers were handled before, so nothing here is too late.
        let request = match gate.due(now, self.per_site) {
            None => {
                door.withdraw(site);
                None
            }
            Some((index, request)) => {
                gate.is_ready = !door.admit(site, request);
                if gate.is_ready { None } else { gate.take(index) }
            }
        };
        let sent = request.is_some();
        if let Some(request) = request {
            self.queued -= 1;
            gate.in_flight += 1;
            gate.started_ms = now;
            gate.crawls.start(&request.crawl, request.own_ms, now);
            events.push(GateEvent::Send(site.clone(), request));
            gate.make_ready(site, (now, self.per_site), &mut self.ready);
        }
        self.arm(site, now);
        sent
    }

    /// Returns the gate of a site, with the name that is kept for it. A new site counts as requested at `asked_ms`.
    fn known(&mut self, site: &SiteName, asked_ms: Millis) -> (SiteName, &mut SiteGate<T>) {
        let site = self.sites.get_key_value(site).map_or(site, |(known, _)| known).clone();
        let gate = self.sites.entry(site.clone()).or_insert_with(|| SiteGate::asked_at(asked_ms));
        (site, gate)
    }

    /// Sets the timer of a site to the time at which it must be checked next.
    fn arm(&mut self, site: &SiteName, now: Millis) {
        let Some(gate) = self.sites.get_mut(site) else { return };
        let at = gate.wake_ms(now, self.per_site);
        if at < gate.timer_ms {
            gate.timer_ms = at;
            self.timer_sequence += 1;
            self.timers.push(Reverse((at, self.timer_sequence, site.clone())));
        }
    }
}

#[cfg(test)]
mod tests;
