//! A crawl finds every page, and requests each once.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use orbweaver_pipeline_tests::{Orbweaver, Output, Requests, check, check_requests, cppreference, outside};
use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};
use url::Url;

use crate::{PATIENCE, serve};

/// Crawls a web with every kind of special place, and compares outcomes, documents and requests with its truth.
async fn every_feature(seed: u64, links: u32) -> Result<()> {
    let config = WebConfig {
        seed,
        links,
        pages: 300,
        bytes: 6_000,
        address_hosts: 4,
        named_hosts: 5,
        named_sites: 2,
        ..WebConfig::default()
    };
    let web = serve(config.with_every_special(3))?;
    let (out, truth) = (tempfile::tempdir()?, web.truth());
    let crawl = Orbweaver::crawl(web.start_url(), out.path(), "")?.arg("--exclude").arg(outside(&truth));
    crawl.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(out.path())?;
    output.ended_by("complete")?;
    check(&truth, &output)?;
    check_requests(&truth, &Requests::new(web.log().entries()))
}

#[tokio::test]
async fn every_reachable_page_of_a_web_with_every_feature_is_fetched_exactly_once_seed_1() -> Result<()> {
    every_feature(1, 30).await
}

#[tokio::test]
async fn every_reachable_page_of_a_web_with_every_feature_is_fetched_exactly_once_seed_2() -> Result<()> {
    every_feature(2, 8).await
}

#[tokio::test]
async fn every_reachable_page_of_a_web_with_every_feature_is_fetched_exactly_once_seed_3() -> Result<()> {
    every_feature(3, 3).await
}

#[tokio::test]
async fn a_plain_web_of_three_thousand_pages_is_fetched_whole_and_each_page_once() -> Result<()> {
    let web = serve(WebConfig { seed: 4, pages: 3_000, bytes: 4_000, address_hosts: 2, ..WebConfig::default() })?;
    let (out, truth) = (tempfile::tempdir()?, web.truth());
    Orbweaver::crawl(web.start_url(), out.path(), "")?.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(out.path())?;
    output.ended_by("complete")?;
    check(&truth, &output)?;
    check_requests(&truth, &Requests::new(web.log().entries()))
}

#[tokio::test]
async fn every_page_of_a_real_tree_that_an_independent_walk_reaches_is_fetched_exactly_once() -> Result<()> {
    let Some(tree) = cppreference().await? else { return Ok(()) };
    let web = ToyWeb::start_directory(&tree.root, &Serving { port: 0, logging: Logging::Memory(1 << 20) })?;
    let out = tempfile::tempdir()?;
    let start = format!("{}{}", web.start_url(), tree.start);
    Orbweaver::crawl(&start, out.path(), "--scope host")?.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(out.path())?;
    output.ended_by("complete")?;

    let documents = output.documents.keys().map(|url| path(url)).collect::<Result<BTreeSet<_>>>()?;
    let lost: Vec<_> = tree.reachable.difference(&documents).take(20).collect();
    let invented: Vec<_> = documents.difference(&tree.reachable).take(20).collect();
    ensure!(lost.is_empty() && invented.is_empty(), "lost: {lost:?}\ninvented: {invented:?}");
    ensure!(documents.len() == output.documents.len(), "one file has two documents");

    let mut requests: BTreeMap<String, u32> = BTreeMap::new();
    for entry in web.log().entries().iter().filter(|entry| entry.target != "/robots.txt") {
        *requests.entry(path(&format!("http://{}{}", entry.host, entry.target))?).or_insert(0) += 1;
    }
    let repeated: Vec<_> = requests.iter().filter(|(_, count)| **count != 1).take(20).collect();
    ensure!(repeated.is_empty(), "not requested once: {repeated:?}");
    let asked: BTreeSet<_> = requests.into_keys().collect();
    let never: Vec<_> = tree.reachable.union(&tree.missing).filter(|path| !asked.contains(*path)).take(20).collect();
    ensure!(never.is_empty(), "never requested: {never:?}");
    Ok(())
}

/// Returns the decoded path of a URL, relative to the root.
fn path(url: &str) -> Result<String> {
    let url = Url::parse(url)?;
    let mut bytes = Vec::new();
    let mut rest = url.path().trim_start_matches('/').as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = tail.get(..2).filter(|_| byte == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(value) => {
                bytes.push(value);
                rest = &tail[2..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    Ok(String::from_utf8(bytes)?)
}
