//! Changes of the number of instances during a crawl.

use std::time::Duration;

use anyhow::{Result, ensure};
use orbweaver_cluster_tests::{Found, Instance, Service, requested_pages};
use tokio::time::{Instant, sleep};

use crate::Options;
use crate::bed::{Bed, PATIENCE, Progress, Watch, Web};

/// Time allowed for a group to settle.
const SETTLES_WITHIN: Duration = Duration::from_secs(60);

pub(crate) async fn run(bed: &Bed, options: &Options) -> Result<()> {
    println!("scale: 1, 3, 1 instances of each service, {} partitions, {} pages", options.partitions, options.pages);
    let mut cluster = bed.cluster(options.partitions).await?;
    let web = Web::start(options.pages, 8).await?;
    let truth = web.truth()?;
    let share = |tenths: usize| (truth.len() * tenths / 10) as u64;
    let mut instances = cluster.add_all(PATIENCE).await?;
    let mut progress = Progress::new();
    cluster.seed(&[&web.url]).await?;
    progress.until(&cluster, share(1)).await?;

    let watch = Watch::start(&cluster).await?;
    for service in Service::ALL {
        for _ in 0..2 {
            instances.push(cluster.add(service).await?);
        }
        let at = Instant::now();
        let spread = settled(&instances, service, options.partitions).await?;
        println!("  {:18} 1 to 3: {spread:?} partitions after {:.1} s", service.name(), at.elapsed().as_secs_f64());
    }
    progress.until(&cluster, share(5)).await?;
    let going_up = watch.longest_gap().await?;
    let watch = Watch::start(&cluster).await?;
    for service in Service::ALL {
        // The oldest instances stop, so that their partitions move.
        for _ in 0..2 {
            let at = instances.iter().position(|instance| instance.name() == service.name());
            let leaver = instances.remove(at.unwrap_or_default());
            let status = leaver.terminate(PATIENCE).await?;
            ensure!(status.success(), "{} ended with {status}", service.name());
        }
        let at = Instant::now();
        let spread = settled(&instances, service, options.partitions).await?;
        println!("  {:18} 3 to 1: {spread:?} partitions after {:.1} s", service.name(), at.elapsed().as_secs_f64());
    }
    let going_down = watch.longest_gap().await?;
    cluster.complete(PATIENCE, &mut instances).await?;
    Found::read(&cluster.log).await?.check(&truth, false)?;
    let twice: u32 = requested_pages(&web.requests())?.values().map(|count| count - 1).sum();
    println!(
        "  {} pages, none lost, requested twice: {twice}; the longest time without a document: {:.1} s going up, {:.1} s going down",
        truth.len(),
        going_up.as_secs_f64(),
        going_down.as_secs_f64()
    );
    cluster.remove().await
}

/// Waits until all partitions of a service are open and spread evenly. Returns the number per instance.
async fn settled(instances: &[Instance], service: Service, partitions: u32) -> Result<Vec<u32>> {
    let end = Instant::now() + SETTLES_WITHIN;
    loop {
        let mut spread = vec![];
        for instance in instances.iter().filter(|instance| instance.name() == service.name()) {
            spread.push(instance.partitions_open().await?);
        }
        let (least, most) = (spread.iter().min().copied().unwrap_or(0), spread.iter().max().copied().unwrap_or(0));
        if spread.iter().sum::<u32>() == partitions && most - least <= 1 {
            return Ok(spread);
        }
        ensure!(Instant::now() < end, "{}: {spread:?} of {partitions} partitions", service.name());
        sleep(Duration::from_millis(100)).await;
    }
}
