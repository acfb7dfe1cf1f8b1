//! Identity of a URL within a crawl: its canonical form (the key), its site, its slot and its fingerprint.
//!
//! A text is parsed ([`parse`], [`parse_seed`], or [`resolve`] for a link) into the URL as found, which is the one that
//! is requested. The canonical form is only its key: the fingerprint is the hash of the crawl's name and this form. The
//! site determines politeness and, through its slot, the partition.
//!
//! | module | contents |
//! |---|---|
//! | `read` | parsing of a text into the URL as found; [`UrlError`], [`MAX_URL_BYTES`] |
//! | `plain` | links that need no parser |
//! | `unmapped`, `drive`, `respell` | corrections where the crate `url` deviates from the URL Standard |
//! | `policy` | the rules of the canonical form, each with its reason; the presets; a policy as text |
//! | `canonical` | the canonical form under a policy's rules |
//! | `escapes`, `path`, `query`, `parameters` | its parts, and the lists of parameters to drop |
//! | `names` | types for the name of a crawl and for a site |
//! | `site` | the registrable domain; wide domains |
//! | `slot` | Kafka's murmur2, slots and partitions |
//! | `fingerprint` | 128-bit hash of crawl and canonical form |
//! | `describe` | all of this for one text, as printed by the command line |

mod canonical;
mod describe;
mod drive;
mod escapes;
mod fingerprint;
mod names;
mod parameters;
mod path;
mod plain;
mod policy;
mod query;
mod read;
mod respell;
mod site;
mod slot;
mod unmapped;

pub use canonical::canonical_text;
pub use describe::{Description, Keying, describe};
pub use fingerprint::{Fingerprint, FingerprintError};
pub use names::{CrawlName, CrawlNameError, MAX_CRAWL_NAME_BYTES, SiteName};
pub use plain::resolve_plain;
pub use policy::{Policy, PolicyError, Rule};
pub use read::{MAX_URL_BYTES, QueryEncoding, UrlError, parse, parse_seed, resolve, resolve_encoded};
pub use site::{MAX_WIDE_DOMAINS, SUFFIX_LIST_VERSION, WideDomains, WideDomainsError, is_dns_name, site_of};
pub use slot::{SLOTS, Slot, partition_of, slot_of};
pub use unmapped::is_unmapped;
pub use url::Url;
