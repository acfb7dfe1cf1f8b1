//! Division of a site's dispatches in flight among the queues of several crawls. Pure.
//!
//! A few queues have a *seat* at a site at a time: dispatches in flight, or one that was deferred and comes back. They divide the
//! slots of the site by their shares, and may also use what others leave of them. If more queues have URLs, seats go round:
//! each dispatch costs its queue the inverse of its share, and the lowest costs are next (start-time fair queueing, Goyal, Vin and
//! Cheng, 1997). The rate-limiter, which divides the times of the site, therefore has a few crawls to choose from, and
//! a thousand crawls at a slow site are not all dispatched to be deferred.

use std::collections::BTreeSet;

use foldhash::HashMap;
use orbweaver_messages::Millis;
use orbweaver_url::SiteName;
use xxhash_rust::xxh3::xxh3_64;

use crate::index::QueueKey;

/// Minimum number of seats of a site: few enough that a seat is free before long, and enough to use all times of the site.
const MIN_SEATS: u32 = 8;
/// Cost of a dispatch for a queue of share 1.
const COST: u64 = 1 << 32;
/// Weight of the slots of a queue in the smoothed number.
const SMOOTHING: f32 = 0.1;

/// A site, whatever the crawl. Two sites of the same hash divide their slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SiteKey(u64);

impl SiteKey {
    pub(crate) fn of(site: &SiteName) -> Self {
        Self(xxh3_64(site.as_bytes()))
    }
}

/// The seat of a queue at its site.
#[derive(Debug, Default)]
pub(crate) struct QueueSeat {
    /// Site of the queue, once one of its records has been read.
    site: Option<SiteKey>,
    /// Share that counts at the site; 0 without a seat.
    share: u32,
    in_flight: u32,
    /// Sum of the costs of its dispatches; only differences matter.
    spent: u64,
    /// Time at which its deferred dispatch comes back; 0: none was deferred.
    until_ms: Millis,
}

/// Queues at one site.
#[derive(Debug, Default)]
struct SharedSite {
    /// Slots of the site: the smoothed number of those of the queues that it answers.
    slots: f32,
    /// Number of queues with a seat, and the sum of their shares.
    taken: u32,
    shares: u64,
    /// Number of dispatches in flight, without the first one of each queue: that may be the only slot of a slow crawl.
    further: u32,
    /// Costs of the last queue that got a seat.
    now: u64,
    /// Queues without a seat, by their costs.
    waiting: BTreeSet<(u64, QueueKey)>,
    /// Queues with a seat, but without room for another dispatch.
    full: Vec<QueueKey>,
}

/// Slots of all sites with dispatches in flight.
#[derive(Debug, Default)]
pub(crate) struct SiteSlots {
    sites: HashMap<SiteKey, SharedSite>,
    /// Queues that may have room by now.
    called: Vec<QueueKey>,
}

impl QueueSeat {
    /// Returns `true` if the site of the queue is known.
    pub(crate) fn is_known(&self) -> bool {
        self.site.is_some()
    }
}

impl SharedSite {
    fn enter(&mut self, seat: &mut QueueSeat, share: u32) {
        self.taken += 1;
        self.shares += u64::from(share);
        seat.share = share;
        self.now = self.now.max(seat.spent);
    }

    fn leave(&mut self, seat: &mut QueueSeat) {
        self.taken -= 1;
        self.shares -= u64::from(std::mem::take(&mut seat.share));
    }

    fn free(&self) -> usize {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of numbers of slots")]
        let seats = (self.slots.ceil() as u32).max(MIN_SEATS);
        seats.saturating_sub(self.taken) as usize
    }

    /// Returns `true` if a queue with a seat may have another dispatch in flight.
    fn has_room(&self, seat: &QueueSeat, slots: u32) -> bool {
        let part = u64::from(slots) * u64::from(seat.share) / self.shares.max(1);
        // A queue whose costs are above those of one that waits leaves its seat when its dispatches have ended.
        let is_over = self.waiting.first().is_some_and(|(spent, _)| *spent < seat.spent);
        let has_part = self.taken == 1 || self.further + 1 < slots || u64::from(seat.in_flight) < part;
        seat.in_flight == 0 || has_part && !is_over
    }
}

