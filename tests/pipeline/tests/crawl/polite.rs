//! Gaps between requests in the server's request log.

use std::time::Duration;

use anyhow::{Result, ensure};
use orbweaver_pipeline_tests::{Dice, Orbweaver, Output, Requests, check, until};
use orbweaver_toyweb::{Kind, WebConfig};

use crate::{PATIENCE, serve};

#[tokio::test]
async fn no_two_requests_to_a_site_are_closer_than_the_rate_allows_robots_and_redirects_and_kills_included()
-> Result<()> {
    let specials = [(Kind::Chain, 4), (Kind::Respelled, 2), (Kind::CookieWall, 1), (Kind::Dead, 2)];
    let web = serve(WebConfig {
        seed: 7,
        pages: 60,
        bytes: 2_000,
        address_hosts: 3,
        named_hosts: 4,
        named_sites: 2,
        specials: specials.into(),
        ..WebConfig::default()
    })?;
    let (out, truth) = (tempfile::tempdir()?, web.truth());
    let command = || Orbweaver::crawl(web.start_url(), out.path(), "--rate 5");
    let mut dice = Dice(11);
    for _ in 0..4 {
        let requests = web.log().count() + dice.roll(3, 16);
        let mut crawl = command()?.start()?;
        until("the next requests", PATIENCE, || Ok(web.log().count() >= requests || !crawl.runs()?)).await?;
        crawl.kill().await?;
    }
    command()?.end(PATIENCE).await?.expect(0, &[])?;
    check(&truth, &Output::read(out.path())?)?;
    let gaps = Requests::new(web.log().entries()).spaced(200_000)?;
    ensure!(gaps > 60, "only {gaps} gaps were looked at");
    Ok(())
}

#[tokio::test]
async fn a_site_that_said_429_is_left_alone_until_its_retry_after_is_over_across_a_kill() -> Result<()> {
    let web = serve(WebConfig {
        pages: 20,
        bytes: 2_000,
        retry_after_s: 4,
        specials: [(Kind::BusyHost, 2)].into(),
        ..WebConfig::default()
    })?;
    let (out, truth) = (tempfile::tempdir()?, web.truth());
    // With a rate limit a site has one request in flight, so that no request may follow the 429.
    let command = || Orbweaver::crawl(web.start_url(), out.path(), "--rate 10");
    let mut crawl = command()?.start()?;
    let refused = || web.log().entries().iter().any(|entry| entry.status == 429);
    until("a 429", PATIENCE, || Ok(refused() || !crawl.runs()?)).await?;
    // A fixed time, not a wait for a state: by then the block must be durable.
    tokio::time::sleep(Duration::from_millis(300)).await;
    crawl.kill().await?;
    command()?.end(PATIENCE).await?.expect(0, &[])?;
    check(&truth, &Output::read(out.path())?)?;
    let refusals = Requests::new(web.log().entries()).left_alone(4_000_000)?;
    ensure!(refusals >= 2, "only {refusals} requests were answered 429");
    Ok(())
}

#[tokio::test]
async fn one_page_that_said_429_blocks_its_whole_site_and_no_other() -> Result<()> {
    let web = serve(WebConfig {
        seed: 8,
        pages: 200,
        bytes: 2_000,
        address_hosts: 4,
        retry_after_s: 2,
        specials: [(Kind::Busy, 3)].into(),
        ..WebConfig::default()
    })?;
    let (out, truth) = (tempfile::tempdir()?, web.truth());
    Orbweaver::crawl(web.start_url(), out.path(), "--concurrency 1")?.end(PATIENCE).await?.expect(0, &[])?;
    check(&truth, &Output::read(out.path())?)?;
    let entries = web.log().entries();
    let blocked = entries.iter().find(|entry| entry.status == 429).map(|entry| (entry.at_us, entry.host.clone()));
    let (at_us, host) = blocked.unwrap_or_default();
    let others = entries.iter().filter(|entry| entry.host != host && (at_us..at_us + 2_000_000).contains(&entry.at_us));
    ensure!(others.count() > 0, "every site waited for the one that was busy");
    Requests::new(entries).left_alone(2_000_000).map(drop)
}

#[tokio::test]
async fn a_crawl_delay_of_robots_is_kept_where_it_is_slower_than_the_rate() -> Result<()> {
    let web = serve(WebConfig {
        pages: 10,
        bytes: 2_000,
        crawl_delay_s: 1,
        specials: [(Kind::RobotsDelay, 1)].into(),
        ..WebConfig::default()
    })?;
    let (out, truth) = (tempfile::tempdir()?, web.truth());
    Orbweaver::crawl(web.start_url(), out.path(), "--rate 10")?.end(PATIENCE).await?.expect(0, &[])?;
    check(&truth, &Output::read(out.path())?)?;
    let net = format!("127.0.{}.", 200 + Kind::RobotsDelay as u8);
    let pages = web.log().entries().into_iter().filter(|entry| entry.host.starts_with(&net));
    ensure!(Requests::new(pages.collect()).spaced(1_000_000)? == 3, "robots.txt and three pages");
    Ok(())
}
