//! Rounds of visits to a web whose pages change.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use orbweaver_pipeline_tests::{Orbweaver, changes, check_changes};
use orbweaver_toyweb::{ToyWeb, WebConfig};
use serde_json::Value;
use tokio::time::sleep;

use crate::{PATIENCE, serve};

const ROUNDS: Duration = Duration::from_secs(14);
const BETWEEN: Duration = Duration::from_secs(1);

/// Makes the visits that are due; returns the summary.
async fn round(web: &ToyWeb, out: &Path) -> Result<Value> {
    let options = "--rate 100 --revisit 2s..16s";
    Orbweaver::crawl(web.start_url(), out, options)?.end(PATIENCE).await?.expect(0, &["will be visited again"])?;
    let summary = std::fs::read_to_string(out.join("summary.json"))?;
    serde_json::from_str(&summary).context("summary.json")
}

#[tokio::test]
async fn each_run_makes_the_visits_that_are_due_and_the_changes_are_those_that_the_server_sent() -> Result<()> {
    let config = WebConfig { pages: 60, links: 6, bytes: 1_000, version_ms: 1_500, ..WebConfig::default() };
    let (web, out) = (serve(config)?, tempfile::tempdir()?);
    let begun = Instant::now();
    let mut rounds = 0;
    while begun.elapsed() < ROUNDS {
        let summary = round(&web, out.path()).await?;
        ensure!(summary["ended_by"] == "asleep" && summary["asleep"] == 60 && summary["waiting"] == 0, "{summary}");
        rounds += 1;
        sleep(BETWEEN).await;
    }
    let entries = web.log().entries();
    let changed = check_changes(&entries, &changes(out.path())?)?;
    let unchanged = entries.iter().filter(|entry| entry.status == 304).count();
    let (first, all) = (entries.iter().filter(|entry| entry.version.is_some()).count(), entries.len());
    println!(
        "{rounds} rounds, {all} requests, {first} of pages, {changed} pages changed, {unchanged} answers were 304"
    );
    // A quarter changes every 1.5 s, another one every 6 s, the last one not at all.
    ensure!((30..60).contains(&changed) && unchanged > 0, "{changed} pages changed, {unchanged} answers were 304");
    let documents = std::fs::read_to_string(out.path().join("documents.jsonl"))?.lines().count();
    let lines: usize = changes(out.path())?.values().map(Vec::len).sum();
    ensure!(documents == lines, "{documents} documents of {lines} versions");
    Ok(())
}
