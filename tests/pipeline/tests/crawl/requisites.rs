//! An archive of pages with all that they need to be shown.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Result, ensure};
use orbweaver_pipeline_tests::{Orbweaver, Output, archived};
use orbweaver_toyweb::{Logging, Serving, ToyWeb};

use crate::PATIENCE;

fn serve(root: &Path) -> Result<ToyWeb> {
    Ok(ToyWeb::start_directory(root, &Serving { port: 0, logging: Logging::Memory(1 << 20) })?)
}

/// Writes files with these names and texts.
fn write(root: &Path, files: &[(&str, &str)]) -> Result<()> {
    for (name, text) in files {
        std::fs::write(root.join(name), text)?;
    }
    Ok(())
}

/// Files of the other host that the pages need.
const NEEDED: [&str; 8] =
    ["style.css", "imported.css", "background.png", "font.woff2", "small.png", "large.png", "frame.html", "main.js"];

/// Writes a site of two pages, and another one that has what they need and a page to which they link. Returns the start
/// of the second.
fn sites(first: &Path, second: &Path) -> Result<(ToyWeb, ToyWeb)> {
    let (pages, other) = (serve(first)?, serve(second)?);
    let base = other.start_url();
    let start = format!(
        "<title>start</title><link rel=stylesheet href={base}style.css><script src={base}main.js></script>
         <p style='background: url(own.png)'><a href=linked.html>a</a><a href={base}page.html>b</a>
         <img srcset='{base}small.png 1x, {base}large.png 2x'><a href=logo.png><img src=logo.png></a>
         <iframe src={base}frame.html></iframe><object data=inner.html></object><img src={base}missing.png>"
    );
    write(
        first,
        &[
            ("index.html", &start),
            ("linked.html", "<title>linked</title><img src=own.png><a href=inner.html>c</a>"),
            ("inner.html", "<title>inner</title>inner<a href=deep.html>d</a>"),
            ("deep.html", "<title>deep</title>"),
            ("own.png", "own"),
            ("logo.png", "logo"),
            ("unused.png", "unused"),
        ],
    )?;
    write(
        second,
        &[
            ("style.css", "@import 'imported.css'; body { background: url(background.png) } /* url(unused.png) */"),
            ("imported.css", "@font-face { src: url('font.woff2#x') format('woff2') } p { color: red }"),
            ("background.png", "background"),
            ("font.woff2", "font"),
            ("small.png", "small"),
            ("large.png", "large"),
            ("main.js", "0"),
            ("frame.html", "<title>frame</title><a href=page.html>x</a><img src=unused.png>"),
            ("page.html", "<title>page</title>"),
            ("unused.png", "unused"),
        ],
    )?;
    Ok((pages, other))
}

fn titles(output: &Output) -> BTreeSet<&str> {
    output.documents.values().filter_map(|document| document["title"].as_str()).collect()
}

#[tokio::test]
async fn with_requisites_an_archive_has_what_its_pages_need_and_no_further_page() -> Result<()> {
    let (first, second, out) = (tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?);
    let (pages, other) = sites(first.path(), second.path())?;
    let options = "--scope host --warc --requisites";
    Orbweaver::crawl(pages.start_url(), out.path(), options)?.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(out.path())?;
    ensure!(titles(&output) == BTreeSet::from(["deep", "inner", "linked", "start"]), "{:?}", titles(&output));
    ensure!(output.summary["pages"] == 4 && output.urls.len() == 15, "{}", output.summary);
    let requisites = output.summary["urls"]["requisites"].as_u64();
    ensure!(requisites.is_some_and(|count| (9..=10).contains(&count)), "the inner page may have been one first");
    let archive = archived(&out.path().join("warc"))?;
    let bodies = |base: &str, name: &str| {
        let url = format!("{base}{name}");
        archive.iter().filter(move |response| response.url == url && response.status == 200)
    };
    for name in NEEDED {
        let body = std::fs::read(second.path().join(name))?;
        ensure!(bodies(other.start_url(), name).map(|found| &found.body).eq([&body]), "{name} is not archived once");
        let line = &output.urls[&format!("{}{name}", other.start_url())];
        ensure!(
            line["outcome"] == "fetched"
                && line["requisite"] == true
                && line["depth"].is_null()
                && line["via"].as_str().is_some(),
            "{line}"
        );
    }
    for name in ["own.png", "logo.png", "linked.html"] {
        ensure!(bodies(pages.start_url(), name).next().is_some(), "{name} is not archived");
    }
    let missing = format!("{}missing.png", other.start_url());
    ensure!(archive.iter().any(|response| response.url == missing && response.status == 404), "no error response");
    ensure!(output.urls[&missing]["outcome"] == "gone");
    for (base, name) in
        [(other.start_url(), "page.html"), (other.start_url(), "unused.png"), (pages.start_url(), "unused.png")]
    {
        ensure!(!output.urls.contains_key(&format!("{base}{name}")), "{name} is not needed");
    }
    Ok(())
}

#[tokio::test]
async fn without_requisites_none_is_fetched_and_they_need_an_archive() -> Result<()> {
    let (first, second, out) = (tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?);
    let (pages, other) = sites(first.path(), second.path())?;
    Orbweaver::crawl(pages.start_url(), out.path(), "--scope host --warc")?.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(out.path())?;
    ensure!(titles(&output) == BTreeSet::from(["deep", "inner", "linked", "start"]), "{:?}", titles(&output));
    ensure!(other.log().count() == 0, "{:?}", other.log().entries());
    ensure!(!output.urls.contains_key(&format!("{}own.png", pages.start_url())));

    let resumed = Orbweaver::crawl(pages.start_url(), out.path(), "--scope host --warc --requisites=3")?;
    resumed.end(PATIENCE).await?.expect(64, &["--requisites was `not given` and is now `3`"])?;
    let out = tempfile::tempdir()?;
    let refused = Orbweaver::crawl(pages.start_url(), out.path(), "--requisites")?.end(PATIENCE).await?;
    refused.expect(64, &["--warc"])
}

#[tokio::test]
async fn a_crawl_that_ends_at_its_page_cap_has_what_its_pages_need() -> Result<()> {
    let (first, second, out) = (tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?);
    let (pages, other) = sites(first.path(), second.path())?;
    let options = "--scope host --warc --requisites --max-pages 1 --max-pages-per-site 1 --max-depth 0";
    for options in [options, "--scope host --warc --requisites --max-pages 1"] {
        let out = out.path().join(options.len().to_string());
        Orbweaver::crawl(pages.start_url(), &out, options)?.end(PATIENCE).await?;
        let output = Output::read(&out)?;
        ensure!(titles(&output) == BTreeSet::from(["start"]), "{:?}", titles(&output));
        let archive = archived(&out.join("warc"))?;
        for name in NEEDED {
            let url = format!("{}{name}", other.start_url());
            ensure!(archive.iter().any(|response| response.url == url && response.status == 200), "{name}: {options}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn no_more_requisites_of_a_page_are_fetched_than_permitted() -> Result<()> {
    let (first, second, out) = (tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?);
    let (pages, other) = sites(first.path(), second.path())?;
    let options = "--scope host --warc --requisites=1 --exclude linked";
    Orbweaver::crawl(pages.start_url(), out.path(), options)?.end(PATIENCE).await?.expect(0, &[])?;
    let names: BTreeSet<_> = other.log().entries().into_iter().map(|entry| entry.target).collect();
    let expected = ["/robots.txt", "/style.css", "/imported.css", "/font.woff2"].map(str::to_owned);
    ensure!(names == BTreeSet::from(expected), "{names:?}");
    Ok(())
}
