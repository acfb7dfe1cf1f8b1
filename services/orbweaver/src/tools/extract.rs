//! `orbweaver extract`: the document that a crawl would make of a file, or the entries of a sitemap or feed.

use std::ops::ControlFlow;

use orbweaver_extractor::{
    ExtractorConfig, PageInput,
    document::{rfc3339, standalone},
};
use orbweaver_sitemaps::Entry;
use orbweaver_stage::{Clock as _, SystemClock};
use orbweaver_url::{CrawlName, parse_seed, resolve};
use serde::Serialize;
use url::Url;

use super::read_input;
use crate::output::{json_line, to_stdout};
use crate::{cli::ExtractArgs, exit::Failure};

/// Entry of a sitemap or feed.
#[derive(Debug, Serialize)]
struct EntryLine {
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
    /// Whether it is a sitemap itself, named by an index.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    sitemap: bool,
}

/// Prints the document as one JSON line; of a sitemap or feed, each entry.
///
/// # Errors
/// Fails if the URL is malformed, the file cannot be read, or stdout cannot be written.
pub fn run(args: &ExtractArgs) -> Result<(), Failure> {
    let url = parse_seed(&args.base).map_err(|error| Failure::Usage(format!("--base `{}`: {error}", args.base)))?;
    let body = read_input(&args.file)?;
    if orbweaver_sitemaps::sniff(&body).is_some() {
        return print_entries(&body, &url);
    }
    let ExtractArgs { html, main_text, facts, other_links, .. } = *args;
    let markdown = args.markdown.unwrap_or_default();
    let options = ExtractorConfig { html, main_text, markdown, facts, other_links, ..ExtractorConfig::default() };
    let input = PageInput { url: &url, site: None, content_type: Some(&args.content_type), headers: &[], body: &body };
    let document = standalone(&input, &CrawlName::default(), SystemClock.now(), &options);
    to_stdout(|out| json_line(out, &document))
}

fn print_entries(body: &[u8], base: &Url) -> Result<(), Failure> {
    let line = |entry: Entry<'_>| {
        let url = resolve(base, &entry.url).map_or_else(|_| entry.url.to_string(), String::from);
        EntryLine { url, modified: entry.modified_ms.map(rfc3339), sitemap: entry.is_sitemap }
    };
    to_stdout(|out| {
        let mut written = Ok(());
        // A file with a known beginning is read as far as it goes.
        let _ = orbweaver_sitemaps::read(body, |entry| {
            written = json_line(out, &line(entry));
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        written
    })
}
