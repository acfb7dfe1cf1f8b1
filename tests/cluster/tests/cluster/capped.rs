//! A page cap, counted by two frontiers.

use anyhow::{Result, ensure};
use orbweaver_cluster_tests::{Cluster, Instance, Plan, Service, requested_pages};
use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};
use tokio::time::{Duration, Instant, sleep};

use crate::{
    PATIENCE,
    scope::{orbweaver, said},
};

const CAP: usize = 150;

fn set(cluster: &Cluster, max_pages: &str) -> Result<()> {
    let set = orbweaver(cluster, &["crawls", "set", "--max-pages", max_pages])?;
    ensure!(set.status.success() && said(&set).contains("applies, in place of"), "{}", said(&set));
    Ok(())
}

async fn both_serve(frontiers: [&Instance; 2]) -> Result<()> {
    let begun = Instant::now();
    while frontiers[0].partitions_open().await? != 2 || frontiers[1].partitions_open().await? != 2 {
        ensure!(begun.elapsed() < PATIENCE, "the frontiers do not share the partitions");
        sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn a_cap_holds_over_two_frontiers_and_their_successors_and_is_raised_and_taken_off() -> Result<()> {
    // Slow enough that the command is done before the pages up to the cap are.
    let plan = Plan::on_shared_servers(4).with("ORBWEAVER_RATE_LIMITER__RATE", "3/s");
    let mut cluster = Cluster::start(plan).await?;
    let dir = tempfile::tempdir()?;
    let log = dir.path().join("requests");
    let config = WebConfig { pages: 500, links: 12, bytes: 2_000, address_hosts: 8, ..WebConfig::default() };
    let web = ToyWeb::start(config, &Serving { port: 0, logging: Logging::File(log.clone()) })?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    instances.push(cluster.add(Service::Frontier).await?);
    let [first, second] = [1, 5].map(|index: usize| &instances[index]);
    both_serve([first, second]).await?;
    cluster.seed(&[web.start_url()]).await?;
    let begun = Instant::now();
    while web.log().count() < 20 {
        ensure!(begun.elapsed() < PATIENCE, "{} requests", web.log().count());
        sleep(Duration::from_millis(50)).await;
    }
    // Pages fetched before also count.
    set(&cluster, &CAP.to_string())?;
    let wait = ["status", "--wait", "--json", "--max-time", "100s"];
    let status = orbweaver(&cluster, &wait)?;
    ensure!(status.status.success(), "{}", said(&status));
    let status: serde_json::Value = serde_json::from_slice(&status.stdout)?;
    ensure!(status["at_cap"] == true && status["complete"] == false, "{status}");
    let reported = &status["caps"][0];
    ensure!(reported["crawl"] == "default" && reported["max_pages"] == CAP && reported["at_cap"] == true, "{status}");
    let pages = requested_pages(&log)?.len();
    println!("{pages} pages at a cap of {CAP}; reported: {}", reported["pages"]);
    ensure!(
        reported["pages"].as_u64().is_some_and(|reported| reported >= CAP as u64 && reported <= pages as u64),
        "{status}"
    );
    ensure!(pages <= CAP + 40, "{pages} pages are too many for a cap of {CAP}");

    // The successors of both continue their counts.
    instances.remove(5).kill().await?;
    instances.remove(1).kill().await?;
    instances.insert(1, cluster.add(Service::Frontier).await?);
    instances.insert(5, cluster.add(Service::Frontier).await?);
    for index in [1, 5] {
        instances[index].ready(PATIENCE).await?;
    }
    both_serve([&instances[1], &instances[5]]).await?;
    let raised = 2 * CAP;
    set(&cluster, &raised.to_string())?;
    let status = orbweaver(&cluster, &wait)?;
    ensure!(status.status.success() && said(&status).contains("\"at_cap\":true"), "{}", said(&status));
    let pages = requested_pages(&log)?.len();
    println!("{pages} pages at a cap of {raised}");
    ensure!((raised..=raised + 40).contains(&pages), "{pages} pages at a cap of {raised}");
    let ended = orbweaver(&cluster, &["crawl", "--brokers", &orbweaver_testkit::brokers(), web.start_url()])?;
    ensure!(ended.status.success() && said(&ended).contains("`default` is at its cap"), "{}", said(&ended));

    set(&cluster, "none")?;
    cluster.complete(PATIENCE, &mut instances).await?;
    let requested = requested_pages(&log)?;
    println!("{} pages in all", requested.len());
    ensure!(requested.len() > raised + 40, "{} pages in all", requested.len());
    for instance in &mut instances {
        instance.still_runs()?;
    }
    cluster.remove().await
}
