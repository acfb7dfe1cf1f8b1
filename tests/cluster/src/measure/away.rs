//! Outages of servers.

use std::time::Duration;

use anyhow::Result;
use orbweaver_cluster_tests::{Found, requested_pages};
use tokio::time::Instant;

use crate::Options;
use crate::bed::{Bed, PATIENCE, Progress, Web};
use crate::process::{megabytes, used};

pub(crate) async fn run(bed: &Bed, options: &Options) -> Result<()> {
    let away = Duration::from_secs(options.away);
    println!("away: the broker, then the CQL server, for {away:?} during a crawl of {} pages", options.pages);
    let mut cluster = bed.cluster(options.partitions).await?;
    let web = Web::start(options.pages, 8).await?;
    let truth = web.truth()?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    let mut progress = Progress::new();
    cluster.seed(&[&web.url]).await?;
    for (server, node, tenths) in [("the broker", "1", 2), ("the CQL server", "cql", 5)] {
        progress.until(&cluster, (truth.len() * tenths / 10) as u64).await?;
        let before = progress.rate();
        bed.stack.stop(node, "TERM")?;
        let gone = Instant::now();
        let mut unready = vec![];
        // Services that do not use the store stay ready without it.
        while gone.elapsed() < away {
            for instance in &mut instances {
                instance.still_runs()?;
                if !unready.contains(&instance.name()) && instance.ask("/readyz").await?.status != 200 {
                    unready.push(instance.name());
                }
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        bed.stack.start(node)?;
        let back = Instant::now();
        for instance in &mut instances {
            instance.ready(PATIENCE).await?;
        }
        let ready = back.elapsed();
        while progress.rate() < 0.9 * before && back.elapsed() < PATIENCE {
            if progress.look(&cluster).await >= truth.len() as u64 {
                break;
            }
        }
        println!(
            "  {server}: not ready meanwhile: {unready:?}; all ready {:.1} s after it was back, full speed after {:.1} s",
            ready.as_secs_f64(),
            back.elapsed().as_secs_f64()
        );
        for instance in &instances {
            println!("    {:18} {:5} MB at most", instance.name(), megabytes(used(instance.id()).peak_rss_bytes));
        }
    }
    cluster.complete(PATIENCE, &mut instances).await?;
    Found::read(&cluster.log).await?.check(&truth, false)?;
    let twice: u32 = requested_pages(&web.requests())?.values().map(|count| count - 1).sum();
    println!("  {} pages, none lost, no process ended, requested twice: {twice}", truth.len());
    cluster.remove().await
}
