//! `crawl.seeds`: URLs that users want crawled.

use orbweaver_url::CrawlName;
use serde::{Deserialize, Serialize};

/// Seed: one JSON object, or one bare URL as text (a bare host means https).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seed {
    /// URL as given by the user.
    pub url: String,
    /// Crawl of the seed; absent: the default crawl.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crawl: Option<CrawlName>,
}
