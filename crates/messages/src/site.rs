//! `crawl.sites`: a site's politeness memory. The record key is the site.

use serde::{Deserialize, Serialize};

use crate::Millis;

/// What is remembered of a site.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteMemory {
    /// The site.
    pub site: String,
    /// The owner's epoch: the offset of its claim.
    pub epoch: u64,
    /// Until when the site asked to be left alone; 0: not.
    #[serde(default)]
    pub blocked_until_ms: Millis,
    /// Answers of 429 or 503 in a row.
    #[serde(default)]
    pub blocks: u32,
    /// The crawl-delay of its robots.txt, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crawl_delay_ms: Option<u64>,
    /// The time of the event that this record tells of.
    pub updated_at_ms: Millis,
}
