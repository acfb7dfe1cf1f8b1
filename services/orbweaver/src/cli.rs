//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use orbweaver_messages::{Scope, Traps};
use orbweaver_scope::Revision;
use orbweaver_url::Policy;
use serde::{Deserialize, Serialize};

/// Crawls the web politely, and goes on after any interruption.
#[derive(Debug, Parser)]
#[command(name = "orbweaver", version, about, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Crawl from the given URLs, or go on with a crawl that was stopped.
    Crawl(Box<CrawlArgs>),
    /// Give a cluster URLs to crawl.
    #[cfg(feature = "cluster")]
    Seed(crate::cluster::args::SeedArgs),
    /// Show how far every stage of a cluster is, or wait until all is worked off.
    #[cfg(feature = "cluster")]
    Status(crate::cluster::args::StatusArgs),
    /// Show what belongs to a crawl of a cluster, or change it while it runs.
    #[cfg(feature = "cluster")]
    Scope(crate::cluster::args::ScopeArgs),
    /// Create, check and list the topics of a cluster.
    #[cfg(feature = "cluster")]
    Topics(crate::cluster::args::TopicsArgs),
    /// Show, declare and remove the consumer groups that keep documents from being deleted.
    #[cfg(feature = "cluster")]
    Consumers(crate::cluster::args::ConsumersArgs),
    /// Show records that could not be processed, and replay them.
    #[cfg(feature = "cluster")]
    DeadLetters(crate::cluster::args::DeadLettersArgs),
    /// Show what URLs are to a crawl: canonical form, site, slot, fingerprint. One JSON line each.
    Url(UrlArgs),
    /// Show the document that a crawl would make of an HTML file, as one JSON line.
    Extract(ExtractArgs),
    /// Show what a robots.txt says of URLs. One JSON line each.
    Robots(RobotsArgs),
    /// Put URLs whose truth is known through the deduplication, and measure it.
    Replay(crate::replay::args::ReplayArgs),
    /// Measure.
    Bench(BenchArgs),
}

/// `orbweaver crawl`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 complete or at its cap, 64 wrong usage, 66 seeds file missing, 69 no seed could be fetched,
73 output unusable, 74 log or store failed, 75 stopped before the end (the same command goes on).

Examples:
  orbweaver crawl --demo
  orbweaver crawl docs.example.org --contact mailto:me@example.org
  orbweaver crawl --out docs.example.org.crawl        # goes on with it")]
pub struct CrawlArgs {
    /// Where to start; a bare host means https.
    #[arg(value_name = "URL")]
    pub urls: Vec<String>,
    /// Where the results go and what is needed to go on lives [default: ./HOST.crawl].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Read more seeds from a file, one URL or JSON object a line; `-` is stdin.
    #[arg(long, value_name = "FILE|-")]
    pub seeds: Option<PathBuf>,
    /// Crawl a small web that this process serves itself; needs no internet.
    #[arg(long)]
    pub demo: bool,
    /// Stop after this time, such as 90s or 10m; the same command goes on.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub max_time: Option<Duration>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub extent: Extent,
    /// What counts as the same page: standard, aggressive or raw, and rules after commas, such as
    /// `standard,sort-query,drop-tracking`. Fixed when the crawl is created [default: standard].
    #[arg(long, value_name = "POLICY")]
    pub canonical: Option<Policy>,
    /// A domain whose hosts are sites of their own, as those of a hoster (may be repeated). Fixed when the crawl is created.
    #[arg(long, value_name = "DOMAIN")]
    pub wide_domain: Vec<String>,
    /// Requests a second to one site, at most; `unlimited` only for sites of your own [default: 1].
    #[arg(long, value_name = "N|unlimited", allow_negative_numbers = true)]
    pub rate: Option<Rate>,
    /// Requests under way at once, over all sites [default: 64].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub concurrency: Option<u16>,
    /// The name by which sites know the crawler; its first product name is looked up in robots.txt.
    #[arg(long, value_name = "TEXT")]
    pub user_agent: Option<String>,
    /// How a site's owner reaches you: a URL or mailto:, sent in the user agent.
    #[arg(long, value_name = "TEXT")]
    pub contact: Option<String>,
    /// Send a header with every request, as `Name: value` (may be repeated).
    #[arg(long, value_name = "HEADER")]
    pub header: Vec<String>,
    /// Do not ask for robots.txt. Only for sites of your own.
    #[arg(long)]
    pub ignore_robots: bool,
    /// Fetch from private and loopback addresses, too.
    #[arg(long)]
    pub allow_private: bool,
    /// Follow links marked nofollow, too.
    #[arg(long)]
    pub follow_nofollow: bool,
    /// Add the decoded body to each document.
    #[arg(long)]
    pub html: bool,
    /// Crawl with the services of a cluster: its Kafka brokers, as HOST:PORT[,HOST:PORT…]. Settings of requests are theirs
    /// then, and results are written only with --out.
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "BROKERS", help_heading = "On a cluster")]
    pub brokers: Option<String>,
    /// Make sure that the cluster's CQL server answers and has its tables, too: HOST:PORT[,HOST:PORT…].
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "NODES", requires = "brokers", help_heading = "On a cluster")]
    pub cql: Option<String>,
    /// The keyspace of the tables.
    #[cfg(feature = "cluster")]
    #[arg(
        long,
        value_name = "NAME",
        env = "ORBWEAVER_CQL__KEYSPACE",
        default_value = "orbweaver",
        help_heading = "On a cluster"
    )]
    pub keyspace: String,
    /// Copies of each row, when the keyspace has to be made.
    #[cfg(feature = "cluster")]
    #[arg(
        long,
        value_name = "N",
        env = "ORBWEAVER_CQL__REPLICATION_FACTOR",
        default_value_t = 3,
        help_heading = "On a cluster"
    )]
    pub cql_replication: u8,
    /// The name of the crawl [default: default].
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "NAME", requires = "brokers", help_heading = "On a cluster")]
    pub crawl: Option<String>,
    #[cfg(feature = "cluster")]
    #[command(flatten, next_help_heading = "On a cluster")]
    #[allow(missing_docs)]
    pub kafka: crate::cluster::args::Kafka,
}

