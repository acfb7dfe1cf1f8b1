//! Canonicalises what was discovered, keeps to the scope of its crawl, and lets each URL through once.
//!
//! **Flow.** A record of `crawl.seeds` is read and passed on as a sighting to `crawl.discovered`, in the partition of its
//! site. A record of `crawl.discovered` holds links that lead to one site; each is read, brought into canonical form, held
//! against the scope, and looked up (recent cache, pending, filter, index). What passes is written in this order, each
//! acknowledged before the next: the entry by which a seed extends the scope (`crawl.control`), the URLs that wait
//! (`crawl.frontier`), one batch of fingerprints for the whole poll (`crawl.seen`). Only then do cache, filter and index
//! learn of it, and the origins complete; an origin with a URL that another plan is letting through waits for that plan.
//!
//! A crash between any two of these repeats and loses nothing: without the `seen` record the URL passes again.
//!
//! | module | contents |
//! |---|---|
//! | `scope` | which URLs belong to a crawl (pure) |
//! | `crawls` | definitions and scope entries of `crawl.control` (pure) |
//! | `seeds` | reading seeds (pure) |
//! | `draft` | the plan that a poll adds up to, of one partition (pure) |
//! | `admission` | the links of a record: what becomes of each |
//! | `held` | records of crawls that are not defined yet (pure) |
//! | `proof` | whether an index stands on this log, asked before the start |
//! | `tally` | what became of links, by reason; shared with whoever shows it |
//! | `stage`, `config`, `metrics` | the glue, the settings, the metrics |
//! | `service` | the service as a process of a cluster (feature `cluster`) |

mod admission;
mod config;
mod crawls;
mod draft;
mod held;
pub mod metrics;
mod proof;
mod scope;
mod seeds;
#[cfg(feature = "cluster")]
pub mod service;
mod stage;
mod tally;

pub use config::{Config, ConfigError, DefaultCrawl};
pub use stage::NormalizerDedup;
pub use tally::{LinkEnd, Tally, TallySnapshot};
