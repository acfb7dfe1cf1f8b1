//! The real `orbweaver` binary against webs with a known truth.

mod bad_input;
mod canonical;
mod complete;
mod console;
mod disk_full;
mod external;
mod heavy;
mod http;
mod interrupted;
mod killed;
mod memory;
mod metrics;
mod near_duplicates;
mod options;
mod polite;
mod rank;
mod report;
mod requisites;
mod revisits;
mod scope;
mod sitemaps;
mod tools;
mod traps;
mod warc;

use std::time::Duration;

use anyhow::Result;
use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};

/// Maximum wait for the end of a crawl.
const PATIENCE: Duration = Duration::from_secs(55);

/// Serves a web that records every request.
fn serve(config: WebConfig) -> Result<ToyWeb> {
    let serving = Serving { port: 0, logging: Logging::Memory(1 << 20) };
    Ok(ToyWeb::start(config, &serving)?)
}
