//! Bad input yields a clear error that names its cause, and the matching exit code.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use orbweaver_pipeline_tests::{Orbweaver, Output, until};
use orbweaver_toyweb::{Kind, WebConfig};
use serde_json::json;

use crate::{PATIENCE, serve};

const USAGE: i32 = 64;
const NO_INPUT: i32 = 66;
const NO_SEED: i32 = 69;
const NO_OUTPUT: i32 = 73;
/// Time allowed for an invalid command line to fail.
const SOON: Duration = Duration::from_secs(10);

/// Runs an invalid command line in a temporary directory, which must stay empty.
async fn refused(arguments: &[&str], code: i32, words: &[&str]) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let ended = Orbweaver::new(arguments)?.within(dir.path()).end(SOON).await?;
    ended.expect(code, words)?;
    let left: Vec<_> = std::fs::read_dir(dir.path())?.collect::<Result<_, _>>()?;
    ensure!(left.is_empty(), "{arguments:?} left something behind: {left:?}");
    Ok(())
}

#[tokio::test]
async fn a_wrong_command_line_names_the_argument_and_makes_no_directory() -> Result<()> {
    refused(&["crawl", "http://"], USAGE, &["http://"]).await?;
    refused(&["crawl", "http://exa mple/"], USAGE, &["exa mple"]).await?;
    refused(&["crawl", "ftp://example.org/"], USAGE, &["ftp", "http"]).await?;
    refused(&["crawl", "http://example.org/", "--no-such-option"], USAGE, &["--no-such-option"]).await?;
    refused(&["crawl", "http://example.org/", "--rate", "fast"], USAGE, &["--rate", "fast"]).await?;
    refused(&["crawl", "http://example.org/", "--rate", "-3"], USAGE, &["--rate", "-3", "0.001 to 1000"]).await?;
    refused(&["crawl", "http://example.org/", "--max-pages", "many"], USAGE, &["--max-pages", "many"]).await?;
    refused(&["crawl", "http://example.org/", "--max-pages", "0"], USAGE, &["--max-pages"]).await?;
    refused(&["crawl", "http://example.org/", "--max-pages-per-site", "0"], USAGE, &["--max-pages-per-site"]).await?;
    refused(&["crawl", "http://example.org/", "--max-bytes", "much"], USAGE, &["--max-bytes", "`512KiB`"]).await?;
    refused(&["crawl", "http://example.org/", "--until", "later"], USAGE, &["--until", "`7days`"]).await?;
    refused(&["crawl", "http://example.org/", "--revisit", "daily"], USAGE, &["--revisit", "`6hours..30days`"]).await?;
    refused(&["crawl", "http://example.org/", "--revisit", "1ms"], USAGE, &["--revisit", "1000"]).await?;
    refused(&["crawl", "http://example.org/", "--concurrency", "0"], USAGE, &["--concurrency"]).await?;
    refused(&["crawl", "http://example.org/", "--scope", "world"], USAGE, &["--scope", "world"]).await?;
    refused(&["crawl", "http://example.org/", "--max-time", "soon"], USAGE, &["--max-time", "soon"]).await?;
    refused(&["crawl", "http://example.org/", "--include", "a(b"], USAGE, &["--include", "a(b"]).await?;
    refused(&["crawl", "http://example.org/", "--exclude", "[z"], USAGE, &["--exclude", "[z"]).await?;
    refused(&["crawl", "http://example.org/", "--header", "no colon"], USAGE, &["--header", "no colon"]).await?;
    refused(&["crawl", "http://example.org/", "--prefix", "own"], USAGE, &["--prefix", "--brokers"]).await?;
    refused(&["crawl", "http://example.org/", "-X", "a=b"], USAGE, &["-X", "--brokers"]).await?;
    refused(&["crawl", "http://example.org/", "--crawl", "docs"], USAGE, &["--brokers"]).await?;
    refused(&["consumers", "list"], USAGE, &["--brokers"]).await?;
    refused(&["consumers", "add", "frontier", "--brokers", "localhost:9"], USAGE, &["frontier", "pipeline's own"])
        .await?;
    refused(&["crawl"], USAGE, &["URL"]).await?;
    refused(&["crawl", "--out", "nothing-there.crawl"], USAGE, &["nothing-there.crawl"]).await?;
    refused(&["no-such-command"], USAGE, &["no-such-command"]).await
}

