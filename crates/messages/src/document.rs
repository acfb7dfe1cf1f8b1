//! `crawl.documents`: what was extracted from a page; also one line of `documents.jsonl`.

use orbweaver_url::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::Truncated;

/// The header of a document's record that holds its fingerprint, as text, so that who looks for some need not parse all.
pub const FINGERPRINT_HEADER: &str = "fingerprint";
/// The header of a document's record that holds the name of its crawl.
pub const CRAWL_HEADER: &str = "crawl";

/// A link on a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentLink {
    /// The target, absolute, without fragment.
    pub url: String,
    /// The text of the link, white space folded.
    pub text: String,
    /// The tokens of `rel`, as written; empty when there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rel: String,
}

/// What a page asks of robots (meta robots and X-Robots-Tag).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RobotsDirectives {
    /// Not to be shown in an index.
    #[serde(default)]
    pub noindex: bool,
    /// Its links are not to be followed.
    #[serde(default)]
    pub nofollow: bool,
}

/// What was extracted from a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// The canonical form of the URL.
    pub url: String,
    /// What was requested.
    pub fetched_url: String,
    /// The URLs that redirected here, oldest first.
    pub redirects: Vec<String>,
    /// The HTTP status.
    pub status: u16,
    /// The content type, as the server gave it.
    pub content_type: Option<String>,
    /// When the answer came, RFC 3339 in UTC.
    pub fetched_at: String,
    /// Links followed from the seed.
    pub depth: u16,
    /// The page's title, white space folded; empty when there is none.
    pub title: String,
    /// The page's text, white space folded.
    pub text: String,
    /// The links of the page, in order.
    pub links: Vec<DocumentLink>,
    /// The crawl that it belongs to.
    pub crawl: String,
    /// Fingerprint of crawl and canonical form.
    pub fingerprint: Fingerprint,
    /// The site.
    pub site: String,
    /// The page that led here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// What the page calls its own canonical URL, absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canonical: Option<String>,
    /// The page's language, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// The page's own description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The encoding that the body was read in.
    pub charset: String,
    /// What the page asks of robots.
    pub robots: RobotsDirectives,
    /// Decoded bytes of the body that were read.
    pub bytes: u64,
    /// The parts that were cut at a limit.
    #[serde(default, skip_serializing_if = "Truncated::is_empty")]
    pub truncated: Truncated,
    /// The number of links on the page, where `links` has fewer. All of them were sent to `crawl.discovered`, up to the
    /// extractor's limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links_total: Option<u64>,
    /// Bytes of the whole text, where `text` has fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_bytes: Option<u64>,
    /// xxh3-128 of the decoded bytes that were read, as hexadecimal digits.
    pub content_hash: String,
    /// The decoded body, when it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
}
