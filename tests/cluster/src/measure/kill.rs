//! Cost of killing a process with SIGKILL.

use std::time::Duration;

use anyhow::{Result, ensure};
use orbweaver_cluster_tests::{Cluster, Instance, Service};
use tokio::time::{Instant, sleep};

use crate::Options;
use crate::bed::{Bed, PATIENCE, Progress, Web};

/// Number of pages of a practically unlimited web.
const PAGES: u64 = 100_000_000;
/// Duration of the speed measurement before a kill.
const STEADY: Duration = Duration::from_secs(8);
/// Share of the previous speed that counts as full speed.
const FULL: f64 = 0.9;
/// Time allowed for the recovery after a kill.
const RECOVERS_WITHIN: Duration = Duration::from_secs(180);
/// Polling interval of an instance's open partitions.
const ASK_EVERY: Duration = Duration::from_millis(50);

pub(crate) async fn run(bed: &Bed, options: &Options) -> Result<()> {
    println!(
        "kill -9 under load, {} partitions: seconds until all are served again, and until {:.0} % of the speed before",
        options.partitions,
        FULL * 100.0
    );
    for service in Service::ALL {
        one(bed, options.partitions, service).await?;
    }
    Ok(())
}

async fn one(bed: &Bed, partitions: u32, service: Service) -> Result<()> {
    // A cluster per service, so that a kill is not affected by the backlog of the previous one.
    let mut cluster = bed.cluster(partitions).await?;
    let web = Web::start(PAGES, 8).await?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    let mut progress = Progress::new();
    cluster.seed(&[&web.url]).await?;
    progress.until(&cluster, 500).await?;

    let victim = instances.remove(Service::ALL.iter().position(|other| *other == service).unwrap_or(0));
    let (before, dir) = (steady(&mut progress, &cluster).await, victim.dir().to_owned());
    let killed = Instant::now();
    victim.kill().await?;
    let successor = cluster.start_in(service, dir).await?;
    let served = serves(&successor, partitions, killed).await?;
    report(service, "started again", served, full_speed(&mut progress, &cluster, before, killed).await?, before);

    let other = cluster.add(service).await?;
    while other.partitions_open().await? < partitions / 2 {
        sleep(ASK_EVERY).await;
    }
    let before = steady(&mut progress, &cluster).await;
    let killed = Instant::now();
    successor.kill().await?;
    let served = serves(&other, partitions, killed).await?;
    report(service, "one of two", served, full_speed(&mut progress, &cluster, before, killed).await?, before);
    drop((instances, other, web));
    cluster.remove().await
}

fn report(service: Service, how: &str, served: Duration, full: Duration, before: f64) {
    let (served, full) = (served.as_secs_f64(), full.as_secs_f64());
    println!(
        "  {:18} {how:14} served {served:5.1} s, full speed {full:5.1} s ({before:.0} pages/s before)",
        service.name()
    );
}

/// Measures the current speed.
async fn steady(progress: &mut Progress, cluster: &Cluster) -> f64 {
    progress.pass(cluster, STEADY).await;
    progress.rate()
}

async fn full_speed(progress: &mut Progress, cluster: &Cluster, before: f64, killed: Instant) -> Result<Duration> {
    // The rate covers the last seconds; the kill must have affected it.
    progress.pass(cluster, Duration::from_secs(1)).await;
    while progress.rate() < FULL * before {
        ensure!(killed.elapsed() < RECOVERS_WITHIN, "{:.0} of {before:.0} pages/s", progress.rate());
        progress.look(cluster).await;
    }
    Ok(killed.elapsed())
}

async fn serves(instance: &Instance, partitions: u32, killed: Instant) -> Result<Duration> {
    while instance.partitions_open().await? < partitions {
        ensure!(
            killed.elapsed() < RECOVERS_WITHIN,
            "{} partitions:\n{}",
            instance.partitions_open().await?,
            instance.last_words()
        );
        sleep(ASK_EVERY).await;
    }
    Ok(killed.elapsed())
}
