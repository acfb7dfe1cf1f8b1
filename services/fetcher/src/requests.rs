//! Requests in flight, and the slots that bound them: pure.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
};

use orbweaver_log::Partition;
use orbweaver_messages::{MAX_FETCH_MS, Millis};
use orbweaver_stage::ByteBudget;
use orbweaver_url::{CrawlName, SiteName};

use crate::{client::FIRST_BYTES, stage::FetchTarget};

/// A request in flight.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) site: SiteName,
    pub(crate) crawl: CrawlName,
    /// `None` if the partition of the page is gone and the response is of no use.
    pub(crate) target: Option<FetchTarget>,
    /// Address at which it has a place.
    pub(crate) address: Option<IpAddr>,
    since_ms: Millis,
}

/// Requests in flight. Each takes a slot, which a page keeps until its outcome is durable.
#[derive(Debug)]
pub(crate) struct Requests {
    concurrency: usize,
    /// Memory for bodies: those being read, and those that are not durable.
    pub(crate) memory: ByteBudget,
    pub(crate) in_flight: HashMap<u64, InFlight>,
    last: u64,
    /// Number of slots that are taken.
    pub(crate) slots: usize,
}

impl Requests {
    pub(crate) fn new(concurrency: usize, memory: ByteBudget) -> Self {
        Self { concurrency, memory, in_flight: HashMap::new(), last: 0, slots: 0 }
    }

    /// Returns the number of free slots: none while there is no memory for a response.
    pub(crate) fn free_slots(&self) -> usize {
        if self.memory.has_room(FIRST_BYTES) { self.concurrency.saturating_sub(self.slots) } else { 0 }
    }

    /// Adds a request of a crawl to a site and its address, which takes a slot, and returns its number.
    pub(crate) fn start(
        &mut self,
        (site, address): (SiteName, Option<IpAddr>),
        crawl: CrawlName,
        target: FetchTarget,
        now: Millis,
    ) -> u64 {
        self.slots += 1;
        self.last += 1;
        self.in_flight.insert(self.last, InFlight { site, crawl, target: Some(target), address, since_ms: now });
        self.last
    }

    /// Removes a request that has ended; its slot remains taken.
    pub(crate) fn end(&mut self, number: u64) -> Option<InFlight> {
        self.in_flight.remove(&number)
    }

    /// Frees slots.
    pub(crate) fn free(&mut self, slots: usize) {
        self.slots -= slots;
    }

    /// Returns the keys of the robots.txt files that are being requested.
    pub(crate) fn robots_keys(&self) -> HashSet<Arc<str>> {
        let asked = self.in_flight.values().filter_map(|request| match &request.target {
            Some(FetchTarget::Robots(key, _)) => Some(key.clone()),
            Some(FetchTarget::Page(_)) | None => None,
        });
        asked.collect()
    }

    /// Forgets the dispatches of a partition. Their sites stay in flight until the responses have arrived, and so do
    /// the slots.
    pub(crate) fn close(&mut self, partition: Partition) {
        for request in self.in_flight.values_mut() {
            request.target.take_if(|target| target.is_page_of(partition));
        }
    }

    /// Returns the number of requests that should have ended.
    pub(crate) fn overdue(&self, now: Millis) -> usize {
        self.in_flight.values().filter(|request| now.saturating_sub(request.since_ms) > MAX_FETCH_MS).count()
    }
}
