//! Description of one URL, for the command line.

use serde::Serialize;

use crate::{Fingerprint, Policy, Slot, WideDomains, parse_seed, slot_of};

/// Description of a text as a URL: one JSON object with `input`, and either `error` or all other fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Description {
    /// Text.
    pub input: String,
    /// URL that would be requested: absolute, without fragment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Canonical form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canonical: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// Slot of the site.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    /// Fingerprint within the crawl.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// Reason why it is not a URL that can be crawled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Settings from which a crawl derives the keys and sites of its URLs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Keying {
    /// Name of the crawl.
    pub crawl: String,
    /// Rules of its canonical form.
    pub policy: Policy,
    /// Domains whose hosts are separate sites.
    pub wide: WideDomains,
}

/// Describes a text, parsed as a seed.
#[must_use]
pub fn describe(input: &str, keying: &Keying) -> Description {
    let mut description = Description {
        input: input.to_owned(),
        url: None,
        canonical: None,
        site: None,
        slot: None,
        fingerprint: None,
        error: None,
    };
    match parse_seed(input) {
        Ok(url) => {
            let canonical = keying.policy.canonicalize(&url);
            let site = keying.wide.site_of(&url).into_owned();
            description.slot = Some(slot_of(&site));
            description.site = Some(site);
            description.fingerprint = Some(Fingerprint::of(&keying.crawl, canonical.as_str()));
            description.canonical = Some(canonical.into_string());
            description.url = Some(url.into());
        }
        Err(error) => description.error = Some(error.to_string()),
    }
    description
}
