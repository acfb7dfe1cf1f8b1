//! `crawl.discovered`: links from one page to one site.

use orbweaver_url::{CrawlName, SiteName};
use serde::{Deserialize, Serialize};

use crate::{Millis, Priority, SeedMetadata, Trail, is_default};

/// Way in which a URL was discovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiscoveryKind {
    /// A user requested it, or a seed redirected to it.
    Seed,
    /// A page links to it.
    Link,
    /// Another URL redirected to it.
    Redirect,
    /// A user requested it again, or a URL that a user requested again redirected to it.
    Recrawl,
    /// A robots.txt, a sitemap index or a page names it as a sitemap or feed.
    Sitemap,
    /// A page needs it to be shown: a picture, style sheet, script or font, or a page within it.
    Requisite,
    /// A page of the crawl links to it, or redirects there, and it is out of scope: only whether it exists is checked.
    External,
    /// A sitemap or feed that was read before lists it as modified since.
    Update,
}

impl DiscoveryKind {
    /// Returns `true` if the URL may be a page of the crawl: it is neither a requisite nor external.
    #[must_use]
    pub fn is_page(self) -> bool {
        !matches!(self, Self::Requisite | Self::External)
    }
}

/// Depth of the requisites of a page. Those of a requisite are one deeper, below [`EXTERNAL_DEPTH`]. All links have a
/// lesser one, so that a requisite that is linked too is discovered again as nearer, and becomes a page.
pub const REQUISITE_DEPTH: u16 = EXTERNAL_DEPTH - 3;
/// Depth of external URLs, the greatest: one that a page needs or that comes into scope is discovered again as nearer.
pub const EXTERNAL_DEPTH: u16 = u16::MAX;

/// Returns the depth of the requisites of a page, or of a requisite, at `depth`; `None` if they are too deep.
#[must_use]
pub fn depth_of_requisites(depth: u16) -> Option<u16> {
    let depth = depth.max(REQUISITE_DEPTH - 1).saturating_add(1);
    (depth < EXTERNAL_DEPTH).then_some(depth)
}

/// URLs of one site, discovered in one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discovered {
    /// Crawl that discovered them.
    pub crawl: CrawlName,
    /// Site of all `urls`; computed once, here.
    pub site: SiteName,
    /// Page, robots.txt or sitemap that linked or redirected; absent for seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Link depth of `urls` from the seed, or that of requisites ([`REQUISITE_DEPTH`]) and external URLs
    /// ([`EXTERNAL_DEPTH`]); a redirect keeps the depth of its source.
    pub depth: u16,
    /// Way in which they were discovered.
    pub sighting: DiscoveryKind,
    /// Redirects only: the URLs passed on the way, oldest first, as requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<String>,
    /// Patterns of the pages that lead here.
    #[serde(default, skip_serializing_if = "Trail::is_empty")]
    pub trail: Trail,
    /// Content hash of the page that led here, for trap detection; absent if that page has no text, or if the crawl
    /// does not detect traps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<u32>,
    /// Priority of the seed that led here.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: Priority,
    /// Metadata of the seed that these URLs are, or that redirected to them.
    #[serde(default, skip_serializing_if = "SeedMetadata::is_empty")]
    pub metadata: SeedMetadata,
    /// Absolute URLs as found, without fragment.
    pub urls: Vec<String>,
    /// Modification times of `urls` in the sitemap or feed that lists them, in the same order, in milliseconds since the
    /// Unix epoch; 0: none. May be shorter than `urls`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modified_ms: Vec<Millis>,
    /// Discovery time, in milliseconds since the Unix epoch.
    pub found_at_ms: Millis,
}
