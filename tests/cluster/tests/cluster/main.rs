//! The five binaries as processes on real servers.

mod capped;
mod commands;
mod consumers;
mod crawl;
mod heavy;
mod memory;
mod process;
mod replay;
mod same;
mod scope;
mod secured;
mod seeds;

use std::time::Duration;

/// How long servers and processes of a busy machine may take for something.
const PATIENCE: Duration = Duration::from_secs(120);
