//! `crawl.frontier`: queued URLs. The record key is the fingerprint; a tombstone ends the URL.

use serde::{Deserialize, Serialize};

use crate::{Millis, Traps, UrlContext, Visits, is_default};

/// Queued URL: admitted, and without a final outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrontierUrl {
    /// The URL. Its fingerprint is also the record key.
    pub context: UrlContext,
    /// Trap handling of the crawl.
    #[serde(default, skip_serializing_if = "is_default")]
    pub traps: Traps,
    /// Position in the order of its site, the lowest first: the weight that was determined at the admission. Absent: by
    /// depth alone, breadth first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Content hash of the page that led here, for trap detection; absent if that page has no text, or if the crawl
    /// does not detect traps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<u32>,
    /// Failed attempts so far.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failures: u8,
    /// Attempts so far that got a 429 or 503 response.
    #[serde(default, skip_serializing_if = "is_default")]
    pub blocks: u8,
    /// Dispatches lost in a row so far (docs/adr/0022-what-costs-an-attempt.md).
    #[serde(default, skip_serializing_if = "is_default")]
    pub lost: u8,
    /// Earliest time of the next request, in milliseconds since the Unix epoch; 0: immediately.
    #[serde(default, skip_serializing_if = "is_default")]
    pub not_before_ms: Millis,
    /// Latest known event time of the URL's writes to the store (docs/protocol.md#event-times), in milliseconds since
    /// the Unix epoch; 0: none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub written_at_ms: Millis,
    /// Admission time, in milliseconds since the Unix epoch.
    pub admitted_at_ms: Millis,
    /// Version of the crawl definition under which the URL was admitted: the offset of that record.
    #[serde(default, skip_serializing_if = "is_default")]
    pub definition: u64,
    /// Ended visits, in a crawl with revisits: the URL sleeps until `not_before_ms`, or is being visited again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visits: Option<Box<Visits>>,
}

impl FrontierUrl {
    /// Returns the record of a URL admitted now, without attempts, trap handling and definition.
    #[must_use]
    pub fn admitted(context: UrlContext, now: Millis) -> Self {
        Self {
            context,
            traps: Traps::default(),
            rank: None,
            content: None,
            failures: 0,
            blocks: 0,
            lost: 0,
            not_before_ms: 0,
            written_at_ms: 0,
            admitted_at_ms: now,
            definition: 0,
            visits: None,
        }
    }
}
