//! Arguments of `orbweaver report`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use orbweaver_url::Policy;

use crate::cli::duration;

/// Subcommands of `orbweaver report`.
#[derive(Debug, Subcommand)]
pub enum ReportCommand {
    /// List broken links, redirects, duplicate and missing titles, and slow pages, from the output directory of a crawl.
    Links(LinksArgs),
}

/// Arguments of `orbweaver report links`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Broken is a URL whose last outcome is `gone`: an error status, a failed lookup or connection, TLS, timeout, a redirect \
loop, too many redirects; also one of a server whose robots.txt cannot be read, and one that redirects there. Not broken: URLs that the crawl refused (robots.txt, content type, \
traps), or did not request because they are out of its scope \
(`crawl --check-external` requests them). A running or stopped crawl is reported as far as its \
results are written.

Columns of the CSV (and fields of the JSON lines) of broken and redirects, one line per link: url, result (ok, broken, \
loop, refused, not_crawled, unchecked), status and reason at the end of the redirects, hops, chain, final_url, via, \
page, link_url, text, rel; of titles, one line per page: site, title, url; of slow, one line per page, slowest first: url, \
fetch_ms (from the request to the end of the body), status, bytes. In CSV, a cell that begins with =, +, -, @, a \
tab or a carriage return gets a leading apostrophe, since spreadsheets would evaluate it.

Exit codes: 0 report written, 1 with --fail if there are broken links, 64 usage error, 66 results unreadable, \
73 output unusable, 74 temporary files unusable, 75 interrupted.

Examples:
  orbweaver report links docs.example.org.crawl
  orbweaver report links docs.example.org.crawl --only broken --format csv > broken.csv
  orbweaver report links docs.example.org.crawl --format csv --to reports")]
pub struct LinksArgs {
    /// Output directory of a crawl.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Report only these sections (may be repeated, or separated by commas).
    #[arg(long, value_name = "SECTION", value_delimiter = ',')]
    pub only: Vec<Section>,
    /// Format of the report; in CSV, each section is a table: give one with --only, or --to.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Write each section to a file of this directory, such as broken.csv, and the summary to stdout.
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// Directory for temporary files [default: the crawl's directory].
    #[arg(long, value_name = "DIR")]
    pub temp: Option<PathBuf>,
    /// Canonicalization policy of the crawl [default: that of state/crawl.json; standard for results of a cluster].
    #[arg(long, value_name = "POLICY")]
    pub canonical: Option<Policy>,
    /// Least time of a slow page, such as 500ms: from the request to the end of its body.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub slow: Duration,
    /// Exit with 1 if there are broken links.
    #[arg(long)]
    pub fail: bool,
}

impl LinksArgs {
    /// Returns the least time of a slow page, in milliseconds.
    #[must_use]
    pub fn slow_ms(&self) -> u64 {
        u64::try_from(self.slow.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the sections to report, in their order.
    #[must_use]
    pub fn sections(&self) -> Vec<Section> {
        let wanted = |section: &Section| self.only.is_empty() || self.only.contains(section);
        Section::ALL.into_iter().filter(wanted).collect()
    }
}

/// Section of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Section {
    /// Broken URLs with the links to them
    Broken,
    /// Linked URLs that redirect
    Redirects,
    /// Titles that several pages of a site have, and pages without a title
    Titles,
    /// Pages whose last fetch took long
    Slow,
}

impl Section {
    /// All sections, in the order of the report.
    pub const ALL: [Self; 4] = [Self::Broken, Self::Redirects, Self::Titles, Self::Slow];

    /// Returns the name, as given on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Broken => "broken",
            Self::Redirects => "redirects",
            Self::Titles => "titles",
            Self::Slow => "slow",
        }
    }
}

/// Format of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Human-readable
    #[default]
    Text,
    /// A table with a header (RFC 4180); of a report, one per section
    Csv,
    /// One JSON object per line
    Jsonl,
}

impl Format {
    /// Returns the extension of a file in this format.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Text => "txt",
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
        }
    }
}
