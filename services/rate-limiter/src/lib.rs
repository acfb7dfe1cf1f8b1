//! The rate-limiter: gives each dispatch its moment.
//!
//! ```text
//! crawl.scheduled ──> moment = max(now, last + interval + usual answer time)
//!                        │ within the horizon ──> crawl.ready      with not_before and interval
//!                        │ later, or blocked  ──> crawl.outcomes   deferred, with the time to try again
//!                        └ lease is over      ──> dropped
//! crawl.outcomes  ──> what the site taught ──> crawl.sites         blocks, crawl-delay: what a restart must know
//! ```
//!
//! Partition N of both topics and the memory of its sites are in one place, so a site has one clock. What must survive is in
//! `crawl.sites` before the outcome that taught it completes; everything else is rebuilt by being careful: after a restart each
//! site counts as asked at the latest moment that the owner before may have given (rule 20).
//!
//! | module | what it knows |
//! |---|---|
//! | [`site`] | one site: when it may be asked, what an outcome teaches (pure) |
//! | [`sites`] | the sites of a partition: restore, eviction, who is blocked (pure) |
//! | [`writes`] | one outstanding record a site (rule 7), and what waits for it (pure) |
//! | [`wire`] | the few fields that are read, and how a dispatch passes through unread |
//! | [`stage`] | the glue to the runtime |
//! | `service` | the service as a process of a cluster (feature `cluster`) |

pub mod config;
pub mod metrics;
#[cfg(feature = "cluster")]
pub mod service;
pub mod site;
pub mod sites;
pub mod stage;
mod view;
pub mod wire;
pub mod writes;

pub use config::{ConfigError, RateLimiterConfig};
pub use metrics::RateLimiterMetrics;
pub use stage::RateLimiterStage;
pub use view::{BlockedSites, SiteView};
