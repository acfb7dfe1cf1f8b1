//! Records of crawls that are not defined yet.

use orbweaver_log::{Delivered, Partition};
use orbweaver_messages::Millis;
use orbweaver_stage::Origin;

/// A record whose crawl is not defined. Its definition may be on its way: it is written before the record, but to another
/// log. So the record waits a little before it is turned down.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) origin: Origin,
    pub(crate) record: Delivered,
    pub(crate) until: Millis,
}

/// All records that wait so, oldest first. Bounded by the budget, to which they are charged.
#[derive(Debug, Default)]
pub(crate) struct HeldRecords(Vec<Held>);

impl HeldRecords {
    pub(crate) fn push(&mut self, origin: Origin, record: Delivered, until: Millis) {
        self.0.push(Held { origin, record, until });
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// When the first has waited long enough.
    pub(crate) fn next(&self) -> Option<Millis> {
        self.0.iter().map(|held| held.until).min()
    }

    /// All of them, to be looked at again.
    pub(crate) fn take(&mut self) -> Vec<Held> {
        std::mem::take(&mut self.0)
    }

    pub(crate) fn forget(&mut self, partition: Partition) {
        self.0.retain(|held| held.origin.place.partition != partition);
    }
}
