//! Heavy pages during an outage of the broker and one of the store: memory stays bounded, and nothing is lost.

use std::time::Duration;

use anyhow::{Result, ensure};
use orbweaver_cluster_tests::{Cluster, Found, Plan, requested_pages};
use orbweaver_testkit::Stack;
use orbweaver_toyweb::{GreedyConfig, Logging, Serving, ToyWeb};
use tokio::time::{Instant, sleep};

/// Time allowed for the crawl on a busy machine, in an unoptimized build.
const PATIENCE: Duration = Duration::from_secs(1800);
/// Duration of an outage.
const AWAY: Duration = Duration::from_secs(60);
/// Requests of an undisturbed crawl: a robots.txt and two pages of each of the 128 hosts, and the start page.
const REQUESTS: u64 = 128 * 3 + 1;
/// The broker and the store, each with the number of requests after which it becomes unavailable.
const OUTAGES: [(&str, u64); 2] = [("1", 160), ("cql", 250)];
/// Maximum memory of a process, in bytes.
const MOST_BYTES: u64 = 512 << 20;

#[tokio::test]
#[ignore = "starts servers of its own, and takes minutes"]
async fn heavy_pages_and_a_minute_without_the_broker_and_without_the_store_take_no_more_than_512_mib_a_process()
-> Result<()> {
    let dir = tempfile::tempdir()?;
    let stack = Stack::up(&dir.path().join("servers"), 31_192, &[])?;
    let plan = Plan::on_servers(stack.brokers.clone(), stack.cql.clone(), 4);
    let mut cluster = Cluster::start(plan.with("ORBWEAVER_NORMALIZER_DEDUP__DEFAULT_MAX_DEPTH", "1")).await?;
    let log = dir.path().join("requests");
    let config = GreedyConfig { hosts: 128, zeros: 8 << 20, links: 60_000 };
    let web = ToyWeb::start_greedy(config, &Serving { port: 0, logging: Logging::File(log.clone()) })?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    cluster.seed(&[web.start_url()]).await?;
    let begun = Instant::now();
    for (node, requests) in OUTAGES {
        while web.log().count() < requests {
            ensure!(begun.elapsed() < PATIENCE, "{} requests", web.log().count());
            sleep(Duration::from_millis(100)).await;
        }
        let count = web.log().count();
        ensure!(count < REQUESTS, "nothing remains to be requested during the outage of {node}");
        println!("{node} is unavailable after {:?}, with {count} requests", begun.elapsed());
        stack.stop(node, "TERM")?;
        sleep(AWAY).await;
        stack.start(node)?;
        for instance in &mut instances {
            instance.still_runs()?;
        }
    }
    cluster.complete(PATIENCE, &mut instances).await?;
    println!("complete after {:?}, with {} requests", begun.elapsed(), web.log().count());

    let found = Found::read(&cluster.log).await?;
    ensure!(found.documents.len() == 257, "{} documents of 257", found.documents.len());
    ensure!(found.dead_letters == 0, "{} dead letters", found.dead_letters);
    let again: u32 = requested_pages(&log)?.values().map(|count| count - 1).sum();
    println!("{again} requests were repeated");
    let mut large = vec![];
    for instance in &instances {
        let bytes = instance.peak_rss_bytes();
        println!("{:18} {:4} MB at most", instance.name(), bytes / 1_000_000);
        large.extend((bytes > MOST_BYTES).then(|| instance.name()));
    }
    ensure!(large.is_empty(), "more than {MOST_BYTES} bytes: {large:?}");
    Ok(())
}
