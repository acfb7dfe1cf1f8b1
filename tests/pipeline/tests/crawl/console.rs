//! The console of a crawl: its figures, its controls, and the results afterwards.

use std::{
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use orbweaver_pipeline_tests::Orbweaver;
use orbweaver_toyweb::WebConfig;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{PATIENCE, http::request, serve};

/// Time of the crawl in which a crawl that is paused, or whose site is frozen, must not fetch anything.
const STILL: f64 = 2.0;

/// Returns the JSON of a successful answer; `None` if nothing listens.
pub(crate) async fn call(address: SocketAddr, line: &str, body: &Value) -> Result<Option<Value>> {
    let body = if line.starts_with("GET") { String::new() } else { body.to_string() };
    let Some(answer) = request(address, line, &body).await? else { return Ok(None) };
    ensure!(answer.starts_with("HTTP/1.1 20"), "{line}: {answer}");
    let (_, body) = answer.split_once("\r\n\r\n").context("no body")?;
    Ok(Some(serde_json::from_str(body)?))
}

/// Reads the figures until they satisfy a condition, which gets those that were read before, too.
pub(crate) async fn figures(address: SocketAddr, what: &str, mut holds: impl FnMut(&Value) -> bool) -> Result<Value> {
    let deadline = Instant::now() + PATIENCE;
    let mut last = Value::Null;
    loop {
        // Between a crawl and its results nothing listens.
        if let Some(figures) = call(address, "GET /v1/crawl", &Value::Null).await.unwrap_or_default() {
            if holds(&figures) {
                return Ok(figures);
            }
            last = figures;
        }
        ensure!(Instant::now() < deadline, "{what}: not in {last}");
        sleep(Duration::from_millis(50)).await;
    }
}

fn fetched(figures: &Value) -> u64 {
    figures["urls"]["fetched"].as_u64().unwrap_or_default()
}

/// Waits until nothing was fetched for [`STILL`] seconds of the crawl.
async fn is_still(address: SocketAddr, what: &str) -> Result<Value> {
    let mut since: Option<(u64, f64)> = None;
    figures(address, what, |figures| {
        let (pages, elapsed) = (fetched(figures), figures["elapsed_seconds"].as_f64().unwrap_or_default());
        match since {
            Some((before, at)) if before == pages => elapsed - at >= STILL,
            _ => {
                since = Some((pages, elapsed));
                false
            }
        }
    })
    .await
}

async fn grows(address: SocketAddr, still: &Value, what: &str) -> Result<()> {
    figures(address, what, |figures| fetched(figures) > fetched(still) + 3).await.map(drop)
}

#[tokio::test]
async fn a_crawl_is_paused_resumed_and_stopped_and_its_site_frozen_and_runs_after_the_next_start() -> Result<()> {
    let web = serve(WebConfig { pages: 300, links: 6, bytes: 1_000, ..WebConfig::default() })?;
    let out = tempfile::tempdir()?;
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let crawl = Orbweaver::crawl(web.start_url(), out.path(), &format!("--rate 10 --console {free}"))?.start()?;
    let begun = figures(free, "pages", |figures| fetched(figures) > 3).await?;
    ensure!(begun["state"] == "running" && begun["crawl"] == "default", "{begun}");
    let stages: Vec<_> = begun["stages"].as_array().context("no stages")?.iter().map(|stage| &stage["name"]).collect();
    ensure!(
        stages.starts_with(&[&json!("normalizer-dedup"), &json!("frontier"), &json!("rate-limiter")]),
        "{stages:?}"
    );

    let site = begun["name"].as_str().context("no name")?;
    let none = json!({});
    call(free, "POST /v1/crawl/pause", &none).await?;
    let still = is_still(free, "a paused crawl is still").await?;
    ensure!(still["state"] == "paused" && still["queued"].as_u64() > Some(0), "{still}");
    call(free, "POST /v1/crawl/resume", &none).await?;
    grows(free, &still, "a resumed crawl fetches").await?;

    let setting = json!({"frozen": true, "requests_per_second": null});
    let frozen =
        call(free, &format!("PUT /v1/site?site=http%3A%2F%2F{site}%2Fx"), &setting).await?.context("no answer")?;
    ensure!(frozen["site"] == site && frozen["frozen"] == true, "{frozen}");
    let still = is_still(free, "a frozen site is still").await?;
    ensure!(still["frozen"] == json!([site]) && still["state"] == "running", "{still}");
    let settings = call(free, "GET /v1/settings", &none).await?.context("no settings")?;
    let keys: Vec<_> = settings["settings"].as_array().into_iter().flatten().map(|setting| &setting["key"]).collect();
    ensure!(keys == [&json!("crawl/default"), &json!(format!("site/{site}"))], "{settings}");
    let thawed = json!({"frozen": false, "requests_per_second": null});
    call(free, &format!("PUT /v1/site?site={site}"), &thawed).await?;
    grows(free, &still, "a site that was thawed is fetched").await?;

    call(free, "POST /v1/crawl/pause", &none).await?;
    call(free, "POST /v1/crawl/stop", &none).await?;
    crawl.end(PATIENCE).await?.expect(75, &[&format!("console: http://{free}/"), "stopped before completion"])?;
    let resumed = Orbweaver::crawl(web.start_url(), out.path(), "--rate unlimited")?;
    resumed.end(PATIENCE).await?.expect(0, &["complete: 300 pages"])
}

#[tokio::test]
async fn the_results_of_a_crawl_that_has_ended_are_served_until_a_signal() -> Result<()> {
    let web = serve(WebConfig { pages: 20, links: 6, bytes: 1_000, ..WebConfig::default() })?;
    let out = tempfile::tempdir()?;
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let options = format!("--warc --console {free}");
    let mut expected = Value::Null;
    // Of a crawl that ends now, and of one that had ended before the command.
    for run in 0..2 {
        let crawl = Orbweaver::crawl(web.start_url(), out.path(), &options)?.start()?;
        let ended = figures(free, "the results", |figures| figures["started_at"].is_null()).await?;
        ensure!(ended["state"] == "ended" && ended["ended_by"] == "complete" && fetched(&ended) == 20, "{ended}");
        ensure!(ended["actions"] == json!([]), "{ended}");
        ensure!(run == 0 || ended["urls"] == expected, "{ended}, not {expected}");
        expected = ended["urls"].clone();
        let url =
            call(free, &format!("GET /v1/url?url={}", web.start_url()), &Value::Null).await?.context("no answer")?;
        ensure!(url["state"]["status"] == 200, "{url}");
        let change = request(free, "POST /v1/crawl/pause", "{}").await?.unwrap_or_default();
        ensure!(change.starts_with("HTTP/1.1 409") && change.contains("not-running"), "{change}");
        crawl.interrupt()?;
        crawl.end(PATIENCE).await?.expect(0, &[])?;
    }
    let taken = TcpListener::bind(free)?;
    let elsewhere = tempfile::tempdir()?;
    let second = Orbweaver::crawl(web.start_url(), elsewhere.path(), &options)?.end(PATIENCE).await?;
    drop(taken);
    second.expect(74, &["--console: cannot listen on", &free.to_string()])?;
    let exposed = Orbweaver::crawl(web.start_url(), &elsewhere.path().join("none"), "--console 0.0.0.0:0")?;
    exposed.end(PATIENCE).await?.expect(64, &["--console-token-sha256 FILE is required"])?;
    ensure!(!elsewhere.path().join("none").exists(), "a refused option leaves no directory");
    Ok(())
}
