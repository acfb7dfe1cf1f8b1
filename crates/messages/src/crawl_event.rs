//! `crawl.events`: the progress of crawls. The record key is the crawl.

use orbweaver_url::CrawlName;
use serde::{Deserialize, Serialize};

use crate::{Millis, is_default};

/// Kind of event of a crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrawlEventKind {
    /// The crawl is defined.
    Created,
    /// Paused: no request is sent for the crawl.
    Paused,
    /// No longer paused.
    Resumed,
    /// Proven to have reached one of its caps: nothing is in flight, and the URLs that are left stay queued.
    Capped,
    /// All its URLs are proven to sleep until their next visit.
    RoundComplete,
    /// Proven complete: nothing of the crawl is left to be done.
    Complete,
    /// URLs are left to be fetched again, after the crawl was complete or capped.
    Reopened,
    /// Stopped for good: the queued URLs of the crawl end.
    Stopped,
    /// The crawl is deleted.
    Deleted,
}

/// Event of a crawl, with its state and counts after it: value of `crawl.events`. A crash may repeat an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrawlEvent {
    pub crawl: CrawlName,
    pub kind: CrawlEventKind,
    /// Version of the definition that applied.
    pub version: u64,
    /// Time at which the event was found, in milliseconds since the Unix epoch.
    pub at_ms: Millis,
    /// Whether the crawl is paused.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
    /// Whether it has been stopped.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stopped: bool,
    /// Whether it has been complete, or at its cap, since it was last reopened; with revisits, whether a round has.
    #[serde(default, skip_serializing_if = "is_default")]
    pub complete: bool,
    /// Fetched pages. Exact with the kinds that are proven, otherwise as of the frontiers' last records, up to 30 s old; so are
    /// the other counts.
    pub pages: u64,
    /// Decoded bytes of the bodies of pages and revisits.
    pub bytes: u64,
    /// URLs in the frontier, those in flight included, without those that sleep until their next visit.
    pub queued: u64,
    /// URLs that sleep until their next visit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub asleep: u64,
    /// Dispatches without an outcome.
    pub in_flight: u64,
}
