//! The frontier: orders what waits, and leases it out.
//!
//! ```text
//! crawl.frontier ─┐                        ┌─> crawl.scheduled   dispatches: leases on a URL
//!                 ├─> queues by site ──────┤
//! crawl.outcomes ─┘   leases, delays       └─> crawl.frontier    retries, tombstones, re-appended records
//! ```
//!
//! A URL that waits is a record in `crawl.frontier`; its offset completes when the URL ends: its tombstone is durable.
//! What is kept in memory is an index over that log, rebuilt from the commit point whenever a partition is opened.
//!
//! | module | what it knows |
//! |---|---|
//! | [`partition`] | one partition: what waits, what is leased, what an outcome means (pure) |
//! | [`decision`] | what there is to decide |
//! | [`entry`] | one URL that waits, in few bytes |
//! | [`sites`] | a queue by site, whose turn it is, who must pause (pure) |
//! | [`leases`] | what was dispatched and when it is over (pure) |
//! | [`cap`] | the number of pages that may still be fetched |
//! | [`stage`] | the glue to the runtime: decodes, opens, groups decisions into plans |

pub mod cap;
pub mod config;
pub mod decision;
pub mod entry;
pub mod leases;
pub mod metrics;
pub mod partition;
pub mod sites;
pub mod stage;
mod view;

pub use config::FrontierConfig;
pub use stage::FrontierStage;
pub use view::{FrontierView, SiteLoad};
