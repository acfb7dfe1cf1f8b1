//! The real `orbweaver` binary against webs that know their own truth.

mod bad_input;
mod canonical;
mod complete;
mod disk_full;
mod heavy;
mod interrupted;
mod killed;
mod memory;
mod options;
mod polite;
mod scope;
mod tools;
mod traps;

use std::time::Duration;

use anyhow::Result;
use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};

/// The longest that a test waits for a crawl to end.
const PATIENCE: Duration = Duration::from_secs(55);

/// A web that remembers every request of a test.
fn serve(config: WebConfig) -> Result<ToyWeb> {
    let serving = Serving { port: 0, logging: Logging::Memory(1 << 20) };
    Ok(ToyWeb::start(config, &serving)?)
}
