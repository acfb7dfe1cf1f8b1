//! A crawl that resumes with another scope, as seen by the server.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use orbweaver_pipeline_tests::{Orbweaver, Output, Requests};
use orbweaver_toyweb::WebConfig;

use crate::{PATIENCE, serve};

fn small() -> WebConfig {
    WebConfig { pages: 120, links: 6, bytes: 2_000, ..WebConfig::default() }
}

#[tokio::test]
async fn what_waits_and_is_excluded_by_now_is_not_asked_for_and_has_its_line() -> Result<()> {
    let web = serve(small())?;
    let out = tempfile::tempdir()?;
    let command = |options| Orbweaver::crawl(web.start_url(), out.path(), options);
    command("--max-pages 20 --concurrency 4")?.end(PATIENCE).await?.expect(0, &[])?;
    let before: BTreeSet<String> = Requests::new(web.log().entries()).pages().into_keys().collect();
    command(r"--max-pages none --exclude [02468]\.html$")?.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(out.path())?;
    output.ended_by("complete")?;
    let excluded = regex::Regex::new(r"[02468]\.html$")?;
    let requests = Requests::new(web.log().entries()).pages();
    let later: Vec<_> = requests.keys().filter(|url| !before.contains(*url) && excluded.is_match(url)).collect();
    ensure!(later.is_empty(), "requested after it was excluded: {later:?}");
    ensure!(requests.len() > before.len() + 5, "{} pages were requested", requests.len());
    let refused: Vec<_> =
        output.urls.iter().filter(|(_, line)| line["outcome"] == "refused" && line["reason"] == "excluded").collect();
    ensure!(refused.len() > 5 && refused.iter().all(|(url, _)| excluded.is_match(url)), "{} lines", refused.len());
    ensure!(output.summary["urls"]["refused"]["excluded"] == refused.len(), "{}", output.summary["urls"]);
    ensure!(requests.values().all(|count| *count == 1), "a page was requested twice");
    Ok(())
}

#[tokio::test]
async fn a_lower_depth_ends_what_waits_beyond_it_and_a_raised_one_goes_on() -> Result<()> {
    let web = serve(small())?;
    let out = tempfile::tempdir()?;
    let command = |options| Orbweaver::crawl(web.start_url(), out.path(), options);
    command("--max-pages 12 --concurrency 1")?.end(PATIENCE).await?.expect(0, &[])?;
    command("--max-pages 15 --max-depth 1 --concurrency 1")?.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(out.path())?;
    output.ended_by("complete")?;
    ensure!(output.urls.values().any(|line| line["reason"] == "too_deep"), "{}", output.summary);
    ensure!(output.documents.len() <= 15, "{} documents", output.documents.len());
    let refused = command("--max-depth 9")?.end(PATIENCE).await?;
    refused.expect(64, &["this crawl is complete", "another --out"])?;
    command("--max-depth 1")?.end(PATIENCE).await?.expect(0, &["there is nothing left to do"])
}

#[tokio::test]
async fn a_cap_may_rise_and_fall_and_a_scope_become_wider_and_nothing_else() -> Result<()> {
    let web = serve(WebConfig { address_hosts: 2, ..small() })?;
    let out = tempfile::tempdir()?;
    let command = |options| Orbweaver::crawl(web.start_url(), out.path(), options);
    command("--max-pages 10 --scope host")?.end(PATIENCE).await?.expect(0, &[])?;
    command("--scope path")?.end(PATIENCE).await?.expect(64, &["--scope", "`host`", "cannot become `path`"])?;
    command("--include (")?.end(PATIENCE).await?.expect(64, &["--include", "`(` cannot be used: unclosed group"])?;
    command("--max-pages 5")?.end(PATIENCE).await?.expect(0, &["ended at --max-pages"])?;
    ensure!(Output::read(out.path())?.documents.len() == 10);
    let hosts = || web.log().entries().into_iter().map(|entry| entry.host).collect::<BTreeSet<_>>();
    ensure!(hosts().len() == 1, "{:?}", hosts());
    command("--max-pages none --scope any")?.end(PATIENCE).await?.expect(0, &[])?;
    ensure!(hosts().len() == 2, "{:?}", hosts());
    Output::read(out.path())?.ended_by("complete")
}
