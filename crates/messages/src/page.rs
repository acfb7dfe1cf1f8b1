//! `crawl.pages`: a fetched page. This JSON is the header `page`; the body is the record's value.

use orbweaver_url::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::{Millis, Sighting, Trail, Truncated};

/// How the body travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyEncoding {
    /// As it is.
    Identity,
    /// One zstd frame.
    Zstd,
}

/// What is known of a fetched page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
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
    /// How it was found.
    pub sighting: Sighting,
    /// The page that led here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// The URLs that redirected here, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<String>,
    /// The patterns of the pages that lead here, and its own.
    #[serde(default, skip_serializing_if = "Trail::is_empty")]
    pub trail: Trail,
    /// The HTTP status.
    pub status: u16,
    /// The content type, as the server gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The answer's headers, names in lower case, bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// When the answer came, in milliseconds since the Unix epoch.
    pub fetched_at_ms: Millis,
    /// The event's time in the store, where an earlier write of the URL was not before `fetched_at_ms` (rule 23).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_at_ms: Option<Millis>,
    /// How the body travels.
    pub encoding: BodyEncoding,
    /// Decoded bytes of the body that were read; the record has fewer of them when the body is cut to the record limit.
    pub body_bytes: u64,
    /// The body is cut: at the fetcher's limit, or to the record limit.
    #[serde(default, skip_serializing_if = "Truncated::is_empty")]
    pub truncated: Truncated,
    /// xxh3-128 of the decoded bytes that were read, as hexadecimal digits.
    pub content_hash: String,
    /// The number of the attempt that succeeded, from 1.
    pub attempt: u8,
}

impl Page {
    /// The canonical form.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.url)
    }

    /// The event's time in the store.
    #[must_use]
    pub fn event_ms(&self) -> Millis {
        self.written_at_ms.unwrap_or(self.fetched_at_ms)
    }
}
