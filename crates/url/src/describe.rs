//! What there is to say of one URL, for the command line.

use serde::Serialize;

use crate::{Fingerprint, Policy, Slot, WideDomains, parse_seed, slot_of};

/// What a text is to a crawl: one JSON object. Either `error` is there, or all the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The text.
    pub input: String,
    /// What would be requested: absolute, without fragment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The canonical form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canonical: Option<String>,
    /// The site.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// The slot of the site.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    /// The fingerprint within the crawl.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// Why it is not a URL that can be crawled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a crawl names and places its URLs by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Keying {
    /// Its name.
    pub crawl: String,
    /// The rules of its canonical form.
    pub policy: Policy,
    /// The domains whose hosts are sites of their own.
    pub wide: WideDomains,
}

/// Describes a text, read as a seed.
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
