//! `context`: the object that all messages about an admitted URL share.

use orbweaver_url::{CrawlName, Fingerprint, Policy, SiteName};
use serde::{Deserialize, Serialize};

use crate::{DiscoveryKind, Millis, Priority, SeedMetadata, Trail, is_default};

/// Identity and origin of an admitted URL. In a page, `url` is the last one requested, and `chain` leads to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlContext {
    pub crawl: CrawlName,
    /// Fingerprint of crawl and canonical form.
    pub fingerprint: Fingerprint,
    /// URL to request, as found.
    pub url: String,
    /// Canonical form, if it differs from `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Policy of the canonical form; absent: `standard/1`. Redirect targets are compared under it.
    #[serde(default, skip_serializing_if = "Policy::is_standard")]
    pub policy: Policy,
    /// Site, computed at admission.
    pub site: SiteName,
    /// Link depth from the seed, or that of requisites or external URLs.
    pub depth: u16,
    /// Way in which the URL was discovered.
    pub sighting: DiscoveryKind,
    /// Page that led here; absent for seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// URLs that redirected here, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<String>,
    /// Patterns of the pages that lead here; from the dispatch on also that of the URL itself.
    #[serde(default, skip_serializing_if = "Trail::is_empty")]
    pub trail: Trail,
    /// Priority of the seed that led here.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: Priority,
    /// Metadata of the seed that this URL is, or that redirected here.
    #[serde(default, skip_serializing_if = "SeedMetadata::is_empty")]
    pub metadata: SeedMetadata,
    /// Number of the visit, from 0; more than 0 only in a crawl with revisits.
    #[serde(default, skip_serializing_if = "is_default")]
    pub visit: u32,
    /// Modification time in the sitemap or feed that lists this URL, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed_modified_ms: Option<Millis>,
}

impl UrlContext {
    /// Returns the context of a seed whose URL is canonical under the standard policy.
    #[must_use]
    pub fn of_seed(crawl: CrawlName, url: String, site: SiteName) -> Self {
        Self {
            fingerprint: Fingerprint::of(&crawl, &url),
            crawl,
            url,
            key: None,
            policy: Policy::STANDARD,
            site,
            depth: 0,
            sighting: DiscoveryKind::Seed,
            via: None,
            chain: vec![],
            trail: Trail::default(),
            priority: Priority::default(),
            metadata: SeedMetadata::default(),
            visit: 0,
            listed_modified_ms: None,
        }
    }

    /// Returns `true` if a page may be found that was not fetched before. Limits on the pages of a crawl apply then, and
    /// not to a revisit, a requisite or an external URL.
    #[must_use]
    pub fn may_be_new_page(&self) -> bool {
        self.visit == 0 && self.sighting.is_page()
    }

    /// Returns the canonical form.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.url)
    }
}
