//! `crawl.seeds`: a URL that a user wants crawled.

use serde::{Deserialize, Serialize};

/// A seed: one JSON object, or one bare URL as text (a bare host means https).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seed {
    /// The URL as the user gave it.
    pub url: String,
    /// The crawl that it belongs to; the default crawl when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crawl: Option<String>,
}
