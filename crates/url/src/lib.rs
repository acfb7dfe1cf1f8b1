//! What a URL is to a crawl: its canonical form (the key), its site, its slot and its fingerprint.
//!
//! The canonical form is only the key. What is requested is the URL as it was found.

mod canonical;
mod fingerprint;
mod site;
mod slot;

pub use canonical::{CANONICAL_POLICY, CanonicalUrl, UrlError, canonicalize, parse};
pub use fingerprint::{Fingerprint, FingerprintError};
pub use site::{SUFFIX_LIST_VERSION, site_of};
pub use slot::{SLOTS, Slot, partition_of, slot_of};
