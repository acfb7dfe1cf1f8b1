//! Seats of site queues at their sites.

use orbweaver_messages::Millis;

use super::SiteQueues;
use crate::{
    index::{IndexEntry, QueueKey},
    site_slots::SiteKey,
};

impl SiteQueues {
    /// Notes the site of a queue, from which `next` has returned the URL of this entry. Returns `false` if other queues of the
    /// site leave it no room: the URL returns to its rank.
    pub(crate) fn join(&mut self, entry: &IndexEntry, key: SiteKey, now: Millis) -> bool {
        let others = self.others_in_flight(entry.site);
        let share = self.terms.of(entry.crawl).share;
        let Some(site) = self.sites.get_mut(&entry.site).filter(|site| !site.seat.is_known()) else { return true };
        let slots = site.slots(&self.terms).all;
        self.slots.set_site(&mut site.seat, (key, share), u32::try_from(others).unwrap_or(u32::MAX));
        let has_room = self.slots.add(entry.site, &mut site.seat, (share, slots));
        if !has_room {
            site.cancel(entry);
            self.shares.remove(entry.crawl);
            self.enqueue(entry.site, entry.rank(), now);
        }
        has_room
    }

    /// Pauses a queue whose dispatch was deferred until this time; it keeps its seat at its site.
    pub(crate) fn defer(&mut self, entry: &IndexEntry, until_ms: Millis) {
        self.pause(entry.site, until_ms);
        let share = self.terms.of(entry.crawl).share;
        if let Some(site) = self.sites.get_mut(&entry.site) {
            site.window.close();
            self.slots.keep(entry.site, &mut site.seat, (share, site.resume_at_ms));
        }
    }

    /// Takes the seat of a queue at its site if it can dispatch nothing.
    pub(super) fn settle(&mut self, id: QueueKey, now: Millis) {
        if let Some(site) = self.sites.get_mut(&id)
            && !site.is_ready
        {
            self.slots.settle(&mut site.seat, now);
            self.slots.withdraw(id, &site.seat);
        }
    }

    /// Makes queues ready that may have room at their sites by now.
    pub(super) fn call(&mut self, now: Millis) {
        while let Some(id) = self.slots.called() {
            self.make_ready(id, now);
            self.settle(id, now);
        }
    }
}
