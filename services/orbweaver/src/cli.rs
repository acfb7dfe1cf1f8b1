//! The command line.

use std::{
    path::PathBuf,
    time::{Duration, UNIX_EPOCH},
};

use clap::{
    Args, Parser, Subcommand,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use orbweaver_messages::{CrawlOrder, CrawlPurpose, Markdown, Millis, Scope, Traps};
use orbweaver_scope::Revision;
use orbweaver_stage::{Clock as _, SystemClock};
use orbweaver_url::{CrawlName, Policy};
use serde::{Deserialize, Serialize};

mod quantities;

pub use quantities::{address, duration, size};

use crate::crawl::{
    archive_to::ArchiveTo,
    console::ConsoleOptions,
    export_to::ExportOptions,
    intranet::IntranetOptions,
    metrics::MetricsOptions,
    order, purpose,
    revisit::{self, RevisitOption},
};

/// Heading of the options of `orbweaver crawl` that apply to a cluster only.
#[cfg(feature = "cluster")]
pub const CLUSTER_HEADING: &str = "On a cluster";

/// Crawls the web politely, and resumes after any interruption.
#[derive(Debug, Parser)]
#[command(name = "orbweaver", version, about, max_term_width = 110)]
pub struct Cli {
    /// Selected subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// Subcommands of `orbweaver`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Crawl from the given URLs, or resume a crawl that was stopped.
    Crawl(Box<CrawlArgs>),
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    Cluster(crate::cluster::args::ClusterCommand),
    /// Check brokers, topics, stages, crawls, store and disk of a cluster, and name remedies.
    #[cfg(feature = "cluster")]
    Doctor(Box<crate::doctor::args::DoctorArgs>),
    /// Report on the results of a crawl.
    #[command(subcommand)]
    Report(crate::report::args::ReportCommand),
    /// Export documents, links and pages of a crawl as compressed files of limited size, with a manifest.
    Export(crate::shards::args::ExportArgs),
    /// Rank the sites of a crawl by the links between them, and publish the ranks as weights.
    Rank(Box<crate::rank::args::RankArgs>),
    /// Serve what a crawl knows of its URLs over HTTP, and a console for the browser.
    Serve(crate::serve::ServeArgs),
    /// Show the canonical form, site, slot and fingerprint of URLs, one JSON line per URL.
    Url(UrlArgs),
    /// Show the document that a crawl would extract from an HTML file, as one JSON line.
    Extract(ExtractArgs),
    /// Show whether a robots.txt allows URLs, and by which rule, one JSON line per URL.
    Robots(crate::tools::robots::RobotsArgs),
    /// Measure deduplication with generated URLs, and verify its result.
    #[command(hide = true)]
    Replay(crate::replay::args::ReplayArgs),
    /// Run benchmarks.
    #[command(subcommand, hide = true)]
    Bench(BenchCommand),
}

/// Arguments of `orbweaver crawl`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 complete or at its cap, 64 usage error, 66 seeds or headers file unreadable, 69 no seed could be fetched,
73 output directory or export unusable, 74 log or store failed, 75 stopped before completion (the same command resumes).

Examples:
  orbweaver crawl --demo
  orbweaver crawl docs.example.org --contact mailto:me@example.org
  orbweaver crawl --out docs.example.org.crawl        # resumes the crawl")]
pub struct CrawlArgs {
    /// Seed URLs; a bare host means https.
    #[arg(value_name = "URL")]
    pub urls: Vec<String>,
    /// Output directory, which also holds the state for resuming the crawl [default: ./HOST.crawl].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Read more seeds from a file, one URL or JSON object (schemas/seed.v1.schema.json) per line; `-` is stdin.
    #[arg(long, value_name = "FILE|-")]
    pub seeds: Option<PathBuf>,
    /// Crawl a small demonstration web served by this process; needs no internet access.
    #[arg(long)]
    pub demo: bool,
    /// Stop after this time, such as 90s or 10m; the same command resumes the crawl.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub max_time: Option<Duration>,
    #[command(flatten)]
    pub extent: Extent,
    /// Canonicalization policy, which determines the URLs that count as one page: standard, aggressive or raw, and
    /// rules after commas, such as `standard,sort-query,drop-tracking`. Fixed when the crawl is created
    /// [default: standard].
    #[arg(long, value_name = "POLICY")]
    pub canonical: Option<Policy>,
    /// Domain whose hosts count as separate sites, such as that of a hosting provider (may be repeated). Fixed when the
    /// crawl is created.
    #[arg(long, value_name = "DOMAIN")]
    pub wide_domain: Vec<String>,
    /// Maximum requests per second to one site; `unlimited` only for sites of your own [default: 1]. On a cluster the
    /// rate of this crawl, at most 10.
    #[arg(long, value_name = "N|unlimited", allow_negative_numbers = true)]
    pub rate: Option<Rate>,
    /// Maximum requests in flight, over all sites [default: 64].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub concurrency: Option<u16>,
    /// User agent sent with every request; its first product name is looked up in robots.txt [default:
    /// Orbweaver/VERSION].
    #[arg(long, value_name = "TEXT")]
    pub user_agent: Option<String>,
    /// Contact for site owners: a URL or mailto: address, appended to the user agent.
    #[arg(long, value_name = "TEXT")]
    pub contact: Option<String>,
    /// Send a header with every request, as `Name: value`, or the headers of a file, one per line, as `@FILE` (may be
    /// repeated). Secrets, such as Authorization or Cookie, are accepted only in a file, since every user of the
    /// machine can see the command line; the crawl stores the path of the file, not its content. On a cluster the
    /// headers are stored in crawl.control, where every reader of the log can see them, and secrets are refused.
    #[arg(long, value_name = "HEADER|@FILE")]
    pub header: Vec<String>,
    /// Do not request robots.txt. Only for sites of your own.
    #[arg(long)]
    pub ignore_robots: bool,
    /// Purpose of the crawl: pages that their sites refuse for it are not kept, and end as refused (`purpose`). Several are
    /// separated by commas (may be repeated) [default: none, all pages are kept].
    #[arg(long, value_name = "PURPOSE", value_delimiter = ',', value_parser = one_of(&purpose::ALL, purpose::name))]
    pub purpose: Vec<Option<CrawlPurpose>>,
    /// Send the requests through this proxy: http://, https://, socks5:// or socks5h:// with `[USER:PASSWORD@]HOST[:PORT]`.
    /// A URL with a password is accepted only in a file, as `@FILE`. The password is not stored: to resume the crawl, give
    /// the option again.
    #[arg(long, value_name = "URL|@FILE")]
    pub proxy: Option<String>,
    /// Read the sitemaps of sites: those that robots.txt names, else /sitemap.xml. Also a sitemap or feed as a seed.
    #[arg(long)]
    pub sitemaps: bool,
    /// Read the feeds (RSS, Atom, JSON Feed) that pages declare.
    #[arg(long)]
    pub feeds: bool,
    /// Archive all responses in WARC files in the directory `warc` of the output: pages, redirects, errors, bodies of any
    /// type, robots.txt; with `--warc=s3://BUCKET/PREFIX` in an S3-compatible store. On a cluster orbweaver-archiver writes
    /// them to its own directory, or to the store of its setting `archiver.upload`.
    #[arg(long, value_name = "s3://BUCKET/PREFIX", num_args = 0..=1, require_equals = true, default_missing_value = ArchiveTo::NONE_GIVEN, value_parser = ArchiveTo::parse)]
    pub warc: Option<ArchiveTo>,
    /// Also archive what pages need to be shown, wherever it is: pictures, style sheets, scripts, fonts, media and frames; at
    /// most N of each page or style sheet [default with the option: 500]. Only --exclude applies to it. Requires --warc.
    #[arg(long, value_name = "N", requires = "warc", num_args = 0..=1, require_equals = true, default_missing_value = "500", value_parser = clap::value_parser!(u32).range(1..))]
    pub requisites: Option<u32>,
    #[command(flatten)]
    pub intranet: IntranetOptions,
    /// Also follow links marked nofollow.
    #[arg(long)]
    pub follow_nofollow: bool,
    /// Add the decoded body to each document.
    #[arg(long)]
    pub html: bool,
    /// Add the main text to each document: without navigation and other boilerplate, with paragraphs.
    #[arg(long)]
    pub main_text: bool,
    /// Add the main text to each document as Markdown; `--markdown=images` also has the images.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "text", value_parser = one_of(&MARKDOWN, Markdown::name))]
    pub markdown: Option<Markdown>,
    /// Add facts of the page to each document: dates, authors, Open Graph, JSON-LD, microdata, detected language and more.
    #[arg(long)]
    pub facts: bool,
    /// Add the other links of the page to each document: pictures with their `alt`, scripts, styles, media, `link` elements.
    #[arg(long)]
    pub other_links: bool,
    /// Mark documents whose main text is nearly that of an earlier page of their site: `near_duplicate_of`.
    #[arg(long)]
    pub near_duplicates: bool,
    #[command(flatten)]
    pub export: ExportOptions,
    #[command(flatten)]
    pub metrics: MetricsOptions,
    #[command(flatten)]
    pub console: ConsoleOptions,
    #[cfg(feature = "cluster")]
    #[command(flatten, next_help_heading = CLUSTER_HEADING)]
    pub cluster: crate::cluster::args::CrawlOptions,
}

/// Scope and limits of a crawl, which may change while it runs.
#[derive(Debug, Args)]
pub struct Extent {
    /// Scope of the crawl, relative to its seeds; it may be widened later [default: host].
    #[arg(long, value_parser = one_of(&SCOPES, Scope::name))]
    pub scope: Option<Scope>,
    /// Crawl only URLs that match (regular expression, unanchored, on the canonical URL; may be repeated). For an
    /// existing crawl, replaces all earlier patterns; an empty pattern means none.
    #[arg(long, value_name = "REGEX")]
    pub include: Vec<String>,
    /// Do not crawl URLs that match; overrides --include (may be repeated; replaces earlier patterns in the same way).
    #[arg(long, value_name = "REGEX")]
    pub exclude: Vec<String>,
    /// Treatment of traps, which are endless URLs without new content, such as calendars: nothing (off), fetch them
    /// after all other URLs of their site (learn), or also refuse them past a limit (strict) [default: learn].
    #[arg(long, value_parser = one_of(&TRAPS, Traps::name))]
    pub traps: Option<Traps>,
    /// Order of the URLs of each site, for those that are found from now on: breadth-first, depth-first, best-first (new
    /// ones near the seeds, and more of sites that answer well), or terms of the weight, such as
    /// `depth=70%,half-life=2days,answers=30%` [default: breadth-first].
    #[arg(long, value_name = "ORDER", value_parser = order::parse)]
    pub order: Option<CrawlOrder>,
    /// Visit each URL again, and record new, changed and gone pages: the shortest interval between two visits, and
    /// optionally the longest one, such as `1day` or `6hours..30days` [default of the longest: thirty times the shortest].
    /// Pages that change rarely are visited more rarely. `never`: once. Other intervals for types that the crawl accepts:
    /// `6hours..30days,image/*=90days`.
    #[arg(long, value_name = "INTERVAL[..LONGEST][,TYPE=…]|never", value_parser = revisit::parse)]
    pub revisit: Option<RevisitOption>,
    /// Maximum link depth from a seed.
    #[arg(long, value_name = "N|none", allow_negative_numbers = true)]
    pub max_depth: Option<Limit<u16>>,
    /// Request each link that leads out of the crawl once, without its body, to know whether it is broken (`orbweaver report
    /// links`), at the rate of its site; only --exclude applies to it. `--check-external=false` ends that.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub check_external: Option<bool>,
    /// Maximum number of pages to fetch. URLs that are queued at this cap stay queued, and are fetched once it is raised.
    #[arg(long, value_name = "N|none", allow_negative_numbers = true, value_parser = pages)]
    pub max_pages: Option<Limit<u64>>,
    /// Maximum number of pages to fetch of each site, not counting revisits. The other URLs of the site end as refused (`site_cap`), so that
    /// the crawl completes; raising it later does not bring them back. Pages that were fetched before it was set do not count.
    #[arg(long, value_name = "N|none", allow_negative_numbers = true, value_parser = pages)]
    pub max_pages_per_site: Option<Limit<u64>>,
    /// Maximum decoded bytes of bodies to read, such as `10GiB`; as for --max-pages, but requests in flight may exceed it.
    #[arg(long, value_name = "SIZE|none", value_parser = bytes)]
    pub max_bytes: Option<Limit<u64>>,
    /// End of the crawl: a time (`2027-01-01T00:00:00Z`), or one from now on (`7days`). URLs stay queued until it is put off.
    #[arg(long, value_name = "TIME|DURATION|none", value_parser = until)]
    pub until: Option<Limit<Millis>>,
}

impl Extent {
    /// Returns the given options as a change of an existing crawl.
    #[must_use]
    pub fn revision(&self) -> Revision {
        Revision {
            scope: self.scope,
            include: patterns(&self.include),
            exclude: patterns(&self.exclude),
            max_depth: self.max_depth.map(|limit| limit.0),
            check_external: self.check_external,
            max_pages: self.max_pages.map(|limit| limit.0),
            max_pages_per_site: self.max_pages_per_site.map(|limit| limit.0),
            max_bytes: self.max_bytes.map(|limit| limit.0),
            ends_at_ms: self.until.map(|limit| limit.0),
            traps: self.traps,
            order: self.order,
            revisit: self.revisit.clone().map(|revisit| revisit.0),
            ..Revision::default()
        }
    }
}

const SCOPES: [(Scope, &str); 4] = [
    (Scope::Path, "The host and port of a seed, below its directory"),
    (Scope::Host, "The host and port of a seed"),
    (Scope::Site, "The registrable domain of a seed"),
    (Scope::Any, "Any URL"),
];

pub(crate) const MARKDOWN: [(Markdown, &str); 3] = [
    (Markdown::Text, "With links, and without images"),
    (Markdown::Images, "With links and images"),
    (Markdown::None, "No Markdown"),
];

const TRAPS: [(Traps, &str); 3] = [
    (Traps::Off, "Do not look for traps"),
    (Traps::Learn, "Queue URLs of traps behind all other URLs of their site"),
    (Traps::Strict, "As `learn`, and refuse URLs of traps past a limit"),
];

/// Returns the parser of an option with these values, each with its description.
pub(crate) fn one_of<T>(
    values: &'static [(T, &'static str)],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let possible = values.iter().map(|(value, help)| PossibleValue::new(name(*value)).help(*help));
    PossibleValuesParser::new(possible).try_map(move |given| {
        let value = values.iter().find(|(value, _)| name(*value) == given);
        value.map(|(value, _)| *value).ok_or("not one of the possible values")
    })
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
            .map_err(|error: std::num::ParseIntError| format!("expected a number, or `none`: {error}"))
    }
}

