//! Effects of the options of a crawl, as seen by the server.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use orbweaver_pipeline_tests::{Orbweaver, Output, Requests, check, until};
use orbweaver_toyweb::{Fate, Kind, WebConfig};

use crate::{PATIENCE, serve};

fn small() -> WebConfig {
    WebConfig { pages: 120, links: 6, bytes: 2_000, ..WebConfig::default() }
}

#[tokio::test]
async fn max_pages_ends_the_crawl_with_about_so_many_pages_and_more_can_be_asked_for_later() -> Result<()> {
    let web = serve(small())?;
    let out = tempfile::tempdir()?;
    let command = |pages| Orbweaver::crawl(web.start_url(), out.path(), pages);
    command("--max-pages 30 --concurrency 8")?.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(out.path())?;
    output.ended_by("max_pages")?;
    ensure!((30..=38).contains(&output.documents.len()), "{} documents", output.documents.len());
    command("--max-pages 60 --concurrency 8")?.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(out.path())?;
    ensure!((60..=68).contains(&output.documents.len()), "{} documents", output.documents.len());
    ensure!(Requests::new(web.log().entries()).pages().values().all(|count| *count == 1), "a page was requested twice");
    Ok(())
}

#[tokio::test]
async fn max_depth_fetches_all_that_is_so_many_links_away_and_nothing_further() -> Result<()> {
    let web = serve(small())?;
    let whole = tempfile::tempdir()?;
    Orbweaver::crawl(web.start_url(), whole.path(), "")?.end(PATIENCE).await?.expect(0, &[])?;
    let documents = Output::read(whole.path())?.documents;
    // The links of the documents determine the distances, independently of the depth at which the crawl reached them.
    let mut near = BTreeSet::from([web.start_url().to_owned()]);
    for _ in 0..2 {
        let links = near.iter().filter_map(|url| documents[url]["links"].as_array()).flatten();
        let found: Vec<_> = links.filter_map(|link| link["url"].as_str().map(str::to_owned)).collect();
        near.extend(found);
    }
    let limited = tempfile::tempdir()?;
    Orbweaver::crawl(web.start_url(), limited.path(), "--max-depth 2")?.end(PATIENCE).await?.expect(0, &[])?;
    let reached: BTreeSet<_> = Output::read(limited.path())?.documents.into_keys().collect();
    ensure!(near.len() > 10 && near.len() < 120, "{} pages are near", near.len());
    ensure!(reached == near, "reached {}, near {}", reached.len(), near.len());
    Ok(())
}

#[tokio::test]
async fn depth_first_goes_deep_with_few_pages_and_breadth_first_stays_near() -> Result<()> {
    let crawl = async |order: &str| -> Result<Vec<u64>> {
        let web = serve(WebConfig { pages: 1000, ..small() })?;
        let out = tempfile::tempdir()?;
        // At this rate a few URLs are dispatched ahead, before better ones are found.
        let options = format!("--rate 8 --max-pages 40 --order {order}");
        Orbweaver::crawl(web.start_url(), out.path(), &options)?.end(PATIENCE).await?.expect(0, &[])?;
        let documents = Output::read(out.path())?.documents;
        Ok(documents.values().filter_map(|document| document["depth"].as_u64()).collect())
    };
    let (breadth, depth) = tokio::try_join!(crawl("breadth-first"), crawl("depth-first"))?;
    ensure!(breadth.len() >= 40 && depth.len() >= 40, "{} and {} documents", breadth.len(), depth.len());
    let deepest = |depths: &[u64]| depths.iter().max().copied().unwrap_or_default();
    ensure!(deepest(&breadth) <= 3, "breadth first: {breadth:?}");
    ensure!(deepest(&depth) >= 6, "depth first: {depth:?}");
    Ok(())
}

