//! What is true of a generated web: every URL that a crawl from page 0 may meet, and how it ends.

use serde::{Deserialize, Serialize};

use crate::special::{Kind, places};
use crate::web::Web;

/// How a URL ends in a crawl that obeys robots.txt and nofollow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// A document.
    Fetched,
    /// It redirects, and its target ends as the target ends.
    Redirected,
    /// It redirects in a circle or for too long: it ends without a document.
    Circling,
    /// robots.txt refuses it: never requested.
    RefusedByRobots,
    /// Answered, and not HTML: no document.
    NotHtml,
    /// It cannot be had.
    Gone,
    /// Its body breaks off: a truncated document, or gone.
    Cut,
    /// Reached by nofollow links alone: never requested, unless those are followed, and then a document.
    BehindNofollow,
    /// On a host that is no part of the web: a document where the crawl's scope lets it in.
    OutOfScope,
    /// Nothing leads there, if links are resolved rightly and chains are cut: never requested.
    Unreached,
}

/// What is true of one URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// The URL.
    pub url: String,
    /// How it ends.
    pub fate: Fate,
    /// The fewest requests for it in an undisturbed crawl, redirects to another spelling of itself included.
    pub least: u32,
    /// The most requests for it in an undisturbed crawl.
    pub most: u32,
    /// The kind of special place that it belongs to; absent for an ordinary page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
}

/// Every URL of a web, in no order that matters, without holding them in memory.
pub fn truth(web: &Web) -> impl Iterator<Item = Expected> + '_ {
    let pages = (0..web.config().pages).map(|page| Expected {
        url: web.page_url(page),
        fate: Fate::Fetched,
        least: 1,
        most: 1,
        kind: None,
    });
    pages.chain(places(web).flat_map(|place| place.expected()))
}
