//! Command line of `orbweaver replay`.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use serde::{Deserialize, Serialize};

use super::generate::Plan;

/// Arguments of `orbweaver replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 each URL was admitted exactly once, 64 usage error, 73 the directory cannot be used,
74 a URL was lost or admitted twice, or the log failed.

Examples:
  orbweaver replay --urls 1000000
  orbweaver replay --urls 100000000 --no-frontier --instances 2")]
pub struct ReplayArgs {
    #[command(flatten)]
    pub asked: Asked,
    /// Use the Bloom filter in memory instead of the exact index. One in a million new URLs may be lost.
    #[arg(long)]
    pub bloom: bool,
    /// Entries of the recent cache per instance, 21 bytes each [default: that of the service].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..))]
    pub recent_entries: Option<u32>,
    /// Directory of the log and the indexes. The same command resumes a replay that was killed [default: a temporary
    /// one].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Parameters of the replay that created a directory; a replay with others cannot resume it.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct Asked {
    #[command(flatten)]
    #[serde(flatten)]
    pub plan: Plan,
    /// Instances of the service, which share the partitions like members of a group. Each uses up to one core.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub instances: u32,
    /// Only count the admitted URLs, and do not write them to crawl.frontier.
    #[arg(long = "no-frontier", action = ArgAction::SetFalse)]
    pub frontier: bool,
    /// Write to Kafka instead of the embedded log: brokers, as HOST:PORT[,HOST:PORT…]. The replay creates its own
    /// topics, and deletes them at the end unless --out is given.
    #[arg(long, value_name = "BROKERS")]
    #[serde(default)]
    pub brokers: Option<String>,
}
