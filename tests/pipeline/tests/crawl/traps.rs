//! Traps and an honest archive: the pages that a crawl fetches of them in each mode.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use orbweaver_pipeline_tests::{Orbweaver, Output, check};
use orbweaver_toyweb::{Kind, WebConfig};

use crate::serve;

/// An archive has 10,500 pages, which takes a while when other tests run concurrently.
const PATIENCE: Duration = Duration::from_secs(240);
/// Rate at which no more requests are in flight than the tests tolerate.
const RATE: &str = "--rate 100";

const TRAPS: [Kind; 4] = [Kind::Calendar, Kind::SessionMaze, Kind::RepeatingPath, Kind::EchoSearch];

fn web(kinds: &[Kind]) -> WebConfig {
    let specials = kinds.iter().map(|kind| (*kind, 1)).collect();
    WebConfig { pages: 1, links: 2, bytes: 500, specials, ..WebConfig::default() }
}

/// Returns the number of documents of a kind of special place.
fn pages(output: &Output, kind: Kind) -> usize {
    let directory = format!("/x/{}/", kind.name());
    output.documents.keys().filter(|url| url.contains(&directory)).count()
}

async fn crawl(kinds: &[Kind], options: &str) -> Result<Output> {
    let web = serve(web(kinds))?;
    let out = tempfile::tempdir()?;
    Orbweaver::crawl(web.start_url(), out.path(), options)?.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(out.path())?;
    if kinds == [Kind::Archive] {
        output.ended_by("complete")?;
        check(&web.truth(), &output)?;
    }
    println!("{options}: {:?}", kinds.iter().map(|kind| (kind.name(), pages(&output, *kind))).collect::<Vec<_>>());
    Ok(output)
}

#[tokio::test]
async fn an_honest_archive_is_fetched_whole_by_default() -> Result<()> {
    crawl(&[Kind::Archive], "").await.map(drop)
}

#[tokio::test]
async fn an_honest_archive_is_fetched_whole_when_traps_are_refused() -> Result<()> {
    crawl(&[Kind::Archive], "--traps strict").await.map(drop)
}

#[tokio::test]
async fn every_trap_ends_by_itself_when_traps_are_refused_and_what_is_refused_is_counted() -> Result<()> {
    for kind in TRAPS {
        let output = crawl(&[kind], &format!("--traps strict {RATE}")).await?;
        output.ended_by("complete")?;
        // The hard limit, pages with new content, pages not linked from a page of their kind, and requests in flight.
        let fetched = pages(&output, kind);
        ensure!((150..1500).contains(&fetched), "{}: {fetched} pages", kind.name());
        let refused = output.summary["urls"]["refused"]["trap"].as_u64().context("nothing was refused")?;
        let lines = output.urls.values().filter(|line| line["reason"] == "trap").count();
        ensure!(
            refused > 0 && usize::try_from(refused)? == lines,
            "{}: {refused} refused, {lines} listed",
            kind.name()
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_trap_is_left_for_the_end_by_default_and_nothing_is_refused() -> Result<()> {
    let kinds = [Kind::Archive, Kind::Calendar, Kind::SessionMaze, Kind::RepeatingPath, Kind::EchoSearch];
    let off = crawl(&kinds, "--traps off --max-pages 4000").await?;
    let learn = crawl(&kinds, "--max-pages 4000").await?;
    let (without, with) = (pages(&off, Kind::Archive), pages(&learn, Kind::Archive));
    ensure!(with > 2 * without, "{without} pages of the archive, and {with}");
    for output in [off, learn] {
        output.ended_by("max_pages")?;
        ensure!(output.summary["urls"]["refused"]["trap"].is_null(), "{}", output.summary["urls"]);
    }
    Ok(())
}

#[tokio::test]
async fn the_mode_is_kept_when_a_crawl_goes_on_and_another_is_refused() -> Result<()> {
    let web = serve(web(&[Kind::Calendar]))?;
    let out = tempfile::tempdir()?;
    let crawl = |options: &str| Orbweaver::crawl(web.start_url(), out.path(), options);
    crawl(&format!("--traps strict --max-pages 50 {RATE}"))?.end(PATIENCE).await?.expect(0, &[])?;
    let other = crawl("--traps off --max-pages 60")?.end(PATIENCE).await?;
    other.expect(64, &["--traps was `strict` and is now `off`"])?;
    // Without the option it resumes with the previous mode, and so ends.
    crawl("--max-pages 5000")?.end(PATIENCE).await?.expect(0, &[])?;
    Output::read(out.path())?.ended_by("complete")
}
