//! Metrics of a crawl in one process.

use std::{net::TcpListener, time::Duration};

use anyhow::{Context as _, Result, ensure};
use orbweaver_pipeline_tests::{Orbweaver, until};
use orbweaver_toyweb::WebConfig;
use tokio::time::{Instant, sleep};

use crate::{PATIENCE, http::request, serve};

/// Returns the value of a metric without labels.
fn value(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test]
async fn the_metrics_of_all_services_are_served_while_the_crawl_runs() -> Result<()> {
    let web = serve(WebConfig { pages: 100, links: 6, bytes: 1_000, ..WebConfig::default() })?;
    let out = tempfile::tempdir()?;
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let options = format!("--rate 10 --warc --metrics {free}");
    let crawl = Orbweaver::crawl(web.start_url(), out.path(), &options)?.start()?;
    let deadline = Instant::now() + PATIENCE;
    let text = loop {
        let text = request(free, "GET /metrics", "").await?.unwrap_or_default();
        if text.lines().any(|line| line.starts_with("orbweaver_fetcher_outcomes_total{") && !line.ends_with(" 0")) {
            break text;
        }
        ensure!(Instant::now() < deadline, "no outcome is counted: {text}");
        sleep(Duration::from_millis(50)).await;
    };
    ensure!(text.starts_with("HTTP/1.1 200") && text.contains("text/plain"), "{text}");
    for service in ["frontier", "rate_limiter", "fetcher", "extractor", "archiver", "normalizer_dedup"] {
        ensure!(text.contains(&format!("\norbweaver_{service}_")), "{service} has no metrics: {text}");
    }
    ensure!(text.contains("orbweaver_stage_"), "the runtime has no metrics: {text}");
    let memory = value(&text, "process_resident_memory_bytes").context("no memory")?;
    ensure!(memory > 1e6, "{memory} bytes of resident memory");
    let other = request(free, "GET /", "").await?.context("it has ended")?;
    ensure!(other.starts_with("HTTP/1.1 404"), "{other}");

    let taken = tempfile::tempdir()?;
    let second = Orbweaver::crawl(web.start_url(), taken.path(), &options)?.end(PATIENCE).await?;
    second.expect(74, &["--metrics: cannot listen on", &free.to_string()])?;
    crawl.interrupt()?;
    crawl.end(PATIENCE).await?.expect(75, &[&format!("metrics: http://{free}/metrics")])?;
    until("the address is free", PATIENCE, || Ok(TcpListener::bind(free).is_ok())).await
}
