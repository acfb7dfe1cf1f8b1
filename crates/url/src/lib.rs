//! What a URL is to a crawl: its canonical form (the key), its site, its slot and its fingerprint.
//!
//! A text is read ([`parse`], [`parse_seed`], or [`resolve`] for a link) into the URL as it was found; that is what is
//! requested. The canonical form is only its key: it is hashed, together with the crawl's name, into the fingerprint.
//! The site decides on politeness and, by its slot, on the partition.
//!
//! | module | contents |
//! |---|---|
//! | `read` | from a text to the URL as found; [`UrlError`], [`MAX_URL_BYTES`] |
//! | `unmapped`, `drive`, `respell` | what the crate `url` reads otherwise than the URL Standard |
//! | `policy` | the rules of the canonical form, each with its reason; the presets; a policy as text |
//! | `canonical` | the canonical form by a policy's rules |
//! | `escapes`, `path`, `query`, `parameters` | its parts, and the lists of parameters that are dropped |
//! | `site` | the registrable domain; wide domains |
//! | `slot` | Kafka's murmur2, slots and partitions |
//! | `fingerprint` | 128 bits of crawl and canonical form |
//! | `describe` | all of it for one text, as the command line prints it |

mod canonical;
mod describe;
mod drive;
mod escapes;
mod fingerprint;
mod parameters;
mod path;
mod policy;
mod query;
mod read;
mod respell;
mod site;
mod slot;
mod unmapped;

pub use canonical::{CANONICAL_POLICY, CanonicalUrl, canonical_text, canonicalize};
pub use describe::{Description, Keying, describe};
pub use fingerprint::{Fingerprint, FingerprintError};
pub use policy::{Policy, PolicyError, Rule};
pub use read::{MAX_URL_BYTES, QueryEncoding, UrlError, parse, parse_seed, resolve, resolve_encoded};
pub use site::{MAX_WIDE_DOMAINS, SUFFIX_LIST_VERSION, WideDomains, WideDomainsError, site_of};
pub use slot::{SLOTS, Slot, partition_of, slot_of};
pub use unmapped::is_unmapped;
pub use url::Url;