#[tokio::test]
async fn a_missing_seeds_file_is_named() -> Result<()> {
    refused(&["crawl", "--seeds", "no-such-file", "--out", "x.crawl"], NO_INPUT, &["no-such-file"]).await
}

#[tokio::test]
async fn an_output_that_is_a_file_or_somebody_elses_directory_is_left_alone() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (file, foreign) = (dir.path().join("a-file"), dir.path().join("foreign"));
    std::fs::write(&file, "mine")?;
    std::fs::create_dir(&foreign)?;
    std::fs::write(foreign.join("notes.txt"), "mine")?;
    for out in [&file, &foreign] {
        let name = out.display().to_string();
        Orbweaver::crawl("http://127.0.0.1:9/", out, "")?.end(SOON).await?.expect(NO_OUTPUT, &[&name])?;
    }
    ensure!(std::fs::read_to_string(&file)? == "mine" && std::fs::read_dir(&foreign)?.count() == 1);
    Ok(())
}

#[tokio::test]
async fn an_output_that_cannot_be_written_is_named() -> Result<()> {
    // Not even root can create a directory here.
    let out = Path::new("/proc/orbweaver.crawl");
    Orbweaver::crawl("http://127.0.0.1:9/", out, "")?.end(SOON).await?.expect(NO_OUTPUT, &["/proc/orbweaver.crawl"])?;
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o555))?;
    let out = dir.path().join("x.crawl");
    let name = out.display().to_string();
    Orbweaver::crawl("http://127.0.0.1:9/", &out, "")?.end(SOON).await?.expect(NO_OUTPUT, &[&name])
}

#[tokio::test]
async fn a_crawl_that_is_running_is_not_started_a_second_time() -> Result<()> {
    let web = serve(WebConfig { pages: 50, ..WebConfig::default() })?;
    let out = tempfile::tempdir()?;
    let mut first = Orbweaver::crawl(web.start_url(), out.path(), "--rate 1")?.start()?;
    until("the first request", PATIENCE, || Ok(web.log().count() > 0 || !first.runs()?)).await?;
    let name = out.path().display().to_string();
    let second = Orbweaver::crawl(web.start_url(), out.path(), "--rate 1")?.end(SOON).await?;
    second.expect(NO_OUTPUT, &[&name, "another process"])?;
    ensure!(first.runs()?, "the first was disturbed");
    first.kill().await
}

#[tokio::test]
async fn bad_lines_of_a_seeds_file_are_counted_and_the_good_ones_are_crawled() -> Result<()> {
    let web = serve(WebConfig { pages: 20, ..WebConfig::default() })?;
    let dir = tempfile::tempdir()?;
    let (seeds, out) = (dir.path().join("seeds"), dir.path().join("x.crawl"));
    let good = format!("{{\"url\": \"{}\"}}", web.start_url());
    std::fs::write(&seeds, format!("# a comment\n\nhttp://exa mple/\n{good}\n{{\"url\": 3}}\nftp://example.org/\n"))?;
    let base = ["crawl", "--allow-private", "--rate", "unlimited", "--scope", "any", "--out"];
    let crawl = Orbweaver::new(base)?.arg(&out).arg("--seeds").arg(&seeds);
    crawl.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(&out)?;
    ensure!(output.summary["dead_letters"] == 3, "{}", output.summary);
    ensure!(output.documents.len() == 20, "{} documents", output.documents.len());
    Ok(())
}

