//! `crawl.outcomes`: how a dispatch ended.

use orbweaver_url::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::{DispatchId, Millis};

/// The closed set of ends of a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// Answered 200 with HTML or XHTML; the page is in `crawl.pages`. Terminal.
    Fetched,
    /// Answered that nothing changed. Terminal.
    Unchanged,
    /// Answered with a redirect; its target went to `crawl.discovered`. Terminal.
    Redirected,
    /// We do not want it: robots.txt, a private address, another content type, a trap. Terminal.
    Refused,
    /// The site asked to be left alone (429, 503) until `blocked_until_ms`.
    Blocked,
    /// A passing failure; to be tried again at `retry_at_ms`.
    Retry,
    /// Not asked; to be dispatched again from `retry_at_ms` on. No attempt was used.
    Deferred,
    /// It cannot be had: an error answer, or the attempts are used up. Terminal.
    Gone,
}

impl OutcomeKind {
    /// Whether the URL has ended.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Fetched | Self::Unchanged | Self::Redirected | Self::Refused | Self::Gone)
    }
}

/// How a dispatch ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The dispatch that ended.
    pub id: DispatchId,
    /// The crawl that it belongs to.
    pub crawl: String,
    /// Fingerprint of crawl and canonical form.
    pub fingerprint: Fingerprint,
    /// What was requested.
    pub url: String,
    /// The canonical form, where it differs from `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The site.
    pub site: String,
    /// Links followed from the seed.
    pub depth: u16,
    /// The page that led here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// The number of the attempt, from 1.
    pub attempt: u8,
    /// How it ended.
    pub kind: OutcomeKind,
    /// Why, as a short stable word (`robots`, `http_404`, `dns`, `connect`, `timeout`, `content_type`, `trap`, ...);
    /// absent when fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The HTTP status, where there was an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The content type, as the server gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Decoded bytes of the body that were read.
    #[serde(default)]
    pub bytes: u64,
    /// Where it redirected to, as an absolute URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// When it was dispatched.
    pub dispatched_at_ms: Millis,
    /// When the request was sent; absent when none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_at_ms: Option<Millis>,
    /// When the first byte of the answer came (or the attempt failed): the site's clock runs from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at_ms: Option<Millis>,
    /// When the attempt ended; the event's time.
    pub ended_at_ms: Millis,
    /// When it may be tried again (retry, deferred).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at_ms: Option<Millis>,
    /// Until when the site asked to be left alone (blocked). Counted from the outcome's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_until_ms: Option<Millis>,
    /// The site's crawl-delay from robots.txt, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crawl_delay_ms: Option<u64>,
}

impl Outcome {
    /// The canonical form.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.url)
    }
}
