//! The values of the store.

use orbweaver_messages::Millis;
use orbweaver_url::Fingerprint;
use serde::{Deserialize, Serialize};

/// What is known of a page: its last fetch. The newest event time wins, whatever the order of the writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRow {
    /// Fingerprint of crawl and canonical form.
    pub fingerprint: Fingerprint,
    /// The canonical form.
    pub key: String,
    /// What was requested.
    pub url: String,
    /// The site.
    pub site: String,
    /// The event's time.
    pub fetched_at_ms: Millis,
    /// The HTTP status; absent when there was no answer.
    pub status: Option<u16>,
    /// How it ended, in the words of an outcome.
    pub outcome: String,
    /// Why, in the words of an outcome.
    pub reason: Option<String>,
    /// The content type, as the server gave it.
    pub content_type: Option<String>,
    /// The validator for a later visit.
    pub etag: Option<String>,
    /// The validator for a later visit.
    pub last_modified: Option<String>,
    /// Size of the decoded body.
    pub bytes: u64,
    /// xxh3-128 of the decoded body.
    pub content_hash: Option<String>,
    /// Links followed from the seed.
    pub depth: u16,
    /// The page that led here.
    pub via: Option<String>,
}

/// One fetch in the history of a page. A repetition of the same event time replaces, so that replays are harmless.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchEvent {
    /// The event's time.
    pub at_ms: Millis,
    /// The HTTP status.
    pub status: Option<u16>,
    /// How it ended.
    pub outcome: String,
    /// Why.
    pub reason: Option<String>,
    /// Size of the decoded body.
    pub bytes: u64,
    /// xxh3-128 of the decoded body.
    pub content_hash: Option<String>,
}

/// The links of a page, as one value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinksOut {
    /// The page.
    pub fingerprint: Fingerprint,
    /// The event's time: when the page was fetched.
    pub at_ms: Millis,
    /// Targets, absolute, without fragment, with whether they are nofollow.
    pub links: Vec<(String, bool)>,
}

/// A redirect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedirectRow {
    /// Fingerprint of the source.
    pub fingerprint: Fingerprint,
    /// The source, as requested.
    pub from: String,
    /// The target, absolute.
    pub to: String,
    /// The HTTP status.
    pub status: u16,
    /// The event's time.
    pub at_ms: Millis,
}

/// The robots.txt of an authority (scheme, host and port).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RobotsRow {
    /// `scheme://host[:port]`.
    pub authority: String,
    /// When it was fetched.
    pub fetched_at_ms: Millis,
    /// The HTTP status; absent when there was no answer.
    pub status: Option<u16>,
    /// Its text, bounded; empty when there was none.
    pub body: String,
    /// When it is to be fetched anew.
    pub expires_ms: Millis,
}

/// The time of an event that is written now, after an earlier write at `previous_ms` (0: none is known): a clock that was ahead
/// then must not make this one lose (rule 23).
#[must_use]
pub fn event_time(now: Millis, previous_ms: Millis) -> Millis {
    if previous_ms == 0 { now } else { now.max(previous_ms.saturating_add(1)) }
}

/// A write. All carry the event's own time; an older one never overwrites a newer one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// A page and one event of its history.
    Page(Box<PageRow>),
    /// The links of a page.
    Links(LinksOut),
    /// A redirect.
    Redirect(RedirectRow),
    /// A robots.txt.
    Robots(RobotsRow),
}
