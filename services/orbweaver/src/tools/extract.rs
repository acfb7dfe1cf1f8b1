//! `orbweaver extract`: the document that a crawl would make of a file.

use orbweaver_extractor::{ExtractorConfig, PageInput, document::standalone};
use orbweaver_stage::{Clock as _, SystemClock};
use orbweaver_url::{CrawlName, parse_seed};

use super::read_input;
use crate::output::{json_line, to_stdout};
use crate::{cli::ExtractArgs, exit::Failure};

/// Prints the document as one JSON line.
///
/// # Errors
/// Fails if the URL is malformed, the file cannot be read, or stdout cannot be written.
pub fn run(args: &ExtractArgs) -> Result<(), Failure> {
    let url = parse_seed(&args.base).map_err(|error| Failure::Usage(format!("--base `{}`: {error}", args.base)))?;
    let body = read_input(&args.file)?;
    let ExtractArgs { html, main_text, .. } = *args;
    let markdown = args.markdown.unwrap_or_default();
    let options = ExtractorConfig { html, main_text, markdown, ..ExtractorConfig::default() };
    let input = PageInput { url: &url, site: None, content_type: Some(&args.content_type), headers: &[], body: &body };
    let document = standalone(&input, &CrawlName::default(), SystemClock.now(), &options);
    to_stdout(|out| json_line(out, &document))
}
