//! Ctrl-C, and the limits that end a crawl early.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use orbweaver_pipeline_tests::{Orbweaver, Output, Requests, check, check_requests, until};
use orbweaver_toyweb::WebConfig;

use crate::{PATIENCE, serve};

/// Time allowed for a crawl to stop.
const SECONDS_TO_STOP: Duration = Duration::from_secs(10);

#[tokio::test]
async fn ctrl_c_stops_within_seconds_and_the_same_command_goes_on_without_asking_anything_twice() -> Result<()> {
    let web = serve(WebConfig { seed: 6, pages: 1_500, bytes: 4_000, address_hosts: 3, ..WebConfig::default() })?;
    let (out, truth) = (tempfile::tempdir()?, web.truth());
    let command = || Orbweaver::crawl(web.start_url(), out.path(), "");
    let mut crawl = command()?.start()?;
    until("200 requests", PATIENCE, || Ok(web.log().count() >= 200 || !crawl.runs()?)).await?;
    let asked = Instant::now();
    crawl.interrupt()?;
    crawl.end(SECONDS_TO_STOP).await?.expect(75, &[])?;
    println!("stopped after {:?}", asked.elapsed());
    let output = Output::read(out.path())?;
    output.ended_by("interrupted")?;
    ensure!(output.documents.len() < truth.len(), "it was complete already");
    command()?.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(out.path())?;
    output.ended_by("complete")?;
    check(&truth, &output)?;
    check_requests(&truth, &Requests::new(web.log().entries()))
}

#[tokio::test]
async fn ctrl_c_stops_within_seconds_also_while_a_site_is_slow_and_another_is_waited_for() -> Result<()> {
    let config = WebConfig { pages: 50, slow_ms: 30_000, ..WebConfig::default() };
    let web = serve(WebConfig { specials: [(orbweaver_toyweb::Kind::Slow, 5)].into(), ..config })?;
    let out = tempfile::tempdir()?;
    let mut crawl = Orbweaver::crawl(web.start_url(), out.path(), "--rate 2")?.start()?;
    until("a few requests", PATIENCE, || Ok(web.log().count() >= 4 || !crawl.runs()?)).await?;
    crawl.interrupt()?;
    crawl.end(SECONDS_TO_STOP).await?.expect(75, &[])
}

#[tokio::test]
async fn a_second_ctrl_c_does_not_wait_for_a_slow_site_and_loses_nothing() -> Result<()> {
    let config = WebConfig { pages: 50, slow_ms: 30_000, ..WebConfig::default() };
    let web = serve(WebConfig { specials: [(orbweaver_toyweb::Kind::Slow, 1)].into(), ..config })?;
    let out = tempfile::tempdir()?;
    let mut crawl = Orbweaver::crawl(web.start_url(), out.path(), "")?.start()?;
    until("a few requests", PATIENCE, || Ok(web.log().count() >= 4 || !crawl.runs()?)).await?;
    // The first signal starts a graceful stop; the system determines which of the following arrives after it was
    // handled.
    until("the end", SECONDS_TO_STOP, || {
        let runs = crawl.runs()?;
        if runs {
            crawl.interrupt()?;
        }
        Ok(!runs)
    })
    .await?;
    crawl.end(SECONDS_TO_STOP).await?.expect(75, &["stopped at once", "resumes it"])?;
    let output = Output::read(out.path());
    ensure!(
        output.is_err() || output.is_ok_and(|output| output.documents.len() < 50),
        "there was nothing left to stop"
    );
    Ok(())
}

#[tokio::test]
async fn an_interrupted_crawl_goes_on_when_only_its_directory_is_given() -> Result<()> {
    let web = serve(WebConfig { pages: 600, bytes: 2_000, ..WebConfig::default() })?;
    let (out, truth) = (tempfile::tempdir()?, web.truth());
    let mut crawl = Orbweaver::crawl(web.start_url(), out.path(), "")?.start()?;
    until("50 requests", PATIENCE, || Ok(web.log().count() >= 50 || !crawl.runs()?)).await?;
    crawl.interrupt()?;
    crawl.end(SECONDS_TO_STOP).await?.expect(75, &[])?;
    Orbweaver::new(["crawl", "--out"])?.arg(out.path()).end(PATIENCE).await?.expect(0, &[])?;
    check(&truth, &Output::read(out.path())?)
}

#[tokio::test]
async fn without_the_frontiers_index_an_interrupted_crawl_goes_on_and_asks_nothing_twice() -> Result<()> {
    let web = serve(WebConfig { seed: 8, pages: 900, bytes: 4_000, address_hosts: 3, ..WebConfig::default() })?;
    let (out, truth) = (tempfile::tempdir()?, web.truth());
    let index = out.path().join("state/frontier");
    // Twice: with the index deleted, and with an invalid index.
    for is_nonsense in [false, true] {
        let enough = web.log().count() + 150;
        let mut crawl = Orbweaver::crawl(web.start_url(), out.path(), "")?.start()?;
        until("requests", PATIENCE, || Ok(web.log().count() >= enough || !crawl.runs()?)).await?;
        crawl.interrupt()?;
        crawl.end(SECONDS_TO_STOP).await?.expect(75, &[])?;
        std::fs::remove_dir_all(&index)?;
        if is_nonsense {
            std::fs::create_dir(&index)?;
            std::fs::write(index.join("version"), "nonsense")?;
        }
    }
    Orbweaver::crawl(web.start_url(), out.path(), "")?.end(PATIENCE).await?.expect(0, &[])?;
    ensure!(!index.exists(), "a complete crawl keeps its index");
    check(&truth, &Output::read(out.path())?)?;
    check_requests(&truth, &Requests::new(web.log().entries()))
}

#[tokio::test]
async fn max_time_stops_a_crawl_that_can_go_on() -> Result<()> {
    let web = serve(WebConfig { pages: 40, bytes: 2_000, ..WebConfig::default() })?;
    let (out, truth) = (tempfile::tempdir()?, web.truth());
    Orbweaver::crawl(web.start_url(), out.path(), "--rate 4 --max-time 2s")?.end(PATIENCE).await?.expect(75, &[])?;
    let output = Output::read(out.path())?;
    output.ended_by("max_time")?;
    ensure!(output.documents.len() < truth.len(), "it was complete already");
    Orbweaver::crawl(web.start_url(), out.path(), "--rate unlimited")?.end(PATIENCE).await?.expect(0, &[])?;
    check(&truth, &Output::read(out.path())?)
}
