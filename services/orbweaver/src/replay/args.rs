//! Command line of `orbweaver replay`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `orbweaver replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 each URL was admitted exactly once, 64 usage error, 66 a file cannot be read,
73 the directory cannot be used, 74 a URL was lost or admitted twice, or the log failed.

Examples:
  orbweaver replay --urls 1000000
  orbweaver replay --urls 100000000 --no-frontier --instances 2
  orbweaver replay --from links.txt --json")]
pub struct ReplayArgs {
    /// Number of URLs; with --from, the maximum [default with --from: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub urls: Option<u64>,
    /// Share of repeated URLs, from 0 to 0.999999.
    #[arg(long, value_name = "SHARE", default_value_t = 0.65, value_parser = share)]
    pub repeat: f64,
    /// Seed for the choice of repeats.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Read the URLs from files, one per line, instead of generating them (may be repeated).
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["repeat", "seed"])]
    pub from: Vec<PathBuf>,
    /// Only count the admitted URLs, and do not write them to crawl.frontier.
    #[arg(long)]
    pub no_frontier: bool,
    /// Use the Bloom filter in memory instead of the exact index. One in a million new URLs may be lost.
    #[arg(long)]
    pub bloom: bool,
    /// Partitions per topic; a power of two.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub partitions: u32,
    /// Instances of the service, which share the partitions like members of a group. Each uses up to one core.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub instances: u32,
    /// Entries of the recent cache per instance, 21 bytes each [default: that of the service].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..))]
    pub recent_entries: Option<u32>,
    /// Write to Kafka instead of the embedded log: brokers, as HOST:PORT[,HOST:PORT…]. The replay creates its own
    /// topics, and deletes them at the end unless --out is given.
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "BROKERS")]
    pub brokers: Option<String>,
    /// Directory of the log and the indexes. The same command resumes a replay that was killed [default: a temporary
    /// one].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the figures as one JSON object.
    #[arg(long)]
    pub json: bool,
}

impl ReplayArgs {
    /// Returns the number of new URLs per million.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the share is below one")]
    pub(super) fn new_ppm(&self) -> u64 {
        1_000_000 - (self.repeat * 1e6).round() as u64
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=0.999_999).contains(&share) => Ok(share),
        _ => Err("expected a number from 0 to 0.999999".to_owned()),
    }
}