#[tokio::test]
async fn the_document_of_a_seed_has_its_metadata_and_its_links_are_one_deeper_than_it() -> Result<()> {
    let web = serve(WebConfig { pages: 20, ..WebConfig::default() })?;
    let dir = tempfile::tempdir()?;
    let (seeds, out) = (dir.path().join("seeds"), dir.path().join("x.crawl"));
    let seed = json!({ "url": web.start_url(), "depth": 5, "metadata": { "customer": "42" } });
    std::fs::write(&seeds, format!("{seed}\n"))?;
    let base = ["crawl", "--allow-private", "--rate", "unlimited", "--scope", "any", "--out"];
    Orbweaver::new(base)?.arg(&out).arg("--seeds").arg(&seeds).end(PATIENCE).await?.expect(0, &[])?;
    let documents = Output::read(&out)?.documents;
    let (of_seeds, others): (Vec<_>, Vec<_>) = documents.values().partition(|document| document["depth"] == 5);
    ensure!(of_seeds.len() == 1 && of_seeds[0]["metadata"] == json!({ "customer": "42" }), "{of_seeds:?}");
    ensure!(others.iter().all(|document| document["metadata"].is_null()), "{others:?}");
    ensure!(others.iter().any(|document| document["depth"] == 6) && documents.len() == 20, "{others:?}");
    Ok(())
}

#[tokio::test]
async fn seeds_are_read_from_standard_input() -> Result<()> {
    let web = serve(WebConfig { pages: 20, ..WebConfig::default() })?;
    let dir = tempfile::tempdir()?;
    let (seeds, out) = (dir.path().join("seeds"), dir.path().join("x.crawl"));
    std::fs::write(&seeds, format!("{}\n", web.start_url()))?;
    let base = ["crawl", "--allow-private", "--rate", "unlimited", "--scope", "any", "--seeds", "-", "--out"];
    let crawl = Orbweaver::new(base)?.arg(&out).stdin(std::fs::File::open(&seeds)?);
    crawl.end(PATIENCE).await?.expect(0, &[])?;
    ensure!(Output::read(&out)?.documents.len() == 20);
    Ok(())
}

#[tokio::test]
async fn a_host_that_cannot_be_reached_is_no_seed() -> Result<()> {
    let out = tempfile::tempdir()?;
    // A port that was just free, so nothing listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let url = format!("http://127.0.0.1:{port}/");
    Orbweaver::crawl(&url, out.path(), "")?.end(PATIENCE).await?.expect(NO_SEED, &[&url])
}

#[tokio::test]
async fn a_private_address_is_refused_unless_it_is_allowed() -> Result<()> {
    let web = serve(WebConfig::default())?;
    let out = tempfile::tempdir()?;
    let crawl = Orbweaver::new(["crawl", web.start_url(), "--out"])?.arg(out.path().join("x"));
    crawl.end(PATIENCE).await?.expect(NO_SEED, &["private"])?;
    ensure!(web.log().count() == 0, "the site was requested");
    Ok(())
}

#[tokio::test]
async fn a_site_whose_robots_refuse_everything_is_no_seed() -> Result<()> {
    let web = serve(WebConfig { specials: [(Kind::RobotsRefusing, 1)].into(), ..WebConfig::default() })?;
    let page = web.truth().into_iter().find(|expected| expected.kind.is_some()).map(|expected| expected.url);
    let out = tempfile::tempdir()?;
    let crawl = Orbweaver::crawl(&page.unwrap_or_default(), out.path(), "")?;
    crawl.end(PATIENCE).await?.expect(NO_SEED, &["robots"])?;
    let targets: Vec<_> = web.log().entries().into_iter().map(|entry| entry.target).collect();
    ensure!(targets == ["/robots.txt"], "{targets:?}");
    Ok(())
}

#[tokio::test]
async fn going_on_with_other_settings_is_refused_and_names_both_values() -> Result<()> {
    let web = serve(WebConfig { pages: 20, ..WebConfig::default() })?;
    let out = tempfile::tempdir()?;
    Orbweaver::crawl(web.start_url(), out.path(), "--max-depth 3")?.end(PATIENCE).await?.expect(0, &[])?;
    let other = Orbweaver::crawl(web.start_url(), out.path(), "--max-depth 4")?;
    other.end(SOON).await?.expect(USAGE, &["--max-depth", "`3`", "`4`"])?;
    let other = Orbweaver::crawl("http://example.org/", out.path(), "--max-depth 3")?;
    other.end(SOON).await?.expect(USAGE, &[web.start_url(), "http://example.org/"])
}
