//! `crawl.sites`: the politeness state of a site. The record key is the site.

use orbweaver_url::SiteName;
use serde::{Deserialize, Serialize};

use crate::Millis;

/// Politeness state of a site.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteState {
    pub site: SiteName,
    /// Owner epoch: the offset of the owner's claim.
    pub epoch: u64,
    /// End of the site's block; 0: not blocked.
    #[serde(default)]
    pub blocked_until_ms: Millis,
    /// Consecutive 429 or 503 responses.
    #[serde(default)]
    pub blocks: u32,
    /// Crawl delay of its robots.txt, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crawl_delay_ms: Option<u64>,
    /// Time of the event that this record reflects.
    pub updated_at_ms: Millis,
}
