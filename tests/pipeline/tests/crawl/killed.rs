//! SIGKILL at any moment loses nothing, and repeats little.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use orbweaver_pipeline_tests::{Dice, Orbweaver, Output, check, normalized, until};
use orbweaver_toyweb::WebConfig;

use crate::{PATIENCE, serve};

/// Maximum number of pages requested again because of one kill.
const REPEATED: usize = 256;
const KILLS: usize = 20;

#[tokio::test]
async fn twenty_kills_at_random_moments_lose_nothing_and_the_same_command_goes_on() -> Result<()> {
    let seed = std::env::var("ORBWEAVER_KILL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_240_817);
    println!("seed of the moments: {seed} (ORBWEAVER_KILL_SEED)");
    let mut dice = Dice(seed);
    let web = serve(WebConfig {
        seed: 5,
        pages: 4_000,
        bytes: 4_000,
        address_hosts: 6,
        named_hosts: 4,
        named_sites: 2,
        ..WebConfig::default()
    })?;
    let (out, truth) = (tempfile::tempdir()?, web.truth());
    // The web may answer a request of a killed process only when the next one already runs: the user agent names the run.
    let agent = |run: usize| format!("orbweaver/{run}");
    let command =
        |run| Orbweaver::crawl(web.start_url(), out.path(), &format!("--concurrency 64 --user-agent {}", agent(run)));
    for run in 0..KILLS {
        // A number of requests, not of milliseconds, so that every run makes progress on every machine; then a short
        // pause, so that the kill can fall anywhere between two requests. About every fourth kill falls into the start.
        let (requests, pause_us) = (dice.roll(1, 120), dice.roll(0, 20_000));
        let starting = dice.roll(0, 3) == 0;
        let before = web.log().count();
        let mut crawl = command(run)?.start()?;
        let requested = || web.log().count() >= before + requests;
        if starting {
            // On a machine that starts quickly, at the latest after as many requests as at work.
            let latest = Instant::now() + Duration::from_micros(pause_us * 10);
            until("the next kill", PATIENCE, || Ok(Instant::now() >= latest || requested())).await?;
        } else {
            until("the next requests", PATIENCE, || Ok(requested() || !crawl.runs()?)).await?;
            tokio::time::sleep(Duration::from_micros(pause_us)).await;
        }
        crawl.kill().await?;
        println!(
            "killed {} after {} requests",
            if starting { "at start" } else { "at work" },
            web.log().count() - before
        );
    }
    command(KILLS)?.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(out.path())?;
    output.ended_by("complete")?;
    check(&truth, &output)?;

    let entries = web.log().entries();
    let mut seen = BTreeSet::new();
    let mut requests = 0;
    for run in 0..=KILLS {
        let agent = agent(run);
        let of_run =
            entries.iter().filter(|entry| entry.agent == agent).map(|entry| normalized(&entry.host, &entry.target));
        let of_run: Vec<_> = of_run.collect();
        requests += of_run.len();
        let pages = of_run.iter().filter(|url| !url.ends_with("/robots.txt"));
        let mut once = BTreeSet::new();
        let twice = pages.clone().find(|url| !once.insert(*url));
        ensure!(twice.is_none(), "run {run} requested {twice:?} twice within itself");
        let repeated = pages.filter(|url| !seen.insert((*url).clone())).count();
        println!("run {run}: {} requests, {repeated} of them again", of_run.len());
        ensure!(repeated <= REPEATED, "run {run} requested {repeated} pages again");
    }
    ensure!(requests == entries.len(), "{} of {} requests have the user agent of a run", requests, entries.len());
    Ok(())
}
