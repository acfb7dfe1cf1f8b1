//! Arguments of `orbweaver rank`.

use std::path::PathBuf;

use clap::Args;

use crate::report::args::Format;

/// Arguments of `orbweaver rank`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Sites are the nodes of the graph; an edge leads from one site to another if a page of it links there, without `nofollow`, `ugc` or \
`sponsored`. The rank of a site is the probability that a reader is there who follows an edge with the probability --damping, and else \
continues at any site. Columns of the CSV, and fields of the JSON lines: position, site, rank, weight, links_in and links_out (numbers \
of sites). The weight is the one that --publish sets, in percent: 100 for the mean rank, and else with the square root of the rank, \
within 10 and 1000.

Exit codes: 0 ranked, 64 usage error, 65 not converged within --max-iterations: nothing was published, 66 results unreadable, \
73 stdout or the crawl's directory unusable, 74 the log failed, 75 interrupted, or another change of a site came first.

Examples:
  orbweaver rank docs.example.org.crawl
  orbweaver rank docs.example.org.crawl --format csv > ranks.csv
  orbweaver rank docs.example.org.crawl --publish 1000")]
pub struct RankArgs {
    /// Output directory of a crawl.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Probability with which the reader follows an edge, above 0 and below 1.
    #[arg(long, value_name = "N", default_value = "0.85", value_parser = damping)]
    pub damping: f64,
    /// Sum of the changes of all ranks below which they have converged, from 1e-15 to 1.
    #[arg(long, value_name = "N", default_value = "1e-9", value_parser = tolerance)]
    pub tolerance: f64,
    /// Maximum number of iterations.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_iterations: u32,
    /// Number of sites to print [default: 20 as text, all in other formats].
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Set the weights of this number of sites, those with the highest ranks, in `crawl.control`: of the crawl in DIR, which must not
    /// be running, or with --brokers of a cluster. Rates and freezes of these sites stay; weights of other sites, too.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub publish: Option<u32>,
    /// Kafka brokers of the cluster to publish to, as HOST:PORT[,HOST:PORT…].
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "BROKERS", requires = "publish")]
    pub brokers: Option<String>,
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    pub kafka: crate::cluster::args::Kafka,
}

fn damping(text: &str) -> Result<f64, String> {
    let valid = text.parse().ok().filter(|damping: &f64| *damping > 0.0 && *damping < 1.0);
    valid.ok_or_else(|| "allowed: a number above 0 and below 1".to_owned())
}

fn tolerance(text: &str) -> Result<f64, String> {
    let valid = text.parse().ok().filter(|tolerance| (1e-15..=1.0).contains(tolerance));
    valid.ok_or_else(|| "allowed: a number from 1e-15 to 1".to_owned())
}
