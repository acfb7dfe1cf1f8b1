//! Ranks of sites, and their publication to a crawl that was interrupted.

use std::net::TcpListener;

use anyhow::{Context as _, Result, ensure};
use orbweaver_pipeline_tests::{Orbweaver, until};
use orbweaver_toyweb::WebConfig;
use serde_json::{Value, json};

use crate::{
    PATIENCE,
    console::{call, figures},
    serve,
};

/// Rows of the output of `orbweaver rank --format jsonl`.
fn rows(text: &str) -> Result<Vec<Value>> {
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

#[tokio::test]
async fn ranks_are_published_as_weights_of_the_sites_of_a_crawl_that_is_resumed() -> Result<()> {
    let web = serve(WebConfig { pages: 2_000, links: 6, bytes: 1_000, address_hosts: 4, ..WebConfig::default() })?;
    let dir = tempfile::tempdir()?;
    let out = dir.path().join("crawl");
    let crawl = Orbweaver::crawl(web.start_url(), &out, "--rate 10")?.start()?;
    let documents = out.join("documents.jsonl");
    until("documents", PATIENCE, || Ok(std::fs::metadata(&documents).is_ok_and(|file| file.len() > 5_000))).await?;
    crawl.interrupt()?;
    crawl.end(PATIENCE).await?.expect(75, &[])?;

    let rank = |options: &[&str]| Orbweaver::new([&["rank", out.to_str().unwrap_or_default()], options].concat());
    let ended = rank(&["--format", "jsonl"])?.end(PATIENCE).await?;
    ended.expect(0, &["converged after"])?;
    let ranked = rows(&ended.stdout)?;
    ensure!(ranked.len() >= 2, "a toy web has several sites: {ranked:?}");
    let sum: f64 = ranked.iter().filter_map(|row| row["rank"].as_f64()).sum();
    ensure!((sum - 1.0).abs() < 1e-9, "{ranked:?}");
    let text = rank(&["--top", "1"])?.end(PATIENCE).await?;
    ensure!(text.stdout.lines().count() == 2, "{}", text.stdout);
    let csv = rank(&["--format", "csv"])?.end(PATIENCE).await?;
    ensure!(csv.stdout.starts_with("position,site,rank,weight,links_in,links_out\n1,"), "{}", csv.stdout);
    rank(&["--max-iterations", "1", "--publish", "1"])?.end(PATIENCE).await?.expect(65, &["have not converged"])?;

    rank(&["--publish", "1000"])?.end(PATIENCE).await?.expect(0, &["published: "])?;
    rank(&["--publish", "1000"])?.end(PATIENCE).await?.expect(0, &["published: 0 of "])?;
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let resumed = Orbweaver::crawl(web.start_url(), &out, &format!("--rate 10 --console {free}"))?.start()?;
    figures(free, "the crawl runs", |figures| figures["state"] == "running").await?;
    let settings = call(free, "GET /v1/settings", &Value::Null).await?.context("no settings")?;
    for row in ranked.iter().filter(|row| row["weight"] != json!(100)) {
        let key = json!(format!("site/{}", row["site"].as_str().unwrap_or_default()));
        let setting = settings["settings"].as_array().into_iter().flatten().find(|setting| setting["key"] == key);
        let weight = &setting.with_context(|| format!("no setting of {key}"))?["value"]["weight_percent"];
        ensure!(*weight == row["weight"], "{row}: {weight}");
    }
    call(free, "POST /v1/crawl/stop", &json!({})).await?;
    resumed.end(PATIENCE).await?.expect(75, &[])
}

#[tokio::test]
async fn results_that_cannot_be_ranked_and_logs_that_cannot_be_weighed_are_refused() -> Result<()> {
    let web = serve(WebConfig { pages: 5, links: 2, bytes: 1_000, ..WebConfig::default() })?;
    let dir = tempfile::tempdir()?;
    let out = dir.path().join("crawl");
    Orbweaver::crawl(web.start_url(), &out, "")?.end(PATIENCE).await?.expect(0, &[])?;
    let shown = out.to_str().context("a path")?;
    for (arguments, code, said) in [
        (vec!["rank", shown, "--publish", "10"], 64, "the crawl in"),
        (vec!["rank", shown, "--damping", "1"], 64, "above 0 and below 1"),
        (vec!["rank", shown, "--tolerance", "0"], 64, "1e-15 to 1"),
        (vec!["rank", "nowhere"], 66, "nowhere/documents.jsonl"),
        (vec!["rank", "nowhere", "--publish", "1"], 64, "give --brokers"),
    ] {
        Orbweaver::new(arguments)?.within(dir.path()).end(PATIENCE).await?.expect(code, &[said])?;
    }
    std::fs::write(out.join("documents.jsonl"), "{\"site\":\"a.example\",\"links\":[]}\n{}\n")?;
    Orbweaver::new(["rank", shown])?.end(PATIENCE).await?.expect(66, &["documents.jsonl, line 2: missing field"])
}