impl SiteSlots {
    /// Notes the site of a queue, and its dispatches that are in flight already.
    pub(crate) fn set_site(&mut self, seat: &mut QueueSeat, (site, share): (SiteKey, u32), in_flight: u32) {
        seat.site = Some(site);
        if in_flight > 0 {
            let shared = self.sites.entry(site).or_default();
            shared.enter(seat, share.max(1));
            shared.further += in_flight - 1;
            seat.in_flight = in_flight;
        }
    }

    /// Adds a dispatch of a queue whose site has this number of slots. Returns `false` if it has no room: it is called when it may have.
    pub(crate) fn add(&mut self, queue: QueueKey, seat: &mut QueueSeat, (share, slots): (u32, u32)) -> bool {
        let Some(site) = seat.site else { return true };
        let (shared, share) = (self.sites.entry(site).or_default(), share.max(1));
        let cost = COST / u64::from(share);
        if seat.share == 0 {
            if !shared.waiting.remove(&(seat.spent, queue)) {
                seat.spent = seat.spent.clamp(shared.now, shared.now + cost);
            }
            let free = shared.free();
            if shared.waiting.range(..(seat.spent, queue)).take(free).count() == free {
                shared.waiting.insert((seat.spent, queue));
                return false;
            }
            shared.enter(seat, share);
        } else {
            shared.shares = shared.shares - u64::from(seat.share) + u64::from(share);
            seat.share = share;
            if !shared.has_room(seat, slots) {
                shared.full.push(queue);
                return false;
            }
        }
        seat.until_ms = 0;
        shared.further += u32::from(seat.in_flight > 0);
        seat.in_flight += 1;
        seat.spent += cost;
        true
    }

    /// Ends a dispatch of a queue. `slots` is their number after the request; a dispatch without one costs nothing.
    pub(crate) fn end(&mut self, seat: &mut QueueSeat, slots: Option<u32>, now: Millis) {
        let Some(site) = seat.site.filter(|_| seat.in_flight > 0) else { return };
        let Some(shared) = self.sites.get_mut(&site) else { return };
        seat.in_flight -= 1;
        shared.further -= u32::from(seat.in_flight > 0);
        if let Some(slots) = slots {
            #[allow(clippy::cast_precision_loss, reason = "at most a few thousand")]
            let change = slots as f32 - shared.slots;
            shared.slots += SMOOTHING * change;
        } else {
            seat.spent = seat.spent.saturating_sub(COST / u64::from(seat.share.max(1)));
        }
        self.settle(seat, now);
        self.call(site);
    }

    /// Keeps a seat for a dispatch that was deferred until this time.
    pub(crate) fn keep(&mut self, queue: QueueKey, seat: &mut QueueSeat, (share, until_ms): (u32, Millis)) {
        let Some(site) = seat.site else { return };
        if seat.share == 0 {
            let shared = self.sites.entry(site).or_default();
            shared.waiting.remove(&(seat.spent, queue));
            shared.enter(seat, share.max(1));
        }
        seat.until_ms = until_ms;
    }

    /// Takes the seat of a queue without dispatches in flight, unless one of them comes back later than `now`.
    pub(crate) fn settle(&mut self, seat: &mut QueueSeat, now: Millis) {
        let Some(site) = seat.site else { return };
        if seat.share == 0 || seat.in_flight > 0 || seat.until_ms > now {
            return;
        }
        seat.until_ms = 0;
        if let Some(shared) = self.sites.get_mut(&site) {
            shared.leave(seat);
            self.call(site);
        }
    }

    /// Removes a queue that cannot dispatch at the moment from those that wait.
    pub(crate) fn withdraw(&mut self, queue: QueueKey, seat: &QueueSeat) {
        let Some(site) = seat.site else { return };
        if self.sites.get_mut(&site).is_some_and(|shared| shared.waiting.remove(&(seat.spent, queue))) {
            self.call(site);
        }
    }

    /// Returns a queue that may have room by now.
    pub(crate) fn called(&mut self) -> Option<QueueKey> {
        self.called.pop()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.sites.is_empty() && self.called.is_empty()
    }

    /// Calls the queues at a site that may have room, and forgets a site without any.
    fn call(&mut self, site: SiteKey) {
        let Some(shared) = self.sites.get_mut(&site) else { return };
        self.called.append(&mut shared.full);
        self.called.extend(shared.waiting.iter().take(shared.free()).map(|(_, queue)| *queue));
        if shared.taken == 0 && shared.waiting.is_empty() {
            self.sites.remove(&site);
        }
    }
}
