//! The canonical policy of a crawl, as seen by the server.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Result, ensure};
use orbweaver_pipeline_tests::{Orbweaver, Output, Requests};
use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};

use crate::{PATIENCE, serve};

/// A page with many spellings of one link, and another link.
const LINKS: &str = "<a href='/a.html'>1</a><a href='/a.html?utm_source=x'>2</a><a href='.//a.html?fbclid=y'>3</a>
    <a href='/%61.html'>4</a><a href='/a.html?b=1&a=2'>5</a><a href='/a.html?a=2&b=1'>6</a><a href='/d/index.html'>7</a>
    <a href='/d/'>8</a>";

fn dir(root: &Path) -> Result<()> {
    std::fs::create_dir(root.join("d"))?;
    std::fs::write(root.join("index.html"), LINKS)?;
    std::fs::write(root.join("a.html"), "<p>a")?;
    std::fs::write(root.join("d/index.html"), "<p>d")?;
    Ok(())
}

async fn requests(root: &Path, options: &str) -> Result<BTreeSet<String>> {
    let web = ToyWeb::start_directory(root, &Serving { port: 0, logging: Logging::Memory(1 << 10) })?;
    let out = tempfile::tempdir()?;
    Orbweaver::crawl(web.start_url(), out.path(), options)?.end(PATIENCE).await?.expect(0, &[])?;
    let targets = web.log().entries().into_iter().map(|entry| entry.target);
    Ok(targets.filter(|target| target != "/robots.txt").collect())
}

#[tokio::test]
async fn the_policy_decides_which_links_are_the_same_page_and_each_is_asked_for_as_found() -> Result<()> {
    let root = tempfile::tempdir()?;
    dir(root.path())?;
    let raw = requests(root.path(), "--canonical raw").await?;
    let standard = requests(root.path(), "").await?;
    let sorted = requests(root.path(), "--canonical standard,sort-query").await?;
    let aggressive = requests(root.path(), "--canonical aggressive").await?;
    ensure!(raw.len() == 9, "{raw:?}");
    ensure!(standard.len() == 8 && standard.contains("/a.html?utm_source=x"), "{standard:?}");
    ensure!(sorted.len() == 7, "{sorted:?}");
    // The start page, `a.html` with and without a query, and `d`.
    ensure!(aggressive.len() == 4, "{aggressive:?}");
    Ok(())
}

#[tokio::test]
async fn a_crawl_does_not_go_on_under_another_policy_or_with_other_wide_domains() -> Result<()> {
    let web = serve(WebConfig { pages: 20, links: 3, ..WebConfig::default() })?;
    let out = tempfile::tempdir()?;
    let crawl = |options| Orbweaver::crawl(web.start_url(), out.path(), options);
    crawl("--canonical aggressive,no-strip-www --wide-domain example.edu --max-pages 5")?
        .end(PATIENCE)
        .await?
        .expect(0, &[])?;
    let refused = crawl("--canonical standard --max-pages 30")?.end(PATIENCE).await?;
    refused.expect(64, &["--canonical was `aggressive/1,no-strip-www` and is now `standard/1`"])?;
    let refused = crawl("--wide-domain other.edu --max-pages 30")?.end(PATIENCE).await?;
    refused.expect(64, &["--wide-domain was `example.edu` and is now `other.edu`"])?;
    crawl("--max-pages 1000")?.end(PATIENCE).await?.expect(0, &[])?;
    ensure!(Output::read(out.path())?.documents.len() == 20);
    ensure!(Requests::new(web.log().entries()).pages().values().all(|count| *count == 1), "a page was requested twice");
    Ok(())
}

#[tokio::test]
async fn the_hosts_of_a_wide_domain_are_sites_of_their_own() -> Result<()> {
    let config = WebConfig { pages: 60, address_hosts: 0, named_hosts: 3, ..WebConfig::default() };
    let web = serve(config)?;
    let hosts = |web: &ToyWeb| web.log().entries().into_iter().map(|entry| entry.host).collect::<BTreeSet<_>>();
    let out = tempfile::tempdir()?;
    let options = "--scope site --wide-domain toyweb0.localhost";
    Orbweaver::crawl(web.start_url(), out.path(), options)?.end(PATIENCE).await?.expect(0, &[])?;
    ensure!(hosts(&web).len() == 1, "{:?}", hosts(&web));
    let out = tempfile::tempdir()?;
    Orbweaver::crawl(web.start_url(), out.path(), "--scope site")?.end(PATIENCE).await?.expect(0, &[])?;
    ensure!(hosts(&web).len() == 3, "{:?}", hosts(&web));
    Ok(())
}

#[tokio::test]
async fn a_policy_or_domain_that_is_none_is_refused_with_what_is_allowed() -> Result<()> {
    for (options, words) in [
        (vec!["url", "--canonical", "strict", "a.b"], "allowed: `standard`, `aggressive` and `raw`"),
        (vec!["url", "--canonical", "raw,sort", "a.b"], "allowed: `drop-user-info`"),
        (vec!["url", "--wide-domain", "http://a.b", "a.b"], "`http://a.b` is not a domain"),
        (vec!["crawl", "--canonical", "standard/9", "a.b"], "not a version of this build; allowed: `standard/1`"),
    ] {
        Orbweaver::new(options)?.end(PATIENCE).await?.expect(64, &[words])?;
    }
    let ended = Orbweaver::new(["url", "--canonical", "aggressive", "https://www.a.test//b?c&utm_id=1"])?;
    let ended = ended.end(PATIENCE).await?;
    ended.expect(0, &[])?;
    ensure!(ended.stdout.contains("\"canonical\":\"http://a.test/b?c\""), "{}", ended.stdout);
    Ok(())
}
