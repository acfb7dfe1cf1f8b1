//! Links that lead out of a crawl, checked once each.

use std::{
    collections::BTreeSet,
    io::{Read as _, Write as _},
    net::TcpListener,
    path::Path,
    thread,
};

use anyhow::{Result, ensure};
use orbweaver_pipeline_tests::{Orbweaver, Output, archived};
use orbweaver_toyweb::{Logging, Serving, ToyWeb};

use crate::PATIENCE;

fn serve(root: &Path) -> Result<ToyWeb> {
    Ok(ToyWeb::start_directory(root, &Serving { port: 0, logging: Logging::Memory(1 << 20) })?)
}

/// Serves a body without an end at each URL; ends with the test.
fn serve_endless() -> Result<String> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let start = format!("http://{}/", listener.local_addr()?);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n");
                while stream.write_all(&[b' '; 65536]).is_ok() {}
            });
        }
    });
    Ok(start)
}

/// Writes a site whose pages link to another one, which has two of the three linked pages.
fn sites(first: &Path, second: &Path) -> Result<(ToyWeb, ToyWeb)> {
    let (pages, other) = (serve(first)?, serve(second)?);
    let base = other.start_url();
    let links = format!("<a href={base}one.html>one</a><a href={base}missing.html>missing</a>");
    std::fs::write(first.join("index.html"), format!("<title>start</title>{links}<a href=next.html>next</a>"))?;
    let next = format!("<title>next</title>{links}<a href={base}two.html>two</a><a href={base}private/x>x</a>");
    std::fs::write(first.join("next.html"), next)?;
    std::fs::write(second.join("one.html"), format!("<title>one</title><a href={base}further.html>further</a>"))?;
    std::fs::write(second.join("two.html"), "<title>two</title>")?;
    std::fs::write(second.join("further.html"), "<title>further</title>")?;
    Ok((pages, other))
}

fn targets(web: &ToyWeb) -> Vec<String> {
    let mut targets: Vec<_> = web.log().entries().into_iter().map(|entry| entry.target).collect();
    targets.sort();
    targets
}

#[tokio::test]
async fn links_out_of_a_crawl_are_requested_once_and_nothing_of_them_is_kept() -> Result<()> {
    let (first, second, out) = (tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?);
    let (pages, other) = sites(first.path(), second.path())?;
    // The last page is at the depth limit, and the cap of pages is reached with it.
    let options = "--scope host --check-external --max-depth 1 --max-pages 2 --exclude private --warc";
    Orbweaver::crawl(pages.start_url(), out.path(), options)?.end(PATIENCE).await?;
    let output = Output::read(out.path())?;
    let titles: BTreeSet<_> = output.documents.values().filter_map(|document| document["title"].as_str()).collect();
    ensure!(titles == BTreeSet::from(["start", "next"]), "{titles:?}");
    ensure!(targets(&other) == ["/missing.html", "/one.html", "/robots.txt", "/two.html"], "{:?}", targets(&other));
    ensure!(output.summary["pages"] == 2 && output.summary["urls"]["external"] == 2, "{}", output.summary);
    for (name, outcome, status) in [("one", "fetched", 200), ("two", "fetched", 200), ("missing", "gone", 404)] {
        let line = &output.urls[&format!("{}{name}.html", other.start_url())];
        let is_external = line["external"] == true && line["depth"].is_null() && line["via"].is_string();
        ensure!(is_external && line["outcome"] == outcome && line["status"] == status, "{line}");
        ensure!(line["fetch_ms"].is_u64(), "{line}");
    }
    ensure!(output.urls.len() == 5, "{:?}", output.urls);
    let archive = archived(&out.path().join("warc"))?;
    ensure!(archive.iter().any(|response| response.url.starts_with(pages.start_url())), "the pages are archived");
    ensure!(!archive.iter().any(|response| response.url.starts_with(other.start_url())), "an external URL is archived");

    let report = Orbweaver::new(["report", "links", "--format", "jsonl", "--only", "broken"])?.arg(out.path());
    let report = report.end(PATIENCE).await?;
    report.expect(0, &[])?;
    let missing = format!("{}missing.html", other.start_url());
    let on_pages = report.stdout.lines().filter(|line| line.contains(&missing) && line.contains("\"page\"")).count();
    ensure!(on_pages == 2, "{}", report.stdout);
    Ok(())
}

#[tokio::test]
async fn an_external_body_without_an_end_is_not_read_and_without_the_option_nothing_is_requested() -> Result<()> {
    let (first, checked, unchecked) = (tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?);
    let (pages, endless) = (serve(first.path())?, serve_endless()?);
    std::fs::write(first.path().join("index.html"), format!("<title>start</title><a href={endless}>endless</a>"))?;
    for (options, out) in
        [("--scope host --ignore-robots --check-external", &checked), ("--scope host --ignore-robots", &unchecked)]
    {
        Orbweaver::crawl(pages.start_url(), out.path(), options)?.end(PATIENCE).await?.expect(0, &[])?;
    }
    let line = &Output::read(checked.path())?.urls[&endless];
    ensure!(line["outcome"] == "fetched" && line["bytes"] == 0, "{line}");
    ensure!(Output::read(unchecked.path())?.urls.len() == 1);
    Ok(())
}
