//! Time until a moved partition is open again, with the local index and without.

use std::time::Duration;

use anyhow::{Result, ensure};
use orbweaver_cluster_tests::{Cluster, Instance, Service};
use orbweaver_messages::topic;
use tokio::time::{Instant, sleep};

use crate::Options;
use crate::bed::{Bed, PATIENCE};
use crate::prefilled::{caught_up, discover};
use crate::process::{megabytes, used};

pub(crate) async fn run(bed: &Bed, options: &Options) -> Result<()> {
    println!(
        "moved: one partition with {} URLs; seconds from the start of a process until it serves it",
        options.records
    );
    let mut cluster = bed.cluster(1).await?;
    discover(&cluster, 1, options.records, 1).await?;
    let mut dedup = cluster.add(Service::NormalizerDedup).await?;
    caught_up(&cluster, Service::NormalizerDedup, topic::DISCOVERED, &mut dedup).await?;
    let frontier = cluster.add(Service::Frontier).await?;
    serves(&frontier).await?;
    let deadline = Instant::now() + PATIENCE;
    while frontier.metric("orbweaver_frontier_waiting_urls").await? < 0.9 * options.records as f64 {
        ensure!(Instant::now() < deadline, "the frontier has not read its queue");
        sleep(Duration::from_millis(200)).await;
    }
    for (service, instance) in [(Service::NormalizerDedup, dedup), (Service::Frontier, frontier)] {
        let dir = instance.dir().to_owned();
        instance.terminate(PATIENCE).await?;
        let again = start(&cluster, service, "with its index", dir.clone()).await?;
        again.kill().await?;
        let again = start(&cluster, service, "with its index, after kill -9", dir).await?;
        again.terminate(PATIENCE).await?;
        let elsewhere = cluster.dir_of(match service {
            Service::Frontier => 1001,
            _ => 1000,
        });
        start(&cluster, service, "without an index", elsewhere).await?.terminate(PATIENCE).await?;
    }
    cluster.remove().await
}

async fn start(cluster: &Cluster, service: Service, how: &str, dir: std::path::PathBuf) -> Result<Instance> {
    let begun = Instant::now();
    let instance = cluster.start_in(service, dir).await?;
    serves(&instance).await?;
    let (took, used) = (begun.elapsed().as_secs_f64(), used(instance.id()));
    println!(
        "  {:18} {how:32} {took:6.1} s, {:.1} s CPU, {} MB at most",
        service.name(),
        used.cpu.as_secs_f64(),
        megabytes(used.peak_rss_bytes)
    );
    Ok(instance)
}

async fn serves(instance: &Instance) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while instance.partitions_open().await? == 0 {
        ensure!(Instant::now() < deadline, "not served:\n{}", instance.last_words());
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
