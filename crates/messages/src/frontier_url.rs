//! `crawl.frontier`: queued URLs. The record key is the fingerprint; a tombstone ends the URL.

use orbweaver_url::{Fingerprint, Policy};
use serde::{Deserialize, Serialize};

use crate::{DiscoveryKind, Millis, Trail, Traps, is_default};

/// Queued URL: admitted, and without a final outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrontierUrl {
    pub crawl: String,
    /// Fingerprint of crawl and canonical form; also the record key.
    pub fingerprint: Fingerprint,
    /// URL as found: the one that is requested.
    pub url: String,
    /// Canonical form, if it differs from `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Policy of the canonical form; absent: `standard/1`. Redirect targets are compared under it.
    #[serde(default, skip_serializing_if = "Policy::is_standard")]
    pub policy: Policy,
    /// Site, computed at admission.
    pub site: String,
    /// Link depth from the seed.
    pub depth: u16,
    /// Way in which the URL was discovered.
    pub sighting: DiscoveryKind,
    /// Page that led here; absent for seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// URLs that redirected here, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<String>,
    /// Trap handling of the crawl.
    #[serde(default, skip_serializing_if = "is_default")]
    pub traps: Traps,
    /// Patterns of the pages that lead here.
    #[serde(default, skip_serializing_if = "Trail::is_empty")]
    pub trail: Trail,
    /// Content hash of the page that led here, for trap detection; absent if that page has no text, or if the crawl
    /// does not detect traps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<u32>,
    /// Failed attempts so far.
    #[serde(default)]
    pub failures: u8,
    /// Attempts so far that got a 429 or 503 response.
    #[serde(default)]
    pub blocks: u8,
    /// Dispatches lost in a row so far (docs/adr/0022-what-costs-an-attempt.md).
    #[serde(default, skip_serializing_if = "is_default")]
    pub lost: u8,
    /// Earliest time of the next request, in milliseconds since the Unix epoch; 0: immediately.
    #[serde(default)]
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
}

impl FrontierUrl {
    /// Returns the canonical form.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.url)
    }
}
