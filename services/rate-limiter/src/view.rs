//! What a progress display may look at.

use std::sync::{Mutex, PoisonError};

use orbweaver_messages::Millis;

/// Names shown at most.
const SHOWN: usize = 5;

/// The sites that asked to be left alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockedSites {
    /// How many they are.
    pub count: u64,
    /// When the first of them may be asked again, in milliseconds since the Unix epoch.
    pub soonest_ms: Option<Millis>,
    /// Up to five of them, the soonest first.
    pub names: Vec<String>,
}

/// Figures of the rate-limiter, updated about once a second. Reading them costs the rate-limiter nothing.
#[derive(Debug, Default)]
pub struct SiteView(Mutex<BlockedSites>);

impl SiteView {
    /// The sites that asked to be left alone.
    #[must_use]
    pub fn blocked(&self) -> BlockedSites {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes all blocked sites with the end of their block, the soonest first within each partition.
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

    /// How many of each partition are of use to [`Self::set`].
    pub(crate) const fn shown() -> usize {
        SHOWN
    }
}
