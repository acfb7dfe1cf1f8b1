//! The frontier: orders queued URLs and leases them for fetching.
//!
//! ```text
//! crawl.frontier ─┐                        ┌─> crawl.scheduled   dispatches, each with a lease
//!                 ├─> site queues ─────────┼─> crawl.frontier    retries, tombstones, re-appended records
//! crawl.outcomes ─┘   leases, delays       └─> crawl.control     page counts
//! ```
//!
//! A queued URL is a record in `crawl.frontier`; its offset completes when the URL ends: when its tombstone is durable.
//! All other state is an index over that log. On local disk, the index has a checkpoint; a partition is restored from
//! there if the checkpoint is verified, and otherwise from the commit point. Memory holds the state that is not in the
//! log yet, and about sixty bytes per site.
//!
//! | module | contents |
//! |---|---|
//! | [`partition`] | one partition: its queued URLs, its leases, and the handling of outcomes (pure) |
//! | [`decision`] | the decisions |
//! | [`index`] | queued URLs, by site and by earliest request time: the trait, on disk, in memory |
//! | [`sites`], [`read_ahead`] | scheduling of site queues, paused sites, and read-ahead of the queues (pure) |
//! | `dispatch_limit` | limit on outstanding dispatches (pure) |
//! | `slots` | limits of a site's dispatches in flight, in total and for demoted URLs (pure) |
//! | [`leases`] | dispatches and their expiry (pure) |
//! | [`offsets`] | a set of offsets, one bit each (pure) |
//! | [`scope`] | queued URLs that are out of scope by now (pure) |
//! | [`pages`] | pages of each crawl fetched here and elsewhere, and the number that may be fetched (pure) |
//! | [`stage`], `plan_builder`, `counted` | connection to the runtime: decodes, opens, groups decisions into plans |
//! | `service` | the service as a process of a cluster (feature `cluster`) |

pub mod config;
mod counted;
pub mod decision;
mod dispatch_limit;
pub mod index;
pub mod leases;
pub mod metrics;
pub mod offsets;
pub mod pages;
pub mod partition;
mod plan_builder;
pub mod read_ahead;
pub mod scope;
#[cfg(feature = "cluster")]
pub mod service;
pub mod sites;
mod slots;
pub mod stage;
mod view;

pub use config::FrontierConfig;
pub use counted::page_count;
pub use index::{FrontierIndex, IndexError};
pub use scope::CrawlScopes;
pub use stage::FrontierStage;
pub use view::{FrontierView, SiteLoad};
