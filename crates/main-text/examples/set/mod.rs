//! Reading of a set of pages: `truth.jsonl.gz` and `pages/ID.html.gz`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use flate2::read::GzDecoder;
use serde_json::Value;
use url::Url;

/// A page of a set.
pub(crate) struct Page {
    pub(crate) id: String,
    pub(crate) html: String,
    #[allow(dead_code, reason = "only one of the examples needs it")]
    pub(crate) url: Url,
}

/// Reads the pages of the set in `dir`.
pub(crate) fn pages(dir: &Path) -> io::Result<Vec<Page>> {
    let truth = BufReader::new(GzDecoder::new(File::open(dir.join("truth.jsonl.gz"))?));
    let mut pages = vec![];
    for line in truth.lines() {
        let row: Value = serde_json::from_str(&line?)?;
        let id = row["id"].as_str().unwrap_or_default().to_owned();
        let mut bytes = vec![];
        GzDecoder::new(File::open(dir.join(format!("pages/{id}.html.gz")))?).read_to_end(&mut bytes)?;
        let charset = row["charset"].as_str().or_else(|| row["content_type"].as_str()?.split("charset=").nth(1));
        let url = Url::parse(row["url"].as_str().unwrap_or("https://example.com/")).map_err(io::Error::other)?;
        pages.push(Page { id, html: decode(&bytes, charset), url });
    }
    Ok(pages)
}

fn decode(bytes: &[u8], charset: Option<&str>) -> String {
    let encoding = charset.and_then(|name| Encoding::for_label(name.as_bytes()));
    let guess = if std::str::from_utf8(bytes).is_ok() { UTF_8 } else { WINDOWS_1252 };
    encoding.unwrap_or(guess).decode(bytes).0.into_owned()
}