fn pages(text: &str) -> Result<Limit<u64>, String> {
    match text.parse()? {
        Limit(Some(0)) => Err("expected at least 1, or `none`".to_owned()),
        limit => Ok(limit),
    }
}

fn bytes(text: &str) -> Result<Limit<u64>, String> {
    if text == "none" {
        return Ok(Limit(None));
    }
    size(text).map(|bytes| Limit(Some(bytes))).map_err(|expected| format!("{expected}, or `none`"))
}

fn until(text: &str) -> Result<Limit<Millis>, String> {
    if text == "none" {
        return Ok(Limit(None));
    }
    let span = |since: Duration| Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX);
    if let Ok(time) = humantime::parse_rfc3339_weak(text) {
        return Ok(Limit(Some(time.duration_since(UNIX_EPOCH).map_or(0, span))));
    }
    let from_now = humantime::parse_duration(text).map_err(|_| {
        format!("`{text}`: expected a time, such as `2027-01-01T00:00:00Z`, a duration, such as `7days`, or `none`")
    })?;
    Ok(Limit(Some(SystemClock.now().saturating_add(span(from_now)))))
}

/// Returns the given patterns; an empty one stands for none. `None`: no pattern was given.
#[must_use]
pub fn patterns(given: &[String]) -> Option<Vec<String>> {
    let patterns = || given.iter().filter(|pattern| !pattern.is_empty()).cloned().collect();
    (!given.is_empty()).then(patterns)
}

