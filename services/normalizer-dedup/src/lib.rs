//! Canonicalizes discovered URLs, applies the scope of their crawl and admits each URL once.
//!
//! **Flow.** A record of `crawl.seeds` is forwarded as a discovered URL to `crawl.discovered`, in the partition of its
//! site. A record of `crawl.discovered` holds links to one site; each is parsed, canonicalized, checked against the
//! scope and looked up (recent cache, pending, filter, index). Admissions are written in this order, each acknowledged
//! before the next: the entry by which a seed extends the scope (`crawl.control`), the admitted URLs
//! (`crawl.frontier`), one batch of fingerprints per plan (`crawl.seen`). Only then are cache, filter and index updated
//! and the origins completed; an origin with a URL that is pending in another plan waits for that plan. So do links
//! beyond the bytes that may be planned at one time.
//!
//! A crash between any two of these steps repeats work and loses nothing: without the `seen` record the URL is admitted
//! again.
//!
//! | module | contents |
//! |---|---|
//! | `scope` | which URLs belong to a crawl (pure) |
//! | `crawls` | definitions and scope entries of `crawl.control` (pure) |
//! | `seeds` | parsing of seeds (pure) |
//! | `draft` | the plan of a poll, for one partition (pure) |
//! | `admission` | decisions on the links of a record |
//! | `awaiting_definition` | records of crawls without a usable definition (pure) |
//! | `checkpoint_check` | verification of index checkpoints at the start |
//! | `tally` | counters of link outcomes by reason, shared with the metrics |
//! | `stage`, `config`, `metrics` | the glue, the settings, the metrics |
//! | `service` | the service as a process of a cluster (feature `cluster`) |

mod admission;
mod awaiting_definition;
mod checkpoint_check;
mod config;
mod crawls;
mod draft;
pub mod metrics;
mod scope;
mod seeds;
#[cfg(feature = "cluster")]
pub mod service;
mod stage;
mod tally;

pub use config::{Config, IndexKind};
pub use stage::NormalizerDedup;
pub use tally::{DedupStats, LinkOutcome, TallySnapshot};
