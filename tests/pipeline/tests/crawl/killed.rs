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

/// Returns `true` if the web has closed all connections of its port, and thus logged every request that was sent.
fn is_disconnected(port: u16) -> Result<bool> {
    let (local, listening_or_waiting) = (format!(":{port:04X}"), ["0A", "06"]);
    let sockets = std::fs::read_to_string("/proc/net/tcp")?;
    let mut sockets = sockets.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    Ok(!sockets.any(|fields| fields[1].ends_with(&local) && !listening_or_waiting.contains(&fields[3])))
}

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
    let command = || Orbweaver::crawl(web.start_url(), out.path(), "--concurrency 64");
    let mut ends = Vec::new();
    for _ in 0..KILLS {
        // A number of requests, not of milliseconds, so that every run makes progress on every machine; then a short
        // pause, so that the kill can fall anywhere between two requests. About every fourth kill falls into the start.
        let (requests, pause_us) = (dice.roll(1, 120), dice.roll(0, 20_000));
        let starting = dice.roll(0, 3) == 0;
        let before = web.log().count();
        let mut crawl = command()?.start()?;
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
        // Requests of the killed process may still be in the web's buffers, and must not count for the next run.
        until("the end of all connections", PATIENCE, || is_disconnected(web.address().port())).await?;
        ends.push(web.log().count() as usize);
        println!(
            "killed {} after {} requests",
            if starting { "at start" } else { "at work" },
            web.log().count() - before
        );
    }
    command()?.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(out.path())?;
    output.ended_by("complete")?;
    check(&truth, &output)?;

    let entries = web.log().entries();
    let pages: Vec<_> = entries.iter().map(|entry| normalized(&entry.host, &entry.target)).collect();
    let mut seen: BTreeSet<&String> = BTreeSet::new();
    ends.push(pages.len());
    let mut start = 0;
    for (run, end) in ends.into_iter().enumerate() {
        let repeated: Vec<_> =
            pages[start..end].iter().filter(|url| !url.ends_with("/robots.txt") && !seen.insert(url)).collect();
        println!("run {run}: {} requests, {} of them again", end - start, repeated.len());
        ensure!(repeated.len() <= REPEATED, "run {run} requested {} pages again", repeated.len());
        let mut once = BTreeSet::new();
        let twice = repeated.iter().find(|url| !once.insert(*url));
        ensure!(twice.is_none(), "run {run} requested {twice:?} twice within itself");
        start = end;
    }
    Ok(())
}
