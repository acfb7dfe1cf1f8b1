//! `crawl.seeds`: URLs that users want crawled.

use orbweaver_url::CrawlName;
use serde::{Deserialize, Serialize};

use crate::{Priority, SeedMetadata, is_default};

/// Seed: one JSON object, or one bare URL as text (a bare host means https).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seed {
    /// URL as given by the user.
    pub url: String,
    /// Crawl of the seed; absent: the default crawl.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crawl: Option<CrawlName>,
    /// Link depth at which the crawl starts here: links of the page are one deeper.
    #[serde(default, skip_serializing_if = "is_default")]
    pub depth: u16,
    /// Priority of the seed and of all URLs that are found from there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: Priority,
    /// Whether the URL is fetched again if the crawl knows it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recrawl: bool,
    /// Metadata that the document of the seed carries.
    #[serde(default, skip_serializing_if = "SeedMetadata::is_empty")]
    pub metadata: SeedMetadata,
}

impl Seed {
    /// Returns a seed of the default crawl with nothing but its URL.
    #[must_use]
    pub fn of_url(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            crawl: None,
            depth: 0,
            priority: Priority::default(),
            recrawl: false,
            metadata: SeedMetadata::default(),
        }
    }
}
