//! The frontier: orders what waits, and leases it out.
//!
//! ```text
//! crawl.frontier ─┐                        ┌─> crawl.scheduled   dispatches: leases on a URL
//!                 ├─> queues by site ──────┼─> crawl.frontier    retries, tombstones, re-appended records
//! crawl.outcomes ─┘   leases, delays       └─> crawl.control     pages that were counted
//! ```
//!
//! A URL that waits is a record in `crawl.frontier`; its offset completes when the URL ends: its tombstone is durable.
//! What is kept beside that log is an index over it. On local disk it says up to which record it goes, and a partition is
//! opened from there on if that is proven; without it, from the commit point on. In memory is what the log cannot say yet,
//! and some sixty bytes a site.
//!
//! | module | what it knows |
//! |---|---|
//! | [`partition`] | one partition: what waits, what is leased, what an outcome means (pure) |
//! | [`decision`] | what there is to decide |
//! | [`index`] | what waits, by site and by moment: the trait, on disk, in memory |
//! | [`sites`], [`head`] | whose turn it is, who must pause, what is read ahead of the queues (pure) |
//! | `slots` | how many dispatches of a site may be in flight, and how many of them of URLs at the back (pure) |
//! | [`leases`] | what was dispatched and when it is over (pure) |
//! | [`offsets`] | a set of offsets, one bit each (pure) |
//! | [`scope`] | what waits and is outside of its crawl by now (pure) |
//! | [`pages`] | how many pages of each crawl were fetched, here and elsewhere, and how many may be (pure) |
//! | [`stage`], `appends`, `counted` | the glue to the runtime: decodes, opens, groups decisions into plans |
//! | `service` | the service as a process of a cluster (feature `cluster`) |

mod appends;
pub mod config;
mod counted;
pub mod decision;
pub mod head;
pub mod index;
pub mod leases;
pub mod metrics;
pub mod offsets;
pub mod pages;
pub mod partition;
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
