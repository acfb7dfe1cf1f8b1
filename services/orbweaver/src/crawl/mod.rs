//! `orbweaver crawl`: all services in one process, on the embedded log and store.
//!
//! [`prepare`] finds or makes the output folder, [`seeds`] puts the seeds into the log, [`pipeline`] starts the services,
//! [`monitor`] watches them until the offsets say that the crawl is complete, [`summary`] tells what happened to everything.

pub mod definition;
pub mod monitor;
pub mod pipeline;
pub mod prepare;
pub mod progress;
pub mod run;
pub mod seeds;
pub mod settings;
pub mod summary;
pub mod trim;
pub mod usage;

/// The name of the crawl in a log of its own.
pub const CRAWL: &str = "default";
