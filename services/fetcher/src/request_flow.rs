//! Requests: from the gates of sites and addresses to their results.

use std::{collections::VecDeque, sync::Arc};

use orbweaver_messages::Millis;
use orbweaver_url::{CrawlName, SiteName};

use crate::{
    addresses::{Addresses, Admission},
    body::PackedBody,
    client::{Attempt, Destination, HttpResponse, Purpose, Request},
    gates::{Door, GateEvent, QueuedRequest},
    records::body_room,
    requests::InFlight,
    stage::{At, FetchTarget, FetcherStage},
    worker::Job,
};

/// The addresses, as the door of the sites' gates.
struct AddressDoor<'a> {
    addresses: &'a mut Addresses,
    now: Millis,
    /// Destinations of the admitted requests, in order.
    destinations: VecDeque<Destination>,
    /// Hosts to look up.
    lookups: Vec<(SiteName, Arc<str>)>,
}

impl Door<FetchTarget> for AddressDoor<'_> {
    fn admit(&mut self, site: &SiteName, request: &QueuedRequest<FetchTarget>) -> bool {
        match self.addresses.admit(site, request.payload.url(), self.now) {
            Admission::Send(destination) => {
                self.destinations.push_back(destination);
                return true;
            }
            Admission::LookUp(host) => self.lookups.push((site.clone(), host)),
            Admission::Wait => {}
        }
        false
    }

    fn withdraw(&mut self, site: &SiteName) {
        self.addresses.withdraw(site, self.now);
    }
}

impl FetcherStage {
    /// Sends all requests that may be sent.
    pub(crate) fn send_ready(&mut self, at: &mut At<'_>) {
        let mut events = std::mem::take(&mut self.events);
        loop {
            while let Some(site) = self.addresses.next_called(at.now) {
                self.resume(&site, at);
            }
            // A fetcher that may have lost its partitions starts no request while the next owner does
            // (docs/protocol.md#fenced-requests).
            let free = if self.ownership.is_certain(at.now) { self.requests.free_slots() } else { 0 };
            let (destinations, lookups) = (VecDeque::new(), vec![]);
            let mut door = AddressDoor { addresses: &mut self.addresses, now: at.now, destinations, lookups };
            self.gates.poll(at.now, free, &mut door, &mut events);
            let AddressDoor { mut destinations, lookups, .. } = door;
            at.acts.jobs.extend(lookups.into_iter().map(|(site, host)| Job::Locate { site, host }));
            for event in events.drain(..) {
                self.handle(event, &mut destinations, at);
            }
            if !self.addresses.has_called() {
                break;
            }
        }
        self.events = events;
        at.acts.parked.append(&mut self.dispatches.abandoned);
        self.metrics.slots.set(i64::try_from(self.requests.slots).unwrap_or(i64::MAX));
    }

    fn handle(&mut self, event: GateEvent<FetchTarget>, destinations: &mut VecDeque<Destination>, at: &mut At<'_>) {
        match event {
            GateEvent::Send(site, QueuedRequest { payload, crawl, .. }) => {
                let destination = destinations.pop_front().unwrap_or(Destination::Unlocated);
                self.send((site, destination), crawl, payload, at);
            }
            GateEvent::Late(QueuedRequest { payload: FetchTarget::Page(active), .. }) => self.late(&active, at),
            // Another dispatch may wait for it by now.
            GateEvent::Late(QueuedRequest { payload: FetchTarget::Robots(key, url), .. }) => {
                self.ask_robots_at(&key, url, at);
            }
        }
    }

    /// Resumes a site that waited for its address.
    pub(crate) fn resume(&mut self, site: &SiteName, at: &At<'_>) {
        if !self.gates.resume(site, at.now) {
            self.addresses.withdraw(site, at.now);
        }
    }

    /// Sends a request of a crawl to a site.
    fn send(
        &mut self,
        (site, destination): (SiteName, Destination),
        crawl: CrawlName,
        mut target: FetchTarget,
        at: &mut At<'_>,
    ) {
        let (request, room) = match &mut target {
            FetchTarget::Page(active) => {
                active.has_slot = true;
                let profile = self.profiles.of(&crawl).clone();
                let room = body_room(active, &profile, self.config.record_limit);
                let (url, cookie) = (active.url.clone(), active.cookies.header());
                let known = active.known().cloned().map(Box::new);
                (Request { url, purpose: active.purpose(), cookie, known, profile, destination }, room)
            }
            FetchTarget::Robots(key, url) => {
                let lookup = self.lookups.get(key).map(|lookup| &lookup.profile);
                let profile = lookup.unwrap_or(&self.profiles.configured).clone();
                let (purpose, url) = (Purpose::Robots, url.clone());
                (Request { url, purpose, cookie: None, known: None, profile, destination }, 0)
            }
        };
        let address = if let Destination::At(address) = destination { Some(address) } else { None };
        let number = self.requests.start((site, address), crawl, target, at.now);
        at.acts.jobs.push(Job::Ask { number, request, room });
    }

    pub(crate) fn asked(&mut self, number: u64, attempt: Attempt, body: Option<PackedBody>, at: &mut At<'_>) {
        let Some(InFlight { site, crawl, target, address, .. }) = self.requests.end(number) else { return };
        if let Some(address) = address {
            let refused = attempt.result.as_ref().is_ok_and(HttpResponse::is_refusal);
            self.addresses.ended(address, &site, refused, at.now);
        }
        self.metrics.asked(&crawl, &attempt, body.as_ref().map_or(0, |body| body.bytes));
        self.gates.answered(&site, &crawl, attempt.answered_at_ms, at.now);
        match target {
            Some(FetchTarget::Page(active)) => self.conclude(active, attempt, body, at),
            None => self.requests.free(1),
            Some(FetchTarget::Robots(key, url)) => {
                self.requests.free(1);
                self.robots_answered(&key, &url, &attempt, at);
            }
        }
    }

    /// Takes this fetcher's part of the requests per address.
    pub(crate) fn share_addresses(&mut self) {
        let (owned, partitions) = self.ownership.part();
        self.addresses.set_part(owned, partitions);
    }
}
