//! Description of one URL, for the command line.

use serde::Serialize;

use crate::{CrawlName, Fingerprint, Policy, SiteName, Slot, WideDomains, parse_seed, slot_of};

/// Description of a text as a URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Description {
    /// URL that can be crawled.
    Url {
        input: String,
        /// URL that would be requested: absolute, without fragment.
        url: String,
        /// Canonical form.
        canonical: String,
        site: SiteName,
        /// Slot of the site.
        slot: Slot,
        /// Fingerprint within the crawl.
        fingerprint: Fingerprint,
    },
    /// Text that is not a URL that can be crawled, with the reason.
    Error { input: String, error: String },
}

/// Settings from which a crawl derives the keys and sites of its URLs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Keying {
    /// Name of the crawl.
    pub crawl: CrawlName,
    /// Rules of its canonical form.
    pub policy: Policy,
    /// Domains whose hosts are separate sites.
    pub wide: WideDomains,
}

/// Describes a text, parsed as a seed.
#[must_use]
pub fn describe(input: &str, keying: &Keying) -> Description {
    let input = input.to_owned();
    match parse_seed(&input) {
        Ok(url) => {
            let canonical = keying.policy.canonical_text(&url).into_owned();
            let site: SiteName = keying.wide.site_of(&url).into();
            let (slot, fingerprint) = (slot_of(&site), Fingerprint::of(&keying.crawl, &canonical));
            Description::Url { input, url: url.into(), canonical, site, slot, fingerprint }
        }
        Err(error) => Description::Error { input, error: error.to_string() },
    }
}
