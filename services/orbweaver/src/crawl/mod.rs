//! `orbweaver crawl`: all services in one process, on the embedded log and store.
//!
//! [`prepare`] finds or creates the output directory, [`seeds`] appends the seeds to the log, [`pipeline`] starts the
//! services, [`monitor`] watches them until the offsets prove that the crawl is complete, [`summary`] reports the
//! results.

pub mod archive_to;
pub mod console;
pub mod dead_letters;
pub mod definition;
pub mod export_to;
mod headers;
pub mod intranet;
pub mod metrics;
pub mod monitor;
pub mod order;
pub mod pipeline;
pub mod prepare;
pub mod progress;
pub mod proxy;
pub mod purpose;
pub mod revisit;
pub mod run;
pub mod seeds;
pub mod settings;
pub mod site_settings;
pub mod summary;
pub mod trim;
pub mod usage;
