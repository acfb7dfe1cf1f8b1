//! Revisits: the policy of a crawl, and the visits to a URL.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Millis, is_default};

/// Revisit policy of a crawl: bounds of the time between two visits to a URL. Within them, it follows the rate at which the
/// page changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevisitPolicy {
    /// Shortest interval, in milliseconds; also that of a page that was visited once, and of one that changes on average
    /// once in this time or more often.
    pub interval_ms: u64,
    /// Longest interval, in milliseconds.
    pub max_interval_ms: u64,
    /// Intervals of pages that are not HTML, by media range: `type/subtype`, `type/*` or `*/*`. The most specific one
    /// applies.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub types: BTreeMap<String, RevisitBounds>,
}

impl RevisitPolicy {
    /// Returns the longest interval of any page, in milliseconds.
    #[must_use]
    pub fn longest_ms(&self) -> u64 {
        let of_types = self.types.values().flat_map(|bounds| [bounds.interval_ms, bounds.max_interval_ms]);
        of_types.fold(self.interval_ms.max(self.max_interval_ms), u64::max)
    }
}

/// Shortest and longest interval between two visits to a URL, in milliseconds, as in a [`RevisitPolicy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevisitBounds {
    pub interval_ms: u64,
    pub max_interval_ms: u64,
}

/// State of a page that identifies its version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageVersion {
    /// xxh3-128 of the decoded body, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<String>,
    /// xxh3-64 of the text of an HTML page, without markup, scripts and styles, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_hash: Option<String>,
    /// `ETag` of the response, for conditional requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// `Last-Modified` of the response, for conditional requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

impl PageVersion {
    /// Returns `true` if no page is known.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// Ended visits to a URL.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visits {
    /// Page as the last visit that found it left it; unknown if it was never found, or is gone.
    #[serde(default, skip_serializing_if = "PageVersion::is_unknown")]
    pub version: PageVersion,
    /// End of the last visit, in milliseconds since the Unix epoch.
    pub visited_at_ms: Millis,
    /// Media type of the page, in lower case and without parameters, if known and not HTML. Kept because a 304 response
    /// may omit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Visits in a row, up to the last one, that did not find the page.
    #[serde(default, skip_serializing_if = "is_default")]
    pub misses: u8,
    /// Rate at which the page changes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub changes: ChangeRate,
}

/// Observed changes of a page: older observations have less weight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRate {
    /// Intervals between two visits that both found the page.
    pub intervals: u16,
    /// Those within which it changed.
    pub changed: u16,
    /// Length of all of them together, in milliseconds.
    pub span_ms: u64,
}

/// Kind of change of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// Found for the first time, or again after it was gone.
    New,
    /// Found with other content than that of the previous version.
    Changed,
    /// No longer available: 404, 410, a redirect, or another type of content.
    Gone,
}

impl ChangeKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::New, Self::Changed, Self::Gone];

    /// Returns the name, as it is serialized.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::Gone => "gone",
        }
    }
}

/// Change of a page, as found by a visit: value of `crawl.changes`. Fingerprint and visit identify it: a repeated record
/// has the same ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageChange {
    pub kind: ChangeKind,
    /// URL of the page; its number of the visit is that of the visit that found the change.
    pub context: crate::UrlContext,
    /// HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// End of the visit, in milliseconds since the Unix epoch.
    pub at_ms: Millis,
    /// Version found; absent if the page is gone.
    #[serde(default, skip_serializing_if = "PageVersion::is_unknown")]
    pub version: PageVersion,
    /// Content hash of the previous version, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_hash: Option<String>,
    /// Whether a changed page has another text, if that is known; otherwise only its markup or scripts have changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_changed: Option<bool>,
    /// End of the previous visit, if there was one: the page changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_at_ms: Option<Millis>,
}