#[tokio::test]
async fn scope_host_keeps_to_the_host_and_port_of_the_seed() -> Result<()> {
    let web = serve(WebConfig { address_hosts: 2, ..small() })?;
    let out = tempfile::tempdir()?;
    Orbweaver::crawl(web.start_url(), out.path(), "--scope host")?.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(out.path())?;
    let entries = web.log().entries();
    ensure!(entries.iter().all(|entry| web.start_url().contains(&entry.host)), "another host was requested");
    ensure!(output.documents.len() > 10, "{} documents", output.documents.len());
    Ok(())
}

#[tokio::test]
async fn include_and_exclude_decide_what_is_requested() -> Result<()> {
    let web = serve(small())?;
    let out = tempfile::tempdir()?;
    let options = r"--include /$ --include \.html$ --exclude=-[0-9]*[02468]\.html$";
    Orbweaver::crawl(web.start_url(), out.path(), options)?.end(PATIENCE).await?.expect(0, &[])?;
    let allowed = regex::Regex::new(r"(/|[13579]\.html)$")?;
    let requests = Requests::new(web.log().entries()).pages();
    ensure!(requests.len() > 5 && requests.keys().all(|url| allowed.is_match(url)), "{requests:?}");
    Ok(())
}

#[tokio::test]
async fn nofollow_links_are_followed_when_it_is_asked_for() -> Result<()> {
    let specials = [(Kind::Nofollow, 2), (Kind::PageNofollow, 2)].into();
    let web = serve(WebConfig { specials, ..small() })?;
    let out = tempfile::tempdir()?;
    Orbweaver::crawl(web.start_url(), out.path(), "--follow-nofollow")?.end(PATIENCE).await?.expect(0, &[])?;
    let mut truth = web.truth();
    for expected in truth.iter_mut().filter(|expected| expected.fate == Fate::BehindNofollow) {
        expected.fate = Fate::Fetched;
    }
    check(&truth, &Output::read(out.path())?)
}

#[tokio::test]
async fn robots_are_not_asked_when_they_are_to_be_ignored() -> Result<()> {
    let web = serve(WebConfig { specials: [(Kind::Disallowed, 2)].into(), ..small() })?;
    let out = tempfile::tempdir()?;
    Orbweaver::crawl(web.start_url(), out.path(), "--ignore-robots")?.end(PATIENCE).await?.expect(0, &[])?;
    let mut truth = web.truth();
    for expected in truth.iter_mut().filter(|expected| expected.fate == Fate::RefusedByRobots) {
        expected.fate = Fate::Fetched;
    }
    check(&truth, &Output::read(out.path())?)?;
    ensure!(Requests::new(web.log().entries()).robots().is_empty(), "robots.txt was requested");
    Ok(())
}

#[tokio::test]
async fn the_user_agent_and_contact_that_were_given_are_what_the_server_sees() -> Result<()> {
    let web = serve(WebConfig { pages: 5, ..small() })?;
    let out = tempfile::tempdir()?;
    let options = "--user-agent TestBot/3 --contact mailto:me@example.org";
    Orbweaver::crawl(web.start_url(), out.path(), options)?.end(PATIENCE).await?.expect(0, &[])?;
    for entry in web.log().entries() {
        ensure!(
            entry.agent.starts_with("TestBot/3") && entry.agent.contains("mailto:me@example.org"),
            "{}",
            entry.agent
        );
    }
    Ok(())
}

#[tokio::test]
async fn documents_hold_text_title_links_and_on_request_the_body_the_main_text_and_facts() -> Result<()> {
    let web = serve(WebConfig { pages: 5, ..small() })?;
    let out = tempfile::tempdir()?;
    Orbweaver::crawl(web.start_url(), out.path(), "--html --main-text --markdown --facts --other-links")?
        .end(PATIENCE)
        .await?
        .expect(0, &[])?;
    for (url, document) in Output::read(out.path())?.documents {
        let field = |name: &str| document[name].as_str().with_context(|| format!("{url} has no {name}"));
        ensure!(document["status"] == 200 && field("content_type")?.starts_with("text/html"), "{url}");
        ensure!(document["links"].as_array().is_some_and(|links| links.len() == 6), "{url}: {}", document["links"]);
        ensure!(field("html")?.starts_with("<!DOCTYPE html>") && field("html")?.contains(field("title")?), "{url}");
        ensure!(field("text")?.contains(field("title")?) && !field("text")?.contains('<'), "{url}");
        ensure!(!field("main_text")?.is_empty() && !field("main_text")?.contains('<'), "{url}");
        ensure!(!field("markdown")?.is_empty() && !field("markdown")?.contains('<'), "{url}");
        ensure!(document["facts"]["meta"].is_array(), "{url}: {}", document["facts"]);
        ensure!(document["other_links"].is_array(), "{url}: {}", document["other_links"]);
        ensure!(field("fetched_at")?.ends_with('Z') && document["depth"].is_u64(), "{url}");
    }
    Ok(())
}

