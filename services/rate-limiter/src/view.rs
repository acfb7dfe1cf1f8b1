//! Figures for progress displays.

use std::sync::{Mutex, PoisonError};

use orbweaver_messages::Millis;

/// Maximum number of names shown, and the number of sites per partition from which they are chosen.
pub(crate) const SHOWN: usize = 5;

/// Currently blocked sites.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockedSites {
    /// Number of blocked sites.
    pub count: u64,
    /// End of the block that ends first, in milliseconds since the Unix epoch.
    pub soonest_ms: Option<Millis>,
    /// Names of up to five blocked sites, earliest end first.
    pub names: Vec<String>,
}

/// Figures of the rate-limiter, updated about once per second. Reading them does not slow the rate-limiter down.
#[derive(Debug, Default)]
pub struct SiteView(Mutex<BlockedSites>);

impl SiteView {
    #[must_use]
    pub fn blocked(&self) -> BlockedSites {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the number of blocked sites per partition, and the first of them with the end of their block, earliest
    /// first. Returns the number of all blocked sites.
    pub(crate) fn set<'a>(&self, partitions: impl Iterator<Item = (usize, Vec<(Millis, &'a str)>)>) -> u64 {
        let mut count = 0;
        let mut soonest = vec![];
        for (blocked, first) in partitions {
            count += blocked as u64;
            soonest.extend(first);
        }
        soonest.sort_unstable();
        soonest.truncate(SHOWN);
        let soonest_ms = soonest.first().map(|(until, _)| *until);
        let names = soonest.into_iter().map(|(_, name)| name.to_owned()).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = BlockedSites { count, soonest_ms, names };
        count
    }
}
