//! WARC files of a crawl.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use orbweaver_pipeline_tests::{Dice, Orbweaver, Output, archived, check, normalized, outside, until};
use orbweaver_store::{FjallOptions, FjallStore, Store as _};
use orbweaver_toyweb::{Kind, ToyWeb, WebConfig};
use orbweaver_url::{CrawlName, Fingerprint, Policy};
use serde_json::Value;

use crate::{PATIENCE, serve};

/// Number of times that the crawler is killed.
const KILLS: usize = 10;

/// Number of responses by URL and status.
type Counts = BTreeMap<(String, u16), usize>;

/// Counts the responses that a web has sent, without connections that it reset.
fn sent(web: &ToyWeb) -> Counts {
    let mut counts = Counts::new();
    for entry in web.log().entries().iter().filter(|entry| entry.status != 0) {
        *counts.entry((normalized(&entry.host, &entry.target), entry.status)).or_default() += 1;
    }
    counts
}

/// Counts the responses in the archive of an output directory.
fn kept(out: &Path) -> Result<Counts> {
    let mut counts = Counts::new();
    for response in archived(&out.join("warc"))? {
        let (host, target) = response.url["http://".len()..].split_at(response.url[7..].find('/').unwrap_or(0));
        *counts.entry((normalized(host, target), response.status)).or_default() += 1;
    }
    Ok(counts)
}

/// Checks that the store has locations of each URL of the indexes, apart from those of robots.txt files, and that each is
/// the location of a line; returns the number of URLs.
async fn check_locations(out: &Path) -> Result<usize> {
    let store = FjallStore::open(out.join("state/store"), FjallOptions::default())?;
    let (mut pages, mut lines) = (BTreeSet::new(), BTreeSet::new());
    for file in std::fs::read_dir(out.join("warc/default"))? {
        let path = file?.path();
        if path.extension().is_none_or(|extension| extension != "cdxj") {
            continue;
        }
        for line in std::fs::read_to_string(path)?.lines() {
            let fields: Value = serde_json::from_str(&line[line.find('{').context("no fields")?..])?;
            let [url, file, offset, length] =
                ["url", "filename", "offset", "length"].map(|name| fields[name].as_str().unwrap_or_default());
            let url = orbweaver_url::parse(url)?;
            if url.path().starts_with("/robots") {
                continue;
            }
            let fingerprint = Fingerprint::of(&CrawlName::default(), &Policy::STANDARD.canonical_text(&url));
            pages.insert(fingerprint);
            lines.insert((format!("default/{file}"), offset.parse()?, length.parse()?));
        }
    }
    for page in &pages {
        // Two responses of a page within a millisecond have one location.
        let rows = store.captures(*page, 100).await?;
        ensure!(!rows.is_empty(), "{page} has no location");
        for row in rows {
            let location = (row.file, row.offset, row.length);
            ensure!(lines.contains(&location), "{location:?} is not a line");
        }
    }
    Ok(pages.len())
}

/// Returns the names of the open files in an output directory.
fn open_files(out: &Path) -> BTreeSet<OsString> {
    let files = std::fs::read_dir(out.join("warc/default")).into_iter().flatten().flatten();
    files.map(|file| file.file_name()).filter(|name| name.to_string_lossy().ends_with(".open")).collect()
}

#[tokio::test]
async fn every_response_is_archived_once_and_no_outcome_changes() -> Result<()> {
    let config = WebConfig { seed: 3, pages: 60, bytes: 3_000, slow_ms: 50, ..WebConfig::default() };
    let mut config = config.with_every_special(1);
    // A body that breaks off is a failure of the request, not a response.
    config.specials.remove(&Kind::ShortBody);
    let mut outcomes = vec![];
    for options in ["--warc", ""] {
        let web = serve(config.clone())?;
        let (out, truth) = (tempfile::tempdir()?, web.truth());
        let crawl = Orbweaver::crawl(web.start_url(), out.path(), options)?.arg("--exclude").arg(outside(&truth));
        crawl.end(PATIENCE).await?.expect(0, &[])?;
        let output = Output::read(out.path())?;
        output.ended_by("complete")?;
        check(&truth, &output)?;
        outcomes.push(output.urls.len());
        let (sent, kept) = (sent(&web), kept(out.path())?);
        if options == "--warc" {
            let difference: Vec<_> =
                sent.iter().filter(|(response, count)| kept.get(response) != Some(count)).collect();
            ensure!(difference.is_empty() && kept.len() == sent.len(), "not as sent: {difference:?} in {kept:?}");
            for status in [200, 301, 302, 404, 410, 429, 500] {
                ensure!(kept.keys().any(|(_, kept)| *kept == status), "no response with status {status}");
            }
            ensure!(kept.keys().any(|(url, _)| url.ends_with("/robots.txt")), "no robots.txt");
            let bodies = archived(&out.path().join("warc"))?;
            let start = bodies.iter().find(|response| response.url == web.start_url());
            ensure!(
                start.is_some_and(|start| start.body.starts_with(b"<!DOCTYPE html>")),
                "not the body of the start page"
            );
            let located = check_locations(out.path()).await?;
            ensure!(located > 60, "{located} URLs have locations");
        } else {
            ensure!(kept.is_empty(), "{kept:?}");
        }
    }
    ensure!(outcomes[0] == outcomes[1], "{outcomes:?} URLs with and without an archive");
    Ok(())
}

#[tokio::test]
async fn kills_leave_no_response_out_of_the_archive_and_none_in_it_twice() -> Result<()> {
    let mut dice = Dice(20_261_129);
    let config = WebConfig { seed: 7, pages: 1_500, bytes: 2_000, address_hosts: 4, ..WebConfig::default() };
    let (web, out) = (serve(config)?, tempfile::tempdir()?);
    let command = || Orbweaver::crawl(web.start_url(), out.path(), "--warc");
    for _ in 0..KILLS {
        let (requests, pause_us) = (dice.roll(1, 120), dice.roll(0, 20_000));
        let before = web.log().count();
        let mut crawl = command()?.start()?;
        until("the next requests", PATIENCE, || Ok(web.log().count() >= before + requests || !crawl.runs()?)).await?;
        tokio::time::sleep(std::time::Duration::from_micros(pause_us)).await;
        crawl.kill().await?;
    }
    let crawl = command()?.start()?;
    // Files of killed processes are deleted when their partition opens.
    let old = open_files(out.path());
    until("an open file", PATIENCE, || Ok(open_files(out.path()).difference(&old).next().is_some())).await?;
    crawl.interrupt()?;
    crawl.end(PATIENCE).await?;
    let interrupted: usize = kept(out.path())?.values().sum();
    ensure!(interrupted > 0, "an interrupted crawl leaves no closed file");
    command()?.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(out.path())?;
    output.ended_by("complete")?;
    check(&web.truth(), &output)?;
    let (sent, kept) = (sent(&web), kept(out.path())?);
    for (response, count) in &kept {
        let sent = sent.get(response).copied().unwrap_or_default();
        ensure!(*count <= sent, "{response:?} was sent {sent} times, and is archived {count} times");
    }
    for (url, line) in &output.urls {
        let Some(status) = line["status"].as_u64() else { continue };
        let response = (url.clone(), u16::try_from(status)?);
        ensure!(kept.contains_key(&response), "{response:?} is not archived");
    }
    let located = check_locations(out.path()).await?;
    println!(
        "{located} URLs located, {} responses archived, {} sent",
        kept.values().sum::<usize>(),
        sent.values().sum::<usize>()
    );
    Ok(())
}
