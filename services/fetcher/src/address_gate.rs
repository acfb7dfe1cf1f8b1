//! Gate of the addresses: bounds the requests that are sent to one address at once, whatever their sites. Pure; time is
//! a value.
//!
//! Sites wait for an address in the order of their arrival, each with its next request. A site that is called
//! has a place until it sends that request, or withdraws. One heap of timers wakes the addresses with a gap. Only
//! addresses with requests, waiting sites, a running gap or recent refusals are kept.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    net::IpAddr,
};

use orbweaver_messages::Millis;
use orbweaver_url::SiteName;

use crate::refusals::Refusals;

/// Bounds per address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AddressLimits {
    /// Requests at once; `usize::MAX`: unlimited.
    pub(crate) at_once: usize,
    /// Time between the starts of two requests, in milliseconds; 0: none.
    pub(crate) gap_ms: u64,
}

#[derive(Debug)]
struct Address {
    in_flight: usize,
    /// Sites with a place, which have not sent their requests yet.
    called: Vec<SiteName>,
    waiting: VecDeque<SiteName>,
    /// Start of the last request.
    started_ms: Millis,
    refusals: Refusals,
    /// The only valid timer of this address; `Millis::MAX`: none.
    timer_ms: Millis,
}

impl Address {
    fn new() -> Self {
        Self {
            in_flight: 0,
            called: vec![],
            waiting: VecDeque::new(),
            started_ms: Millis::MIN,
            refusals: Refusals::default(),
            timer_ms: Millis::MAX,
        }
    }

    fn gap_ms(&self, limits: AddressLimits, now: Millis) -> u64 {
        limits.gap_ms.max(self.refusals.gap_ms(now))
    }

    /// Returns the time at which the gap since the last request has passed.
    fn free_ms(&self, limits: AddressLimits, now: Millis) -> Millis {
        self.started_ms.saturating_add_unsigned(self.gap_ms(limits, now))
    }

    fn has_place(&self, limits: AddressLimits, now: Millis) -> bool {
        let in_turn = self.gap_ms(limits, now) == 0 || (self.called.is_empty() && self.free_ms(limits, now) <= now);
        in_turn && self.in_flight + self.called.len() < limits.at_once
    }

    /// Returns the time at which the address must be checked next; `Millis::MAX`: not before its next event.
    fn wake_ms(&self, limits: AddressLimits, now: Millis) -> Millis {
        if self.in_flight + self.called.len() >= limits.at_once || !self.called.is_empty() {
            return Millis::MAX;
        }
        match (self.waiting.is_empty(), self.in_flight) {
            (false, _) => self.free_ms(limits, now),
            (true, 0) => self.idle_ms(limits, now),
            (true, _) => Millis::MAX,
        }
    }

    /// Returns the time from which an address without requests can be forgotten.
    fn idle_ms(&self, limits: AddressLimits, now: Millis) -> Millis {
        self.free_ms(limits, now).max(self.refusals.forgotten_ms())
    }

    fn is_idle(&self, limits: AddressLimits, now: Millis) -> bool {
        let is_unused = self.in_flight == 0 && self.called.is_empty() && self.waiting.is_empty();
        is_unused && self.idle_ms(limits, now) <= now
    }
}

#[derive(Debug)]
pub(crate) struct AddressGate {
    limits: AddressLimits,
    addresses: HashMap<IpAddr, Address>,
    timers: BinaryHeap<Reverse<(Millis, IpAddr)>>,
    /// Sites that were called since the last [`AddressGate::next_called`].
    calls: VecDeque<SiteName>,
    /// Number of sites that wait.
    waiting: usize,
    now: Millis,
}

impl AddressGate {
    pub(crate) fn new(limits: AddressLimits) -> Self {
        Self {
            limits,
            addresses: HashMap::new(),
            timers: BinaryHeap::new(),
            calls: VecDeque::new(),
            waiting: 0,
            now: Millis::MIN,
        }
    }