/// What belongs to a crawl: what may change while it runs.
#[derive(Debug, Args)]
pub struct Extent {
    /// What belongs to the crawl, measured from its seeds; it may become wider later [default: host].
    #[arg(long, value_enum)]
    pub scope: Option<ScopeName>,
    /// Crawl only URLs that match (regular expression, unanchored, on the canonical URL; may be repeated). For a crawl that
    /// is there, in place of those that were given before; an empty one: none.
    #[arg(long, value_name = "REGEX")]
    pub include: Vec<String>,
    /// Do not crawl URLs that match; wins over --include (may be repeated, and replaced, likewise).
    #[arg(long, value_name = "REGEX")]
    pub exclude: Vec<String>,
    /// What to do about URLs that lead on and on without bringing anything new, such as endless calendars: nothing (off), ask
    /// for them last (learn), or also refuse them past a limit (strict) [default: learn].
    #[arg(long, value_enum)]
    pub traps: Option<TrapsName>,
    /// Follow at most so many links from a seed.
    #[arg(long, value_name = "N|none", allow_negative_numbers = true)]
    pub max_depth: Option<Limit<u16>>,
    /// Fetch at most so many pages. What waits then goes on waiting, and is fetched when the cap is raised.
    #[arg(long, value_name = "N|none", allow_negative_numbers = true, value_parser = pages)]
    pub max_pages: Option<Limit<u64>>,
}

impl Extent {
    /// What was given, as a change of a crawl that is there.
    #[must_use]
    pub fn revision(&self) -> Revision {
        Revision {
            scope: self.scope.map(Into::into),
            include: patterns(&self.include),
            exclude: patterns(&self.exclude),
            max_depth: self.max_depth.map(|limit| limit.0),
            max_pages: self.max_pages.map(|limit| limit.0),
            traps: self.traps.map(Into::into),
        }
    }
}

/// The scope, as it is named on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScopeName {
    /// The host and port of a seed, below its directory.
    Path,
    /// The host and port of a seed.
    Host,
    /// The registrable domain of a seed.
    Site,
    /// Everything.
    Any,
}

impl From<ScopeName> for Scope {
    fn from(name: ScopeName) -> Self {
        match name {
            ScopeName::Path => Self::Path,
            ScopeName::Host => Self::Host,
            ScopeName::Site => Self::Site,
            ScopeName::Any => Self::Any,
        }
    }
}

/// What is done about traps, as it is named on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TrapsName {
    /// Do not look for them.
    Off,
    /// Ask for them behind all other URLs of their site.
    Learn,
    /// The same, and refuse them past a limit.
    Strict,
}

impl From<TrapsName> for Traps {
    fn from(name: TrapsName) -> Self {
        match name {
            TrapsName::Off => Self::Off,
            TrapsName::Learn => Self::Learn,
            TrapsName::Strict => Self::Strict,
        }
    }
}

/// A limit: a number, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit<T>(pub Option<T>);

impl<T: std::str::FromStr<Err = std::num::ParseIntError>> std::str::FromStr for Limit<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self(None));
        }
        text.parse()
            .map(|limit| Self(Some(limit)))
            .map_err(|error: std::num::ParseIntError| format!("a limit is a number, or `none`: {error}"))
    }
}

