//! Rows of the store.

use std::ops::ControlFlow;

use orbweaver_messages::Millis;
use orbweaver_url::{CrawlName, Fingerprint, SiteName};
use serde::{Deserialize, Serialize};

/// Page as of its last fetch. The newest event time wins, regardless of the order of writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRow {
    /// Fingerprint of crawl and canonical form.
    pub fingerprint: Fingerprint,
    /// Canonical form.
    pub key: String,
    /// URL that was requested.
    pub url: String,
    pub site: SiteName,
    /// Event time.
    pub fetched_at_ms: Millis,
    /// HTTP status; absent without a response.
    pub status: Option<u16>,
    /// Kind of the outcome.
    pub outcome: String,
    /// Reason of the outcome.
    pub reason: Option<String>,
    /// Content type, as given by the server.
    pub content_type: Option<String>,
    /// `ETag` validator for a later visit.
    pub etag: Option<String>,
    /// `Last-Modified` validator for a later visit.
    pub last_modified: Option<String>,
    /// Size of the decoded body, in bytes.
    pub bytes: u64,
    /// xxh3-128 of the decoded body.
    pub content_hash: Option<String>,
    /// Link depth from the seed.
    pub depth: u16,
    /// Page that led here.
    pub via: Option<String>,
}

impl PageRow {
    /// Returns the event that this fetch adds to the history.
    #[must_use]
    pub fn event(&self) -> FetchEvent {
        FetchEvent {
            at_ms: self.fetched_at_ms,
            status: self.status,
            outcome: self.outcome.clone(),
            reason: self.reason.clone(),
            bytes: self.bytes,
            content_hash: self.content_hash.clone(),
        }
    }
}

/// One fetch in the history of a page. A write with the same event time replaces it, so that replays are harmless.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchEvent {
    /// Event time.
    pub at_ms: Millis,
    /// HTTP status.
    pub status: Option<u16>,
    /// Kind of the outcome.
    pub outcome: String,
    /// Reason of the outcome.
    pub reason: Option<String>,
    /// Size of the decoded body, in bytes.
    pub bytes: u64,
    /// xxh3-128 of the decoded body.
    pub content_hash: Option<String>,
}

/// Entry of the list of the pages of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SitePage {
    pub fingerprint: Fingerprint,
    /// HTTP status of the last fetch; absent without a response.
    pub status: Option<u16>,
}

/// Links of a page, as one value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinksOut {
    /// Page.
    pub fingerprint: Fingerprint,
    /// Event time: when the page was fetched.
    pub at_ms: Millis,
    /// Targets, absolute, without fragment, each with whether it is nofollow.
    pub links: Vec<(String, bool)>,
    /// Canonical URL that the page declares.
    pub canonical: Option<DeclaredCanonical>,
}

/// URL of a `link` element with `rel=canonical`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeclaredCanonical {
    /// URL of the page.
    Own,
    /// Another URL, absolute.
    Other(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedirectRow {
    /// Fingerprint of the source.
    pub fingerprint: Fingerprint,
    /// Source, as requested.
    pub from: String,
    /// Target, absolute.
    pub to: String,
    /// HTTP status.
    pub status: u16,
    /// Event time.
    pub at_ms: Millis,
}

/// A robots.txt, as an authority served it to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RobotsRow {
    /// `scheme://host[:port]`, a space and the product token of the agent.
    pub authority: String,
    /// Fetch time.
    pub fetched_at_ms: Millis,
    /// HTTP status; absent without a response.
    pub status: Option<u16>,
    /// Text, bounded; empty if there was none.
    pub body: String,
    /// Time from which it has to be fetched again.
    pub expires_ms: Millis,
}

/// Location of the record of a response in the archive. A file that is still open has its name once it is closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureRow {
    /// Fingerprint of crawl and canonical form.
    pub fingerprint: Fingerprint,
    /// Event time of the fetch, as in its history.
    pub at_ms: Millis,
    /// Owner epoch under which the file was written. Of the rows of a fetch that of the highest epoch counts: files of
    /// earlier owners may have been discarded.
    pub epoch: u64,
    /// Path within the archive.
    pub file: String,
    /// Offset of the gzip member of the record in the file, in bytes.
    pub offset: u64,
    /// Length of the gzip member, in bytes.
    pub length: u64,
    /// HTTP status.
    pub status: u16,
    /// Whether the record is a revisit, which has no content.
    pub is_revisit: bool,
    /// xxh3-128 of the content, if the record has all of it.
    pub content_hash: Option<String>,
}

impl CaptureRow {
    /// Returns the row of its content, if the record has all of it.
    #[must_use]
    pub fn content(&self) -> Option<ContentRow> {
        let content_hash = self.content_hash.clone()?;
        Some(ContentRow { content_hash, fingerprint: self.fingerprint, at_ms: self.at_ms })
    }
}

/// Adds a capture to those of a page, which are newest first and, of a fetch, from the highest epoch on; breaks once there
/// are `limit` captures, one per fetch.
pub(crate) fn add_capture(captures: &mut Vec<CaptureRow>, row: CaptureRow, limit: usize) -> ControlFlow<()> {
    if captures.last().is_some_and(|newer| newer.at_ms == row.at_ms) {
        return ControlFlow::Continue(());
    }
    if captures.len() >= limit {
        return ControlFlow::Break(());
    }
    captures.push(row);
    ControlFlow::Continue(())
}

/// The latest archived fetch with a content. Its page may have been deleted since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentRow {
    /// xxh3-128 of the content.
    pub content_hash: String,
    pub fingerprint: Fingerprint,
    /// Event time of the fetch.
    pub at_ms: Millis,
}

/// Returns the time of an event that is written now, after an earlier write at `previous_ms` (0: none is known). It is
/// later than that write even if its clock was ahead (docs/protocol.md#event-times).
#[must_use]
pub fn event_time(now: Millis, previous_ms: Millis) -> Millis {
    if previous_ms == 0 { now } else { now.max(previous_ms.saturating_add(1)) }
}

/// Write. All carry their event time; an older one never overwrites a newer one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Page, one event of its history, and its entry in the list of the pages of its site.
    Page {
        /// Crawl of the page, which the row does not name.
        crawl: CrawlName,
        row: Box<PageRow>,
    },
    /// Links of a page.
    Links(LinksOut),
    Redirect(RedirectRow),
    /// Contents of a robots.txt.
    Robots(RobotsRow),
    /// Location of an archived response, and the row of its content.
    Capture(CaptureRow),
}
