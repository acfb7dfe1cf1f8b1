//! A crawl is changed while processes work on it.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use orbweaver_cluster_tests::{Cluster, Plan, requested_pages};
use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};
use tokio::time::{Duration, Instant, sleep};

use crate::PATIENCE;

pub(crate) fn orbweaver(cluster: &Cluster, arguments: &[&str]) -> Result<std::process::Output> {
    let binary = orbweaver_cluster_tests::binary("orbweaver")?;
    let mut command = Command::new(binary);
    command.args(arguments).env("ORBWEAVER_KAFKA__BROKERS", orbweaver_testkit::brokers());
    command.env("ORBWEAVER_KAFKA__PREFIX", cluster.prefix()).output().context("orbweaver")
}

pub(crate) fn said(output: &std::process::Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn pages_that_are_excluded_while_they_wait_are_not_fetched_and_the_crawl_completes() -> Result<()> {
    let plan = Plan::on_shared_servers(4).with("ORBWEAVER_RATE_LIMITER__RATE", "10/s");
    let mut cluster = Cluster::start(plan).await?;
    let dir = tempfile::tempdir()?;
    let log = dir.path().join("requests");
    let config = WebConfig { pages: 600, links: 12, bytes: 2_000, address_hosts: 4, ..WebConfig::default() };
    let web = ToyWeb::start(config, &Serving { port: 0, logging: Logging::File(log.clone()) })?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    cluster.seed(&[web.start_url()]).await?;
    let begun = Instant::now();
    while web.log().count() < 60 {
        ensure!(begun.elapsed() < PATIENCE, "{} requests", web.log().count());
        sleep(Duration::from_millis(100)).await;
    }

    let missing = orbweaver(&cluster, &["crawls", "set", "absent", "--max-depth", "3"])?;
    ensure!(missing.status.code() == Some(64) && said(&missing).contains("no crawl `absent`"), "{}", said(&missing));
    let wrong = orbweaver(&cluster, &["crawls", "set", "--exclude", "("])?;
    ensure!(wrong.status.code() == Some(64) && said(&wrong).contains("unclosed group"), "{}", said(&wrong));
    let pinned = orbweaver(&cluster, &["crawls", "set", "--canonical", "raw"])?;
    let words = said(&pinned);
    ensure!(pinned.status.code() == Some(64) && words.contains("standard/1") && words.contains("raw/1"), "{words}");
    let late = orbweaver(&cluster, &["crawls", "set", "--exclude", "x", "--expect", "77777"])?;
    ensure!(late.status.code() == Some(75) && said(&late).contains("another change"), "{}", said(&late));
    let set = orbweaver(&cluster, &["crawls", "set", "--exclude", r"[02468]\.html$"])?;
    ensure!(set.status.success() && said(&set).contains("applies, in place of"), "{}", said(&set));
    let changed = web.log().count();
    let shown = orbweaver(&cluster, &["crawls", "show", "--json"])?;
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout)?;
    ensure!(shown["definition"]["exclude"][0] == r"[02468]\.html$", "{shown}");

    cluster.complete(PATIENCE, &mut instances).await?;
    let excluded =
        |url: &str| url.trim_end_matches(".html").ends_with(['0', '2', '4', '6', '8']) && url.ends_with(".html");
    let requested = requested_pages(&log)?;
    let even = requested.keys().filter(|url| excluded(url)).count();
    println!("{changed} requests before, {} in all, {even} of pages that were excluded in the end", requested.len());
    // Requests in flight at the change may still arrive; without it, half of the pages would be even.
    ensure!(even < requested.len() / 3, "{even} of {} requested pages are excluded", requested.len());
    ensure!(requested.len() as u64 > changed, "nothing was fetched after the change");
    for instance in &mut instances {
        instance.still_runs()?;
    }
    cluster.remove().await
}