fn pages(text: &str) -> Result<Limit<u64>, String> {
    match text.parse()? {
        Limit(Some(0)) => Err("a crawl has one page at least".to_owned()),
        limit => Ok(limit),
    }
}

/// Patterns as they were given; an empty one stands for none. `None`: nothing was given.
#[must_use]
pub fn patterns(given: &[String]) -> Option<Vec<String>> {
    let patterns = || given.iter().filter(|pattern| !pattern.is_empty()).cloned().collect();
    (!given.is_empty()).then(patterns)
}

/// Requests a second to one site.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Rate {
    /// As fast as the site answers.
    Unlimited,
    /// So many requests a second.
    PerSecond(f64),
}

impl Rate {
    /// Least time between two requests, in milliseconds; 0: unlimited.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the rate is between 0.001 and 1000")]
    pub fn interval_ms(self) -> u64 {
        match self {
            Self::Unlimited => 0,
            Self::PerSecond(rate) => (1000.0 / rate).ceil() as u64,
        }
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unlimited => f.write_str("unlimited"),
            Self::PerSecond(rate) => write!(f, "{rate}"),
        }
    }
}

impl std::str::FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "unlimited" {
            return Ok(Self::Unlimited);
        }
        match text.parse::<f64>() {
            Ok(rate) if (0.001..=1000.0).contains(&rate) => Ok(Self::PerSecond(rate)),
            _ => Err("a rate is a number of requests a second from 0.001 to 1000, or `unlimited`".to_owned()),
        }
    }
}

impl TryFrom<String> for Rate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> Self {
        rate.to_string()
    }
}

/// `orbweaver url`.
#[derive(Debug, Args)]
pub struct UrlArgs {
    /// URLs; `-` reads them from stdin, one a line.
    #[arg(required = true, value_name = "URL|-")]
    pub urls: Vec<String>,
    /// The crawl whose fingerprints are shown.
    #[arg(long, default_value = crate::crawl::CRAWL)]
    pub crawl: String,
    /// What counts as the same page: standard, aggressive or raw, and rules after commas.
    #[arg(long, value_name = "POLICY", default_value_t)]
    pub canonical: Policy,
    /// A domain whose hosts are sites of their own (may be repeated).
    #[arg(long, value_name = "DOMAIN")]
    pub wide_domain: Vec<String>,
}

/// `orbweaver extract`.
#[derive(Debug, Args)]
pub struct ExtractArgs {
    /// The HTML file; `-` is stdin.
    #[arg(value_name = "FILE|-")]
    pub file: PathBuf,
    /// The URL that it was fetched from.
    #[arg(long, value_name = "URL")]
    pub base: String,
    /// The content type that the server gave.
    #[arg(long, value_name = "TYPE", default_value = "text/html")]
    pub content_type: String,
    /// Add the decoded body.
    #[arg(long)]
    pub html: bool,
}

/// `orbweaver robots`.
#[derive(Debug, Args)]
pub struct RobotsArgs {
    /// The robots.txt; `-` is stdin.
    #[arg(value_name = "FILE|-")]
    pub file: PathBuf,
    /// The name or user agent that asks.
    #[arg(long, value_name = "NAME")]
    pub agent: String,
    /// URLs, or paths that begin with `/`.
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<String>,
}

/// `orbweaver bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to measure.
    #[command(subcommand)]
    pub what: BenchCommand,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// A crawl of a generated web on one host, at no rate, everything durable; in turn with wget2 where there is one.
    Crawl(BenchCrawlArgs),
    /// Serve a generated web until stdin closes (what `bench crawl` starts as a process of its own).
    #[command(hide = true)]
    Serve(BenchCrawlArgs),
}

/// `orbweaver bench crawl`.
#[derive(Debug, Clone, Args)]
pub struct BenchCrawlArgs {
    /// Pages of the web.
    #[arg(long, default_value_t = 10_000)]
    pub pages: u64,
    /// Links on a page.
    #[arg(long, default_value_t = 30)]
    pub links: u32,
    /// Bytes of a page.
    #[arg(long, default_value_t = 16_384)]
    pub bytes: u32,
    /// Seed of the web.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How often each crawler runs.
    #[arg(long, default_value_t = 3)]
    pub runs: u32,
    /// Requests under way at once.
    #[arg(long, default_value_t = 64)]
    pub concurrency: u16,
    /// Pages that differ in numbers alone, as those of a trap do.
    #[arg(long)]
    pub alike: bool,
    /// Also crawl with `--traps off`, in turn, and compare.
    #[arg(long)]
    pub traps_off: bool,
    /// Only our crawler, without wget2.
    #[arg(long)]
    pub alone: bool,
}
