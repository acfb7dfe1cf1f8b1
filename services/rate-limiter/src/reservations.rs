//! Scheduled times of a site that are kept for crawls whose dispatches were deferred. Pure.
//!
//! While the planned times of a site reach to the horizon, the next dispatch gets the next time, and a crawl whose
//! dispatches come a moment too late is deferred again and again. So a deferred crawl gets the time for which it was deferred,
//! once it dispatches again: crawls that are always deferred have turns.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use orbweaver_messages::Millis;

/// Time for which a site counts as shared after a dispatch of another crawl than the last one, and for which a time is kept
/// before and after it, in milliseconds.
const SHARED_FOR_MS: Millis = 60_000;

/// Time that is kept for a crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reservation {
    crawl: u64,
    pub(crate) at_ms: Millis,
    /// Interval of the crawl, in milliseconds; 0: none.
    pub(crate) own_ms: u64,
}

/// Reservations at one site: at most one for each crawl.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    /// Crawl of the last dispatch; 0: none.
    last: u64,
    /// Until then, dispatches of more than one crawl are expected.
    shared_until_ms: Millis,
    /// By time.
    kept: Vec<Reservation>,
}

/// Returns a hash of the name, which is shorter. Two crawls with the same hash share their kept times.
fn key(crawl: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(crawl)
}

impl Reservations {
    /// Notes a dispatch of a crawl. Returns the time that was kept for it, which may have passed.
    pub(crate) fn take(&mut self, crawl: &str, now: Millis) -> Option<Millis> {
        let key = key(crawl);
        let last = std::mem::replace(&mut self.last, key);
        if last != key && last != 0 {
            self.shared_until_ms = now.saturating_add(SHARED_FOR_MS);
        }
        // A time that is too far ahead comes from before a step of the clock.
        self.kept.retain(|kept| kept.at_ms.saturating_sub(now).saturating_abs() < SHARED_FOR_MS);
        let index = self.kept.iter().position(|kept| kept.crawl == key)?;
        Some(self.kept.remove(index).at_ms)
    }

    /// Keeps a time for a deferred crawl with this interval, if another crawl could take it.
    pub(crate) fn keep(&mut self, crawl: &str, (at_ms, own_ms): (Millis, u64), now: Millis) {
        if now < self.shared_until_ms {
            let index = self.kept.partition_point(|kept| kept.at_ms <= at_ms);
            self.kept.insert(index, Reservation { crawl: key(crawl), at_ms, own_ms });
        }
    }

    /// Makes room for a request of a crawl with this interval: moves the times that are kept too close to it, or follow those.
    /// `spacing_ms` returns the time that must pass between two requests, by the intervals of their crawls.
    pub(crate) fn make_room(&mut self, moment_ms: Millis, own_ms: u64, spacing_ms: impl Fn(u64, u64) -> Millis) {
        let mut last = (moment_ms, own_ms);
        for kept in &mut self.kept {
            let own_spacing_ms = spacing_ms(own_ms, kept.own_ms);
            if kept.at_ms.saturating_add(own_spacing_ms) > moment_ms {
                let after_last_ms = last.0.saturating_add(spacing_ms(last.1, kept.own_ms));
                // The time in between may not be used.
                let after_own_ms = moment_ms.saturating_add(own_spacing_ms);
                kept.at_ms = kept.at_ms.max(after_last_ms).max(after_own_ms);
                last = (kept.at_ms, kept.own_ms);
            }
        }
    }

    /// Returns the times that are kept, in order.
    pub(crate) fn kept(&self) -> &[Reservation] {
        &self.kept
    }
}
