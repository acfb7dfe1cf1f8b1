//! Canonicalizes discovered URLs, applies the scope of their crawl and admits each URL once. The README describes flow,
//! modules and guarantees.
//!
//! Of a plan each step is acknowledged before the next. A crash between any two of them repeats work and loses nothing:
//! without the `seen` record the URL is admitted again.

mod admission;
mod awaiting_definition;
mod checkpoint_check;
mod config;
mod crawls;
mod draft;
pub mod metrics;
mod scope;
mod seeds;
#[cfg(feature = "cluster")]
pub mod service;
mod stage;
mod tally;

pub use config::{Config, IndexKind};
pub use stage::NormalizerDedup;
pub use tally::{DedupStats, LinkOutcome};
