//! The frontier: orders queued URLs and leases them for fetching. The README describes its flow, modules and guarantees.
//!
//! A queued URL is a record in `crawl.frontier`; its offset completes when the URL ends: when its tombstone is durable.
//! All other state is an index over that log. On local disk, the index has a checkpoint; a partition is restored from
//! there if the checkpoint is verified, and otherwise from the commit point. Memory holds the state that is not in the
//! log yet, and about 150 bytes per site.

pub mod config;
mod counted;
mod crawl_events;
mod crawl_shares;
pub mod decision;
mod dispatch_limit;
pub mod index;
pub mod leases;
mod listed_updates;
pub mod metrics;
pub mod offsets;
pub mod pages;
pub mod partition;
mod plan_builder;
mod probes;
pub mod read_ahead;
mod revisit;
pub mod scope;
#[cfg(feature = "cluster")]
pub mod service;
mod site_pages;
mod site_slots;
mod site_weight;
pub mod sites;
mod slots;
pub mod stage;
mod view;

pub use config::FrontierConfig;
pub use counted::page_count;
pub use crawl_events::{CrawlState, EventWriter};
pub use index::{FrontierIndex, IndexError};
pub use listed_updates::UpdateCounts;
pub use scope::CrawlScopes;
pub use stage::FrontierStage;
pub use view::{Figures, FrontierView, SiteLoad};
