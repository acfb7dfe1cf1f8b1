//! `crawl.discovered`: links found on one page that lead to one site.

use serde::{Deserialize, Serialize};

use crate::{Millis, Trail};

/// How a URL came to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sighting {
    /// A user asked for it, or a seed redirected to it.
    Seed,
    /// A page links to it.
    Link,
    /// Another URL redirected to it.
    Redirect,
}

/// URLs of one site that were found in one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discovered {
    /// The crawl that found them.
    pub crawl: String,
    /// The site of all of `urls`; computed once, here.
    pub site: String,
    /// The page that linked or redirected; absent for seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Links followed from the seed to `urls`; a redirect keeps the depth of its source.
    pub depth: u16,
    /// How they were found.
    pub sighting: Sighting,
    /// For a redirect: the URLs passed on the way, oldest first, as requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<String>,
    /// The patterns of the pages that lead here.
    #[serde(default, skip_serializing_if = "Trail::is_empty")]
    pub trail: Trail,
    /// A hash of what the page that led here says; where it has a text, and its crawl looks for traps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<u32>,
    /// Absolute URLs as found, without fragment.
    pub urls: Vec<String>,
    /// When they were found, in milliseconds since the Unix epoch.
    pub found_at_ms: Millis,
}