    /// Returns the number of sites whose next request waits for its address.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Requests a place for the next request of a site. `true`: the request is to be sent now, and
    /// [`AddressGate::ended`] must follow. Otherwise the site waits until it is called; each site has one request here
    /// at a time.
    pub(crate) fn request(&mut self, address: IpAddr, site: &SiteName, now: Millis) -> bool {
        let limits = self.limits;
        let known = self.addresses.entry(address).or_insert_with(Address::new);
        let called = known.called.iter().position(|called| called == site);
        let starts = match called {
            Some(index) => {
                known.called.swap_remove(index);
                // The limit may be lower by now.
                known.in_flight < limits.at_once
            }
            None => known.waiting.is_empty() && known.has_place(limits, now),
        };
        if starts {
            known.in_flight += 1;
            known.started_ms = now;
        } else {
            let first = called.map_or(known.waiting.len(), |_| 0);
            known.waiting.insert(first, site.clone());
            self.waiting += 1;
        }
        self.check(address, now);
        starts
    }

    /// Removes a site that waits for an address or was called: it has no request to send.
    pub(crate) fn withdraw(&mut self, address: IpAddr, site: &SiteName, now: Millis) {
        let Some(known) = self.addresses.get_mut(&address) else { return };
        if let Some(index) = known.called.iter().position(|called| called == site) {
            known.called.swap_remove(index);
        } else if let Some(index) = known.waiting.iter().position(|waiting| waiting == site) {
            known.waiting.remove(index);
            self.waiting -= 1;
        }
        self.check(address, now);
    }

    /// Notes the end of a request.
    pub(crate) fn ended(&mut self, address: IpAddr, now: Millis) {
        let Some(known) = self.addresses.get_mut(&address) else { return };
        known.in_flight = known.in_flight.saturating_sub(1);
        self.check(address, now);
    }

    /// Notes that a site refused a request (429, 503, a challenge).
    pub(crate) fn refused(&mut self, address: IpAddr, site: &SiteName, now: Millis) {
        let known = self.addresses.entry(address).or_insert_with(Address::new);
        known.refusals.add(site, now);
        self.check(address, now);
    }

    /// Sets the number of requests at once; at least one.
    pub(crate) fn set_at_once(&mut self, at_once: usize) {
        let at_once = at_once.max(1);
        if std::mem::replace(&mut self.limits.at_once, at_once) != at_once {
            // Sorted: the same events lead to the same order of calls.
            let mut addresses: Vec<_> = self.addresses.keys().copied().collect();
            addresses.sort_unstable();
            addresses.into_iter().for_each(|address| self.check(address, self.now));
        }
    }

    /// Returns the next site that was called, in order: its request is to be sent by [`AddressGate::request`], or withdrawn.
    pub(crate) fn next_called(&mut self) -> Option<SiteName> {
        self.calls.pop_front()
    }

    pub(crate) fn has_called(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Returns the time of the next call of [`AddressGate::poll`]. May be too early, never too late.
    pub(crate) fn next_ms(&self) -> Option<Millis> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    /// Calls the sites whose gap has passed, and forgets addresses that are no longer in use.
    pub(crate) fn poll(&mut self, now: Millis) {
        if now < self.now {
            self.reset_clocks(now);
        }
        self.now = now;
        while self.timers.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let Some(Reverse((at, address))) = self.timers.pop() else { break };
            if let Some(known) = self.addresses.get_mut(&address).filter(|known| known.timer_ms == at) {
                known.timer_ms = Millis::MAX;
                self.check(address, now);
            }
        }
    }

    /// Counts every address as requested now: the clock stepped back.
    fn reset_clocks(&mut self, now: Millis) {
        self.timers.clear();
        let mut addresses: Vec<_> = self.addresses.keys().copied().collect();
        addresses.sort_unstable();
        for address in addresses {
            if let Some(known) = self.addresses.get_mut(&address) {
                known.started_ms = known.started_ms.min(now);
                known.refusals.reset_clock(now);
                known.timer_ms = Millis::MAX;
            }
            self.check(address, now);
        }
    }

    /// Calls waiting sites while there are places; then sets the timer of the address, or forgets it.
    fn check(&mut self, address: IpAddr, now: Millis) {
        let limits = self.limits;
        let Some(known) = self.addresses.get_mut(&address) else { return };
        while known.has_place(limits, now)
            && let Some(site) = known.waiting.pop_front()
        {
            self.waiting -= 1;
            known.called.push(site.clone());
            self.calls.push_back(site);
        }
        if known.is_idle(limits, now) {
            self.addresses.remove(&address);
            return;
        }
        let at = known.wake_ms(limits, now);
        if at < known.timer_ms {
            known.timer_ms = at;
            self.timers.push(Reverse((at, address)));
        }
    }
}

#[cfg(test)]
mod tests;
