//! The rate-limiter: assigns each dispatch its scheduled time.
//!
//! ```text
//! crawl.scheduled ──> scheduled time = max(now, last + interval + usual answer time)
//!                        │ within the horizon ──> crawl.ready      with not_before and interval
//!                        │ later, or blocked  ──> crawl.outcomes   deferred, with a retry time
//! crawl.outcomes  ──> changed site state     ──> crawl.sites      blocks, crawl-delay: state that survives a restart
//! ```
//!
//! One instance owns partition N of both topics and the state of its sites, so a site has one clock. Persistent state
//! is in `crawl.sites` before the outcome that changed it completes. Everything else is replaced by a conservative
//! assumption: after a restart each site counts as requested at the latest time that the previous owner may have
//! scheduled (docs/protocol.md#delays-restart).
//!
//! | module | contents |
//! |---|---|
//! | [`site`] | one site: its next request time, the effect of an outcome (pure) |
//! | [`sites`] | the sites of a partition: restore, eviction, blocked sites (pure) |
//! | [`writes`] | one unacknowledged record per site (docs/protocol.md#one-write-per-key); waiting outcomes (pure) |
//! | [`partial_messages`] | partial decoding of messages; dispatches pass through unchanged |
//! | [`stage`] | the stage that connects these to the runtime |
//! | `service` | the service as a process of a cluster (feature `cluster`) |

pub mod config;
pub mod metrics;
pub mod partial_messages;
#[cfg(feature = "cluster")]
pub mod service;
pub mod site;
pub mod sites;
pub mod stage;
mod view;
pub mod writes;

pub use config::RateLimiterConfig;
pub use metrics::RateLimiterMetrics;
pub use stage::RateLimiterStage;
pub use view::{BlockedSites, SiteView};
