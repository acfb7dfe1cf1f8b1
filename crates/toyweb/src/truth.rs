//! Ground truth of a generated web: every URL that a crawl from page 0 may find, with its expected result.

use serde::{Deserialize, Serialize};

use crate::special::{Kind, places};
use crate::web::Web;

/// Result for a URL in a crawl that obeys robots.txt and nofollow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// A document.
    Fetched,
    /// Redirects; the target has its own result.
    Redirected,
    /// Redirects in a loop or too often; no document.
    Circling,
    /// Disallowed by robots.txt; never requested.
    RefusedByRobots,
    /// Answered, but not HTML; no document.
    NotHtml,
    /// Unavailable.
    Gone,
    /// The body is cut off: a truncated document, or gone.
    Cut,
    /// Linked only by nofollow links: never requested unless those are followed, then a document.
    BehindNofollow,
    /// On a host outside of the web: a document if the crawl's scope includes it.
    OutOfScope,
    /// Not linked if links are resolved correctly and redirect chains are limited; never requested.
    Unreached,
}

/// Expected result for one URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    pub url: String,
    pub fate: Fate,
    /// Minimum number of requests in an undisturbed crawl, including redirects to another spelling of the URL.
    pub least: u32,
    /// Maximum number of requests in an undisturbed crawl.
    pub most: u32,
    /// Kind of the special place of the URL; absent for an ordinary page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
}

/// Returns every URL of a web, in arbitrary order, without holding them in memory.
pub fn truth(web: &Web) -> impl Iterator<Item = Expected> + '_ {
    let pages = (0..web.config.pages).map(|page| Expected {
        url: web.page_url(page),
        fate: Fate::Fetched,
        least: 1,
        most: 1,
        kind: None,
    });
    pages.chain(places(web).flat_map(|place| place.expected()))
}
