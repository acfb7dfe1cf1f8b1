//! Change feed of a web whose pages change.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context as _, Result, ensure};
use orbweaver_toyweb::Entry;
use serde_json::Value;

use crate::{normalized, schemas::conforms};

/// Reads `changes.jsonl`: the lines of each URL, in order.
pub fn changes(out: &Path) -> Result<BTreeMap<String, Vec<Value>>> {
    let text = std::fs::read_to_string(out.join("changes.jsonl")).context("changes.jsonl")?;
    let mut changes: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).with_context(|| format!("changes.jsonl: {line}"))?;
        conforms("changes.jsonl", &line)?;
        let url = line["url"].as_str().context("a URL")?.to_owned();
        changes.entry(url).or_default().push(line);
    }
    Ok(changes)
}

/// Returns the versions of each page that the server sent, in order, without repeats.
pub fn sent_versions(entries: &[Entry]) -> BTreeMap<String, Vec<u64>> {
    let mut versions: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for entry in entries {
        if let Some(version) = entry.version {
            let sent = versions.entry(normalized(&entry.host, &entry.target)).or_default();
            if sent.last() != Some(&version) {
                sent.push(version);
            }
        }
    }
    versions
}

/// Checks that the changes of each URL are exactly those between the versions that the server sent. Returns the number of
/// changed pages.
pub fn check_changes(entries: &[Entry], changes: &BTreeMap<String, Vec<Value>>) -> Result<usize> {
    let versions = sent_versions(entries);
    ensure!(versions.keys().eq(changes.keys()), "{} pages were sent, {} changed", versions.len(), changes.len());
    let mut changed = 0;
    for (url, sent) in &versions {
        let lines = &changes[url];
        ensure!(lines.len() == sent.len(), "{url}: versions {sent:?}, changes {lines:?}");
        let mut hash = &Value::Null;
        for (number, line) in lines.iter().enumerate() {
            let kind = if number == 0 { "new" } else { "changed" };
            ensure!(line["change"] == kind && line["previous_hash"] == *hash, "{url}: after {hash}: {line}");
            // Each version has its number in the text.
            let text_changed = if number == 0 { Value::Null } else { Value::Bool(true) };
            ensure!(line["text_changed"] == text_changed, "{url}: {line}");
            hash = &line["content_hash"];
            ensure!(hash.is_string() && *hash != line["previous_hash"], "{url}: {line}");
        }
        changed += usize::from(lines.len() > 1);
    }
    Ok(changed)
}
