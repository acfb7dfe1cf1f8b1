//! Converts pages: `convert text DIR` chooses the main text of each page of a set, `convert markdown FILE` converts whole
//! pages, which are the field `html` of JSON lines. Writes JSON lines with `id`, `text` or
//! `markdown`, and milliseconds.

#[path = "set/mod.rs"]
mod set;

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use orbweaver_main_text::{MainText, MarkdownOptions};
use serde_json::{Value, json};
use url::Url;

fn milliseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut out = BufWriter::new(io::stdout().lock());
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["text", dir] => {
            for page in set::pages(Path::new(dir))? {
                let start = Instant::now();
                let main = MainText::of(&page.html);
                let text = main.text();
                let ms = milliseconds(start);
                let start = Instant::now();
                let markdown = main.markdown(&page.url, MarkdownOptions::default());
                let row = json!({
                    "id": page.id, "text": text, "markdown": markdown, "ms": ms, "markdown_ms": milliseconds(start),
                });
                writeln!(out, "{row}")?;
            }
        }
        ["markdown", file] => {
            for line in std::fs::read_to_string(file)?.lines() {
                let row: Value = serde_json::from_str(line)?;
                let base =
                    Url::parse(row["base"].as_str().unwrap_or("https://example.com/")).map_err(io::Error::other)?;
                let page = MainText::whole(row["html"].as_str().unwrap_or_default());
                let markdown = page.markdown(&base, MarkdownOptions { images: true });
                writeln!(out, "{}", json!({ "id": row["id"], "markdown": markdown }))?;
            }
        }
        _ => return Err(io::Error::other("usage: convert text DIR | convert markdown FILE")),
    }
    out.flush()
}
