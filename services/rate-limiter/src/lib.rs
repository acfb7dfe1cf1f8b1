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
//! The modules are listed in `README.md`.

mod clocks;
mod config;
mod crawl_shares;
mod metrics;
mod partial_messages;
#[cfg(feature = "cluster")]
pub mod service;
mod site;
mod site_terms;
mod sites;
mod stage;
mod view;

pub use config::RateLimiterConfig;
pub use metrics::RateLimiterMetrics;
pub use stage::RateLimiterStage;
pub use view::{BlockedSites, SiteView};
