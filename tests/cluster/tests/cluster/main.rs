//! The services as processes on real servers.

mod archive;
mod capped;
mod commands;
mod consumers;
mod crawl;
mod crawls;
mod deletion;
mod doctor;
mod heavy;
mod memory;
mod process;
mod profiles;
mod readme;
mod replay;
mod revisits;
mod same;
mod scope;
mod secured;
mod seeds;
mod shares;
mod site;
mod sitemaps;

use std::time::Duration;

/// Time allowed for operations of servers and processes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
