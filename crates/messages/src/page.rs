//! `crawl.pages`: a fetched page. This JSON is the header `page`; the body is the record's value.

use orbweaver_url::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::{DiscoveryKind, Millis, Trail, Truncated};

/// Encoding of the body in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyEncoding {
    /// Unencoded.
    Identity,
    /// One zstd frame.
    Zstd,
}

/// Metadata of a fetched page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    pub crawl: String,
    /// Fingerprint of crawl and canonical form.
    pub fingerprint: Fingerprint,
    /// URL that was requested.
    pub url: String,
    /// Canonical form, if it differs from `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub site: String,
    /// Link depth from the seed.
    pub depth: u16,
    /// Way in which the URL was discovered.
    pub sighting: DiscoveryKind,
    /// Page that led here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// URLs that redirected here, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<String>,
    /// Patterns of the pages that lead here, and that of the page itself.
    #[serde(default, skip_serializing_if = "Trail::is_empty")]
    pub trail: Trail,
    /// HTTP status.
    pub status: u16,
    /// Content type, as given by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Response headers, names in lower case, bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// Time of the response, in milliseconds since the Unix epoch.
    pub fetched_at_ms: Millis,
    /// Event time in the store, if an earlier write of the URL was not before `fetched_at_ms`
    /// (docs/protocol.md#event-times).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_at_ms: Option<Millis>,
    pub encoding: BodyEncoding,
    /// Decoded size of the body as read, in bytes; the record has less if the body was cut to the record limit.
    pub body_bytes: u64,
    /// `body` if the body was cut, at the fetcher's limit or to the record limit.
    #[serde(default, skip_serializing_if = "Truncated::is_empty")]
    pub truncated: Truncated,
    /// xxh3-128 of the decoded bytes as read, in hexadecimal digits.
    pub content_hash: String,
    /// Number of the attempt that succeeded, from 1.
    pub attempt: u8,
}

impl Page {
    /// Returns the canonical form.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.url)
    }

    /// Returns the event time in the store.
    #[must_use]
    pub fn event_ms(&self) -> Millis {
        self.written_at_ms.unwrap_or(self.fetched_at_ms)
    }
}
