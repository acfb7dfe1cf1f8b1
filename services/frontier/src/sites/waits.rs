//! Times for which sites are ready: they could be requested, but the dispatches in flight are at their limit.

use orbweaver_messages::Millis;

use super::SiteQueues;
use crate::index::{QueueKey, Rank};

/// URL to dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) site: QueueKey,
    pub(crate) rank: Rank,
    /// Time for which its site was ready, in milliseconds.
    pub(crate) ready_ms: Millis,
}

impl SiteQueues {
    /// Returns the time since which a site has been ready for longest, if any is. Reads all sites.
    pub(crate) fn ready_since_ms(&self) -> Option<Millis> {
        self.sites.values().filter(|site| site.is_ready).map(|site| site.ready_since_ms).min()
    }
}
