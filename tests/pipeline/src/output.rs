//! Output directory of a crawl.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::schemas::conforms;

/// Output of a crawl, read completely: each URL once, no broken line, and all as their schemas describe it.
#[derive(Debug)]
pub struct Output {
    /// `documents.jsonl`, by canonical URL.
    pub documents: BTreeMap<String, Value>,
    /// `urls.jsonl`, by canonical URL.
    pub urls: BTreeMap<String, Value>,
    /// `summary.json`.
    pub summary: Value,
}

impl Output {
    /// Reads the output directory.
    pub fn read(out: &Path) -> Result<Self> {
        let summary = std::fs::read_to_string(out.join("summary.json")).context("summary.json")?;
        let summary = serde_json::from_str(&summary).context("summary.json")?;
        conforms("summary.json", &summary)?;
        Ok(Self { summary, ..Self::of_cluster(out)? })
    }

    /// Reads the output directory of a collector, which has no summary.
    pub fn of_cluster(out: &Path) -> Result<Self> {
        Ok(Self { documents: Self::documents(out)?, urls: lines(out, "urls.jsonl")?, summary: Value::Null })
    }

    /// Reads only `documents.jsonl`, by canonical URL.
    pub fn documents(out: &Path) -> Result<BTreeMap<String, Value>> {
        lines(out, "documents.jsonl")
    }

    /// Checks the reason for which the crawl ended.
    pub fn ended_by(&self, reason: &str) -> Result<()> {
        ensure!(self.summary["ended_by"] == reason, "ended by {}, not {reason}", self.summary["ended_by"]);
        Ok(())
    }
}

fn lines(out: &Path, file: &str) -> Result<BTreeMap<String, Value>> {
    let path = out.join(file);
    let name = path.display();
    let text = std::fs::read_to_string(&path).with_context(|| format!("{name}"))?;
    ensure!(text.is_empty() || text.ends_with('\n'), "{name} ends in the middle of a line");
    let mut found = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let value: Value =
            serde_json::from_str(line).with_context(|| format!("{name}, line {}: {line}", number + 1))?;
        conforms(file, &value)?;
        let url = value["url"].as_str().with_context(|| format!("{name}, line {}: no url", number + 1))?.to_owned();
        // A requisite or an external URL may become a page, and has a line as each.
        let is_page = |line: &Value| line["requisite"] != true && line["external"] != true;
        let is_now_page = is_page(&value);
        let is_new = found.insert(url, value).is_none_or(|before| is_now_page && !is_page(&before));
        ensure!(is_new, "{name}, line {}: the URL was there before", number + 1);
    }
    Ok(found)
}
