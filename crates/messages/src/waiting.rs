//! `crawl.frontier`: a URL that waits. Its record key is the fingerprint; a tombstone ends it.

use orbweaver_url::{Fingerprint, Policy};
use serde::{Deserialize, Serialize};

use crate::{Millis, Sighting, Trail, Traps};

/// A URL that was let through and has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The crawl that it belongs to.
    pub crawl: String,
    /// Fingerprint of crawl and canonical form; the key of the record, too.
    pub fingerprint: Fingerprint,
    /// The URL as found: what is requested.
    pub url: String,
    /// The canonical form, where it differs from `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The policy of the canonical form; absent: `standard/1`. Redirects are compared by it.
    #[serde(default, skip_serializing_if = "Policy::is_standard")]
    pub policy: Policy,
    /// The site, computed at admission.
    pub site: String,
    /// Links followed from the seed.
    pub depth: u16,
    /// How it was found.
    pub sighting: Sighting,
    /// The page that led here; absent for seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// The URLs that redirected here, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<String>,
    /// What its crawl does about traps.
    #[serde(default, skip_serializing_if = "Traps::is_default")]
    pub traps: Traps,
    /// The patterns of the pages that lead here.
    #[serde(default, skip_serializing_if = "Trail::is_empty")]
    pub trail: Trail,
    /// A hash of what the page that led here says; where it has a text, and its crawl looks for traps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<u32>,
    /// Attempts that have failed so far.
    #[serde(default)]
    pub failures: u8,
    /// Attempts that the site answered with 429 or 503 so far.
    #[serde(default)]
    pub blocks: u8,
    /// Not to be asked before this moment, in milliseconds since the Unix epoch; 0: at once.
    #[serde(default)]
    pub not_before_ms: Millis,
    /// The latest event time that was written to the store for it, as far as is known (rule 23), in milliseconds since the Unix
    /// epoch; 0: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub written_at_ms: Millis,
    /// When it was let through, in milliseconds since the Unix epoch.
    pub admitted_at_ms: Millis,
    /// The version of its crawl's definition by which it was let through: the offset of that record.
    #[serde(default, skip_serializing_if = "is_first")]
    pub definition: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands references in")]
fn is_first(version: &u64) -> bool {
    *version == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands references in")]
pub(crate) fn is_zero(moment: &Millis) -> bool {
    *moment == 0
}

impl Waiting {
    /// The canonical form.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.url)
    }
}