#[tokio::test]
async fn the_demo_crawls_its_own_web_without_any_other_option() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let demo = Orbweaver::new(["crawl", "--demo"])?.within(dir.path());
    demo.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(&dir.path().join("demo.crawl"))?;
    output.ended_by("complete")?;
    // 203 pages, of which robots.txt disallows one draft.
    ensure!(output.documents.len() == 202, "{} documents", output.documents.len());
    let of = |outcome: &str| output.urls.values().filter(|line| line["outcome"] == outcome).count();
    ensure!((of("refused"), of("redirected"), of("gone")) == (1, 1, 1), "{:?}", output.summary);
    Ok(())
}

#[tokio::test]
async fn a_crawl_stops_at_its_number_of_bytes_and_at_its_end_and_goes_on_without_them() -> Result<()> {
    let web = serve(WebConfig { pages: 200, bytes: 4_000, ..WebConfig::default() })?;
    let (out, truth) = (tempfile::tempdir()?, web.truth());
    let command = |options: &str| Orbweaver::crawl(web.start_url(), out.path(), options);
    command("--rate 200 --max-bytes 100KB --concurrency 4")?.end(PATIENCE).await?.expect(0, &["--max-bytes"])?;
    let output = Output::read(out.path())?;
    output.ended_by("capped")?;
    let bytes = output.summary["urls"]["bytes"].as_u64().unwrap_or_default();
    // Four more requests may be in flight.
    ensure!((100_000..120_000).contains(&bytes), "{bytes} bytes");
    let before = web.log().count();
    command("--max-bytes none --until 2026-01-01T00:00:00Z")?.end(PATIENCE).await?.expect(0, &["--until"])?;
    Output::read(out.path())?.ended_by("capped")?;
    ensure!(web.log().count() == before, "{} requests after the end", web.log().count() - before);
    command("--until none")?.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(out.path())?;
    output.ended_by("complete")?;
    check(&truth, &output)
}

#[tokio::test]
async fn no_site_gets_more_pages_than_the_cap_and_the_other_urls_are_refused() -> Result<()> {
    const MOST: u64 = 7;
    let web = serve(WebConfig { links: 20, address_hosts: 4, ..small() })?;
    let out = tempfile::tempdir()?;
    let command = |options: &str| Orbweaver::crawl(web.start_url(), out.path(), options);
    let mut first = command(&format!("--rate 4 --max-pages-per-site {MOST}"))?.start()?;
    until("the first pages", PATIENCE, || Ok(web.log().count() > 2 * MOST || !first.runs()?)).await?;
    first.kill().await?;
    // The counts survive the process.
    command(&format!("--max-pages-per-site {MOST}"))?.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(out.path())?;
    output.ended_by("complete")?;
    let mut sites: BTreeMap<&str, u64> = BTreeMap::new();
    for url in output.documents.keys() {
        *sites.entry(url.split('/').nth(2).context("a host")?).or_default() += 1;
    }
    ensure!(sites.len() == 4 && sites.values().all(|pages| *pages == MOST), "{sites:?}");
    let refused = output.summary["urls"]["refused"]["site_cap"].as_u64().context("nothing was refused")?;
    ensure!(refused >= 10, "{refused} refused");
    Ok(())
}
