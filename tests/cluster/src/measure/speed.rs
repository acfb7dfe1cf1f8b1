//! Pages per second, and the CPU time of each process.

use std::time::Duration;

use anyhow::{Context as _, Result};
use orbweaver_cluster_tests::{Found, requested_pages};
use tokio::time::Instant;

use crate::Options;
use crate::bed::{Bed, PATIENCE, Progress, Web};
use crate::process::{everybody, megabytes, used};

pub(crate) async fn run(bed: &Bed, options: &Options) -> Result<()> {
    println!(
        "speed: {} pages of 16 KiB with 30 links on 8 sites, no rate, one instance of each service",
        options.pages
    );
    let mut rates = vec![];
    for round in 1..=options.rounds {
        rates.push(one(bed, options, round).await?);
    }
    rates.sort_by(f64::total_cmp);
    println!("median of {} rounds: {:.0} pages/s", rates.len(), rates[rates.len() / 2]);
    Ok(())
}

async fn one(bed: &Bed, options: &Options, round: u32) -> Result<f64> {
    let mut cluster = bed.cluster(options.partitions).await?;
    let web = Web::start(options.pages, 8).await?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    let all = everybody(bed, &web, &instances);
    let before: Vec<_> = all.iter().map(|(_, pid)| used(*pid).cpu).collect();

    let begun = Instant::now();
    let mut progress = Progress::new();
    cluster.seed(&[&web.url]).await?;
    let truth = web.truth()?;
    progress.until(&cluster, truth.len() as u64).await?;
    let took = progress.last().context("documents")? - begun;
    let after: Vec<_> = all.iter().map(|(_, pid)| used(*pid)).collect();
    cluster.complete(PATIENCE, &mut instances).await?;
    let complete = begun.elapsed();

    Found::read(&cluster.log).await?.check(&truth, true)?;
    let twice: u32 = requested_pages(&web.requests())?.values().map(|count| count - 1).sum();
    let pages = truth.len() as f64;
    let rate = pages / took.as_secs_f64();
    println!(
        "round {round}: {pages} pages in {:.2} s, {rate:.0} pages/s; complete after {:.2} s; requested twice: {twice}",
        took.as_secs_f64(),
        complete.as_secs_f64()
    );
    let mut total = Duration::ZERO;
    for (((name, _), before), after) in all.iter().zip(&before).zip(&after) {
        let cpu = after.cpu.saturating_sub(*before);
        total += cpu;
        println!(
            "  {name:18} {:5.0} µs CPU a page, {:5} MB at most",
            cpu.as_secs_f64() * 1e6 / pages,
            megabytes(after.peak_rss_bytes)
        );
    }
    let cores = total.as_secs_f64() / took.as_secs_f64();
    println!("  {:18} {:5.0} µs CPU a page, {cores:.2} cores busy with it", "all", total.as_secs_f64() * 1e6 / pages);
    for instance in instances {
        instance.terminate(PATIENCE).await?;
    }
    cluster.remove().await?;
    Ok(rate)
}
