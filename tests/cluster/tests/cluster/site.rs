//! A site is frozen, thawed and slowed down while processes crawl it.

use anyhow::{Result, ensure};
use orbweaver_cluster_tests::{Cluster, Plan};
use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};
use tokio::time::{Duration, Instant, sleep};

use crate::{
    PATIENCE,
    scope::{orbweaver, said},
};

/// Returns the times of the requests to a host, in microseconds since the web was started.
fn requests(web: &ToyWeb, host: &str) -> Vec<u64> {
    web.log().entries().iter().filter(|entry| entry.host.starts_with(host)).map(|entry| entry.at_us).collect()
}

/// Waits until each host has got as many more requests.
async fn more(web: &ToyWeb, hosts: &[&str], count: usize) -> Result<()> {
    let (begun, before) = (Instant::now(), hosts.iter().map(|host| requests(web, host).len()).collect::<Vec<_>>());
    while hosts.iter().zip(&before).any(|(host, before)| requests(web, host).len() < before + count) {
        ensure!(begun.elapsed() < PATIENCE, "no further requests to {hosts:?}");
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn a_frozen_site_gets_no_request_while_others_do_and_a_thawed_one_is_crawled_to_the_end() -> Result<()> {
    let plan = Plan::on_shared_servers(4).with("ORBWEAVER_RATE_LIMITER__RATE", "10/s");
    let mut cluster = Cluster::start(plan).await?;
    let config = WebConfig { pages: 500, links: 12, bytes: 2_000, address_hosts: 2, ..WebConfig::default() };
    let web = ToyWeb::start(config, &Serving { port: 0, logging: Logging::Memory(100_000) })?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    cluster.seed(&[web.start_url()]).await?;
    let [frozen, other] = ["127.0.1.1", "127.0.1.2"];
    more(&web, &[frozen, other], 20).await?;

    let none = orbweaver(&cluster, &["site", "show", frozen])?;
    ensure!(said(&none).contains("has no settings of its own"), "{}", said(&none));
    let wrong = orbweaver(&cluster, &["site", "set", frozen, "--rate", "11"])?;
    ensure!(wrong.status.code() == Some(64) && said(&wrong).contains("0.001 to 10"), "{}", said(&wrong));
    let freeze = orbweaver(&cluster, &["site", "freeze", frozen, "--expect", "0"])?;
    ensure!(freeze.status.success() && said(&freeze).contains("applies"), "{}", said(&freeze));
    sleep(Duration::from_secs(1)).await;
    let before = requests(&web, frozen).len();
    more(&web, &[other], 40).await?;
    ensure!(requests(&web, frozen).len() == before, "requests to a frozen site");
    let late = orbweaver(&cluster, &["site", "thaw", frozen, "--expect", "0"])?;
    ensure!(late.status.code() == Some(75) && said(&late).contains("another change"), "{}", said(&late));
    let waited = orbweaver(&cluster, &["status", "--wait", "--max-time", "5s"])?;
    ensure!(waited.status.code() == Some(75), "complete with URLs of a frozen site: {}", said(&waited));

    let slow = orbweaver(&cluster, &["site", "set", frozen, "--rate", "2"])?;
    ensure!(slow.status.success(), "{}", said(&slow));
    let thaw = orbweaver(&cluster, &["site", "thaw", frozen])?;
    ensure!(thaw.status.success(), "{}", said(&thaw));
    let thawed = requests(&web, frozen).len();
    more(&web, &[frozen], 8).await?;
    let times = requests(&web, frozen);
    let gaps = times[thawed..].windows(2).map(|pair| pair[1] - pair[0]);
    ensure!(gaps.clone().all(|gap| gap >= 499_000), "gaps {:?}", gaps.collect::<Vec<_>>());
    let shown = orbweaver(&cluster, &["site", "show", frozen, "--json"])?;
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout)?;
    ensure!(shown["settings"]["interval_ms"] == 500 && shown["settings"]["frozen"].is_null(), "{shown}");

    let fast = orbweaver(&cluster, &["site", "set", frozen, "--rate", "default"])?;
    ensure!(fast.status.success(), "{}", said(&fast));
    cluster.complete(PATIENCE, &mut instances).await?;
    for instance in &mut instances {
        instance.still_runs()?;
    }
    cluster.remove().await
}
