//! Crawls are created, listed, paused, resumed, stopped and requested again while processes crawl them.

use anyhow::{Context as _, Result, ensure};
use orbweaver_cluster_tests::{Cluster, Found, Plan};
use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};
use tokio::time::{Duration, Instant, sleep};

use crate::{
    PATIENCE,
    scope::{orbweaver, said},
};

/// Starts a web whose hosts have the addresses, and thus the sites, of every other web here; the ports differ.
fn web(seed: u64) -> Result<ToyWeb> {
    let config = WebConfig { seed, pages: 400, links: 12, bytes: 2_000, address_hosts: 2, ..WebConfig::default() };
    Ok(ToyWeb::start(config, &Serving { port: 0, logging: Logging::Count })?)
}

/// Waits until the web has received this number of further requests.
pub(crate) async fn more(web: &ToyWeb, count: u64) -> Result<()> {
    let (begun, before) = (Instant::now(), web.log().count());
    while web.log().count() < before + count {
        ensure!(begun.elapsed() < PATIENCE, "{} of {count} further requests", web.log().count() - before);
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Runs `orbweaver` with these arguments, and returns its output if it succeeds.
pub(crate) fn done(cluster: &Cluster, arguments: &[&str]) -> Result<String> {
    let output = orbweaver(cluster, arguments)?;
    ensure!(output.status.success(), "{arguments:?}: {}", said(&output));
    Ok(said(&output))
}

/// Returns the state of a crawl according to `crawls list`.
fn state(cluster: &Cluster, crawl: &str) -> Result<String> {
    let listed = done(cluster, &["crawls", "list"])?;
    let line = listed.lines().find(|line| line.split_whitespace().next() == Some(crawl));
    let state =
        line.and_then(|line| line.split_whitespace().nth(1)).with_context(|| format!("`{crawl}` in {listed}"))?;
    Ok(state.to_owned())
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn a_paused_crawl_gets_no_request_while_another_one_does_and_completes_once_it_is_resumed() -> Result<()> {
    let plan = Plan::on_shared_servers(4).with("ORBWEAVER_RATE_LIMITER__RATE", "10/s");
    let mut cluster = Cluster::start(plan).await?;
    let (first, second) = (web(1)?, web(2)?);
    let mut instances = cluster.add_all(PATIENCE).await?;
    for (name, web) in [("first", &first), ("second", &second)] {
        let created = done(&cluster, &["crawls", "create", name, "--scope", "any"])?;
        ensure!(created.contains(&format!("crawl `{name}`: created as version")), "{created}");
        done(&cluster, &["seed", web.start_url(), "--crawl", name])?;
    }
    more(&first, 20).await?;
    more(&second, 20).await?;

    let again = orbweaver(&cluster, &["crawls", "create", "first"])?;
    ensure!(again.status.code() == Some(64) && said(&again).contains("`first` exists"), "{}", said(&again));
    let missing = orbweaver(&cluster, &["crawls", "pause", "absent"])?;
    ensure!(missing.status.code() == Some(64) && said(&missing).contains("no crawl `absent`"), "{}", said(&missing));
    let listed = orbweaver(&cluster, &["crawls", "list", "--json"])?;
    let listed = serde_json::Deserializer::from_slice(&listed.stdout).into_iter::<serde_json::Value>();
    let listed = listed.collect::<Result<Vec<_>, _>>()?;
    for name in ["first", "second"] {
        let shown = listed.iter().find(|shown| shown["definition"]["name"] == name).context(name)?;
        ensure!(shown["version"].is_u64() && shown["pages"].is_u64(), "{shown}");
        ensure!(shown["definition"]["scope"] == "any" && shown["state"] == "running", "{shown}");
    }
    let shown = orbweaver(&cluster, &["crawls", "show", "first", "--json"])?;
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout)?;
    let version = shown["version"].to_string();

    let paused = done(&cluster, &["crawls", "pause", "first", "--expect", &version])?;
    ensure!(paused.contains(&format!("applies, in place of {version}")), "{paused}");
    sleep(Duration::from_secs(1)).await;
    let before = first.log().count();
    more(&second, 40).await?;
    ensure!(first.log().count() == before, "{} requests of a paused crawl", first.log().count() - before);
    ensure!(state(&cluster, "first")? == "paused" && state(&cluster, "second")? == "running", "states after a pause");
    let late = orbweaver(&cluster, &["crawls", "pause", "first", "--expect", &version])?;
    ensure!(late.status.code() == Some(75) && said(&late).contains("another change"), "{}", said(&late));

    let complete = done(&cluster, &["status", "--crawl", "second", "--wait", "--max-time", "3m"])?;
    ensure!(complete.contains("crawl `second`: complete") && complete.contains(" 0 queued"), "{complete}");
    let (mut found, truth) = (Found::read(&cluster.log).await?, second.truth());
    found.documents.retain(|url, _| truth.iter().any(|expected| expected.url == *url));
    found.check(&truth, true)?;
    let running = orbweaver(&cluster, &["status", "--crawl", "first", "--wait", "--max-time", "5s"])?;
    ensure!(running.status.code() == Some(75) && said(&running).contains("paused"), "{}", said(&running));
    let waited = orbweaver(&cluster, &["status", "--wait", "--max-time", "5s"])?;
    let words = said(&waited);
    ensure!(waited.status.code() == Some(75) && words.contains("crawl `first` is paused"), "{words}");
    ensure!(first.log().count() == before, "{} requests of a paused crawl", first.log().count() - before);

    done(&cluster, &["crawls", "resume", "first"])?;
    ensure!(state(&cluster, "first")? == "running", "`first` is not resumed");
    cluster.complete(PATIENCE, &mut instances).await?;
    let truth = [&first, &second].map(ToyWeb::truth).concat();
    Found::read(&cluster.log).await?.check(&truth, true)?;

    let (before, url) = (first.log().count(), first.start_url());
    let again = done(&cluster, &["recrawl", url, "https://elsewhere.example/", "--crawl", "first"])?;
    ensure!(again.contains("2 URLs to fetch again"), "{again}");
    more(&first, 1).await?;
    cluster.complete(PATIENCE, &mut instances).await?;
    ensure!(first.log().count() == before + 1, "{} requests for one URL", first.log().count() - before);
    let count = Found::read(&cluster.log).await?.documents.get(url).copied();
    ensure!(count == Some(2), "{count:?} documents of a URL that was requested again");

    let (first_before, second_before) = (first.log().count(), second.log().count());
    let store = ["--cql", &*orbweaver_testkit::cql(), "--keyspace", cluster.keyspace()];
    let none =
        done(&cluster, &[&["recrawl", "--all", "--older-than", "1day", "--crawl", "second"], &store[..]].concat())?;
    ensure!(none.contains("0 URLs to fetch again, of 400 that were read"), "{none}");
    let all = done(&cluster, &[&["recrawl", "--all", "--crawl", "second"], &store[..]].concat())?;
    ensure!(all.contains("400 URLs to fetch again, of 400 that were read"), "{all}");
    more(&second, 400).await?;
    cluster.complete(PATIENCE, &mut instances).await?;
    let requests = (first.log().count() - first_before, second.log().count() - second_before);
    ensure!(requests == (0, 400), "{requests:?} requests of the two crawls");
    for instance in &mut instances {
        instance.still_runs()?;
    }
    cluster.remove().await
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn an_endless_crawl_that_is_stopped_completes_and_gets_no_further_request() -> Result<()> {
    let plan = Plan::on_shared_servers(4).with("ORBWEAVER_RATE_LIMITER__RATE", "10/s");
    let mut cluster = Cluster::start(plan).await?;
    let config = WebConfig { pages: 1_000_000, links: 40, bytes: 2_000, address_hosts: 4, ..WebConfig::default() };
    let endless = ToyWeb::start(config, &Serving { port: 0, logging: Logging::Count })?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    done(&cluster, &["crawls", "create", "endless", "--scope", "any"])?;
    done(&cluster, &["seed", endless.start_url(), "--crawl", "endless"])?;
    more(&endless, 60).await?;

    done(&cluster, &["crawls", "stop", "endless"])?;
    sleep(Duration::from_secs(1)).await;
    let before = endless.log().count();
    let complete = done(&cluster, &["status", "--crawl", "endless", "--wait", "--max-time", "3m"])?;
    ensure!(complete.contains("stopped and complete") && complete.contains(" 0 queued"), "{complete}");
    ensure!(endless.log().count() == before, "{} requests of a stopped crawl", endless.log().count() - before);
    ensure!(state(&cluster, "endless")? == "stopped", "state after a stop");
    let seed = ["seed", endless.start_url(), "--crawl", "endless"];
    for arguments in [&["crawls", "resume", "endless"][..], &["crawls", "pause", "endless"], &seed] {
        let refused = orbweaver(&cluster, arguments)?;
        ensure!(refused.status.code() == Some(64) && said(&refused).contains("stopped"), "{}", said(&refused));
    }
    cluster.complete(PATIENCE, &mut instances).await?;
    ensure!(endless.log().count() == before, "{} requests of a stopped crawl", endless.log().count() - before);
    for instance in &mut instances {
        instance.still_runs()?;
    }
    cluster.remove().await
}
