//! The command line of `orbweaver replay`.

use std::path::PathBuf;

use clap::Args;

/// `orbweaver replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 each URL passed exactly once, 64 wrong usage, 66 a file cannot be read, 73 the folder cannot be used,
74 a URL was lost or passed twice, or the log failed.

Examples:
  orbweaver replay --urls 1000000
  orbweaver replay --urls 100000000 --no-frontier --instances 2 --chart replay.svg
  orbweaver replay --from links.txt --json")]
pub struct ReplayArgs {
    /// URLs to be met; with --from at most so many [default with --from: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub urls: Option<u64>,
    /// The share of them that are repeats of others, from 0 to 0.999999.
    #[arg(long, value_name = "SHARE", default_value_t = 0.65, value_parser = share)]
    pub repeat: f64,
    /// Other repeats for another seed.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Read the URLs from files, one a line, instead of making them (may be repeated).
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["repeat", "seed"])]
    pub from: Vec<PathBuf>,
    /// Only count what is let through, and do not write it to crawl.frontier.
    #[arg(long)]
    pub no_frontier: bool,
    /// Believe the filters, and do not look up on disk what they take for known. Of a million new URLs one may be lost.
    #[arg(long)]
    pub no_verify: bool,
    /// Partitions of the topics; a power of two.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub partitions: u32,
    /// Instances of the service, which share the partitions, as members of a group do. Each uses up to one core.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub instances: u32,
    /// Places of the recent cache of an instance, 21 bytes each [default: that of the service].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..))]
    pub recent_entries: Option<u32>,
    /// Write to Kafka instead of the embedded log: brokers, as HOST:PORT[,HOST:PORT…]. The topics are its own, and are deleted
    /// at the end unless --out is given.
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "BROKERS")]
    pub brokers: Option<String>,
    /// The folder of the log and the indexes. The same command goes on where it was killed [default: a temporary one].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the figures as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Draw rate and memory over the run into this file (SVG).
    #[arg(long, value_name = "FILE")]
    pub chart: Option<PathBuf>,
}

impl ReplayArgs {
    /// Of a million URLs, so many are new.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the share is below one")]
    pub(super) fn new_ppm(&self) -> u64 {
        1_000_000 - (self.repeat * 1e6).round() as u64
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=0.999_999).contains(&share) => Ok(share),
        _ => Err("a share is a number from 0 to 0.999999".to_owned()),
    }
}
