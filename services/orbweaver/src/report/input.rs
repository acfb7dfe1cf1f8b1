//! Lines of the results of a crawl, as far as a report needs them.

use std::borrow::Cow;

use orbweaver_messages::OutcomeKind;
use serde::Deserialize;

/// Line of `urls.jsonl`, as far as a report needs it.
#[derive(Debug, Deserialize)]
pub(super) struct UrlLine<'a> {
    /// Canonical URL.
    #[serde(borrow)]
    pub(super) url: Cow<'a, str>,
    pub(super) outcome: OutcomeKind,
    #[serde(default, borrow)]
    pub(super) reason: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) status: Option<u16>,
    #[serde(default)]
    pub(super) bytes: u64,
    #[serde(default)]
    pub(super) external: bool,
    #[serde(default)]
    pub(super) fetch_ms: Option<u64>,
    #[serde(default, borrow)]
    pub(super) via: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) location: Option<Cow<'a, str>>,
}

/// Line of `documents.jsonl`, as far as a report needs it.
#[derive(Debug, Deserialize)]
pub(super) struct DocumentLine<'a> {
    /// Canonical URL.
    #[serde(borrow)]
    pub(super) url: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) fetched_url: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) redirects: Vec<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) site: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) title: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) links: Vec<LinkOnPage<'a>>,
    #[serde(default)]
    pub(super) links_total: Option<u64>,
    #[serde(default)]
    pub(super) visit: u32,
}

/// Link in `documents.jsonl`.
#[derive(Debug, Deserialize)]
pub(super) struct LinkOnPage<'a> {
    #[serde(borrow)]
    pub(super) url: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) text: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) rel: Cow<'a, str>,
}
