//! `crawl.sites`: the politeness state of a site. The record key is the site. `crawl.site-pages`: the number of its pages in a
//! crawl.

use orbweaver_url::{CrawlName, SiteName};
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

/// Number of pages of a site in a crawl with a page cap per site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SitePages {
    pub crawl: CrawlName,
    pub site: SiteName,
    /// Owner epoch of the writer: the offset of its claim on the partition.
    pub epoch: u64,
    /// Pages fetched by the first visit to their URLs, since the crawl has the cap.
    pub pages: u64,
    /// Offset in this partition of `crawl.outcomes` below which outcomes are counted.
    pub upto: u64,
}