/// Request rate to one site.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Rate {
    /// As fast as the site answers.
    Unlimited,
    /// Requests per second.
    PerSecond(f64),
}

impl Rate {
    /// Returns the minimum time between two requests, in milliseconds; 0: unlimited.
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
            _ => Err("expected requests per second from 0.001 to 1000, or `unlimited`".to_owned()),
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

/// Arguments of `orbweaver url`.
#[derive(Debug, Args)]
pub struct UrlArgs {
    /// URLs; `-` reads them from stdin, one per line.
    #[arg(required = true, value_name = "URL|-")]
    pub urls: Vec<String>,
    /// Crawl for which the fingerprints are computed.
    #[arg(long, default_value_t)]
    pub crawl: CrawlName,
    /// Canonicalization policy: standard, aggressive or raw, and rules after commas.
    #[arg(long, value_name = "POLICY", default_value_t)]
    pub canonical: Policy,
    /// Domain whose hosts count as separate sites (may be repeated).
    #[arg(long, value_name = "DOMAIN")]
    pub wide_domain: Vec<String>,
}

/// Arguments of `orbweaver extract`.
#[derive(Debug, Args)]
pub struct ExtractArgs {
    /// HTML file, sitemap or feed; `-` is stdin.
    #[arg(value_name = "FILE|-")]
    pub file: PathBuf,
    /// URL that the file was fetched from.
    #[arg(long, value_name = "URL")]
    pub base: String,
    /// Content type that the server sent.
    #[arg(long, value_name = "TYPE", default_value = "text/html")]
    pub content_type: String,
    /// Add the decoded body.
    #[arg(long)]
    pub html: bool,
    /// Add the main text: without navigation and other boilerplate, with paragraphs.
    #[arg(long)]
    pub main_text: bool,
    /// Add the main text as Markdown; `--markdown=images` also has the images.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "text", value_parser = one_of(&MARKDOWN, Markdown::name))]
    pub markdown: Option<Markdown>,
    /// Add facts of the page: dates, authors, Open Graph, JSON-LD, microdata, detected language and more.
    #[arg(long)]
    pub facts: bool,
    /// Add the other links of the page: pictures with their `alt`, scripts, styles, media, `link` elements.
    #[arg(long)]
    pub other_links: bool,
}

/// Run benchmarks.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Crawl a generated web on one host, without a rate limit, everything durable; alternate with wget2 if it is
    /// installed.
    Crawl(BenchCrawlArgs),
}

/// Arguments of `orbweaver bench crawl`.
#[derive(Debug, Args)]
pub struct BenchCrawlArgs {
    /// Pages of the generated web.
    #[arg(long, default_value_t = 10_000)]
    pub pages: u64,
    /// Runs per crawler.
    #[arg(long, default_value_t = 3)]
    pub runs: u32,
    /// Make pages that differ only in numbers, like those of a trap.
    #[arg(long)]
    pub alike: bool,
    /// Also crawl with these options of `orbweaver crawl`, separated by spaces, alternating, and compare (may be repeated).
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    pub with: Vec<String>,
    /// Run only Orbweaver, without wget2.
    #[arg(long)]
    pub alone: bool,
}

/// Parses the arguments of an `orbweaver crawl`.
#[cfg(test)]
pub(crate) fn crawl_args(arguments: &[&str]) -> Box<CrawlArgs> {
    match Cli::parse_from(["orbweaver", "crawl"].iter().chain(arguments)).command {
        Command::Crawl(args) => args,
        _ => unreachable!("it is `crawl`"),
    }
}
