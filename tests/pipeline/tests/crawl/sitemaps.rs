//! Sitemaps and feeds lead to pages that no page links to.

use std::{
    collections::BTreeSet,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use orbweaver_pipeline_tests::{Orbweaver, Output, changes};
use orbweaver_toyweb::{Logging, Serving, ToyWeb};
use serde_json::Value;
use tokio::time::sleep;

use crate::PATIENCE;

/// Serves a site with a sitemap index, a compressed sitemap and a feed. The sitemaps name only some of its pages.
fn serve(root: &Path, robots_txt: &str) -> Result<ToyWeb> {
    let web = ToyWeb::start_directory(root, &Serving { port: 0, logging: Logging::Memory(1 << 20) })?;
    let base = web.start_url();
    let feed = "<link rel=alternate type=application/rss+xml href=/feed.xml>";
    let files = [
        ("robots.txt", robots_txt.to_owned()),
        ("index.html", format!("<title>start</title>{feed}<a href=linked.html>a</a><a href=other.xml>b</a>")),
        ("linked.html", format!("<title>linked</title>{feed}")),
        ("orphan.html", "<title>orphan</title>".to_owned()),
        ("deep.html", "<title>deep</title>".to_owned()),
        ("news.html", "<title>news</title>".to_owned()),
        ("secret.html", "<title>secret</title>".to_owned()),
        ("other.xml", "<catalog><url><loc>/orphan.html</loc></url></catalog>".to_owned()),
        ("page.xml", "<!doctype html><title>an error page</title><a href=nowhere.html>x</a>".to_owned()),
        (
            "index.xml",
            format!(
                "<sitemapindex xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>
                 <sitemap><loc>{base}sitemap.xml</loc></sitemap><sitemap><loc>{base}urls.txt</loc></sitemap>
                 <sitemap><loc>{base}missing.xml</loc></sitemap><sitemap><loc>{base}page.xml</loc></sitemap></sitemapindex>"
            ),
        ),
        (
            "sitemap.xml",
            format!(
                "<?xml version='1.0' encoding='UTF-8'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>
                 <url><loc>{base}orphan.html</loc><lastmod>2026-01-01</lastmod></url><url><loc>{base}secret.html</loc></url>
                 <url><loc>{base}linked.html</loc></url></urlset>"
            ),
        ),
        ("urls.txt", format!("{base}deep.html\n")),
        (
            "feed.xml",
            format!("<rss version='2.0'><channel><item><link>{base}news.html</link></item></channel></rss>"),
        ),
    ];
    for (name, text) in files {
        std::fs::write(root.join(name), text)?;
    }
    Ok(web)
}

/// Returns the titles of the documents of a crawl, and its output.
async fn crawl(start: &str, options: &str) -> Result<(BTreeSet<String>, Output)> {
    let out = tempfile::tempdir()?;
    Orbweaver::crawl(start, out.path(), options)?.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(out.path())?;
    output.ended_by("complete")?;
    let titles = output.documents.values().filter_map(|document| document["title"].as_str()).map(str::to_owned);
    Ok((titles.collect(), output))
}

fn are(titles: &BTreeSet<String>, expected: &[&str]) -> Result<()> {
    ensure!(titles.iter().map(String::as_str).eq(expected.iter().copied()), "documents {titles:?}, not {expected:?}");
    Ok(())
}

#[tokio::test]
async fn sitemaps_and_feeds_are_read_if_requested_and_lead_to_pages_without_links() -> Result<()> {
    let root = tempfile::tempdir()?;
    let web = serve(root.path(), "User-agent: *\nDisallow: /secret\nSitemap: /index.xml\n")?;
    let (titles, output) = crawl(web.start_url(), "").await?;
    are(&titles, &["linked", "start"])?;
    ensure!(output.urls.len() == 3, "{:?}", output.urls.keys());

    let (titles, output) = crawl(web.start_url(), "--sitemaps").await?;
    are(&titles, &["deep", "linked", "orphan", "start"])?;
    let line = |path: &str| &output.urls[&format!("{}{path}", web.start_url())];
    for path in ["index.xml", "sitemap.xml", "urls.txt"] {
        ensure!(line(path)["outcome"] == "fetched", "{path}: {}", line(path));
    }
    ensure!(line("missing.xml")["outcome"] == "gone", "{}", line("missing.xml"));
    ensure!(line("secret.html")["reason"] == "robots", "{}", line("secret.html"));
    for path in ["other.xml", "page.xml"] {
        ensure!(line(path)["reason"] == "content_type", "no sitemap: {}", line(path));
    }
    ensure!(output.urls.len() == 11, "{:?}", output.urls.keys());
    let via = |path: &str| line(path)["via"].as_str().unwrap_or_default().to_owned();
    ensure!(
        via("index.xml").ends_with("/robots.txt") && via("deep.html").ends_with("/urls.txt"),
        "{}",
        via("deep.html")
    );

    let (titles, _) = crawl(web.start_url(), "--sitemaps --feeds").await?;
    are(&titles, &["deep", "linked", "news", "orphan", "start"])?;
    let (titles, _) = crawl(web.start_url(), "--feeds").await?;
    are(&titles, &["linked", "news", "start"])
}

#[tokio::test]
async fn without_a_sitemap_in_robots_txt_the_usual_place_is_tried_and_a_sitemap_may_be_a_seed() -> Result<()> {
    let root = tempfile::tempdir()?;
    let web = serve(root.path(), "User-agent: *\n")?;
    let (titles, _) = crawl(web.start_url(), "--sitemaps").await?;
    are(&titles, &["linked", "orphan", "secret", "start"])?;
    let (titles, _) = crawl(&format!("{}urls.txt", web.start_url()), "--sitemaps").await?;
    are(&titles, &["deep", "linked", "orphan", "secret"])
}

/// Writes two pages with this text, and a sitemap that lists the modification of the first one alone.
fn write_version(root: &Path, base: &str, text: &str) -> Result<()> {
    for name in ["a.html", "b.html"] {
        std::fs::write(root.join(name), format!("<title>{name}</title><p>{text}</p>"))?;
    }
    let modified = humantime::format_rfc3339_millis(std::fs::metadata(root.join("a.html"))?.modified()?);
    let map = format!(
        "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url><loc>{base}a.html</loc><lastmod>{modified}</lastmod></url>
         <url><loc>{base}b.html</loc><lastmod>2026-01-01</lastmod></url></urlset>"
    );
    Ok(std::fs::write(root.join("map.xml"), map)?)
}

#[tokio::test]
async fn a_page_that_a_sitemap_lists_as_modified_is_visited_long_before_its_time() -> Result<()> {
    let (root, out) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let web = ToyWeb::start_directory(root.path(), &Serving { port: 0, logging: Logging::Memory(1 << 20) })?;
    let base = web.start_url();
    std::fs::write(root.path().join("robots.txt"), "User-agent: *\nSitemap: /map.xml\n")?;
    std::fs::write(root.path().join("index.html"), "<title>start</title><a href=b.html>b</a>")?;
    write_version(root.path(), base, "first")?;
    let round = async || {
        let options = "--sitemaps --rate 100 --revisit 6hours..30days,application/xml=1s..2s";
        Orbweaver::crawl(base, out.path(), options)?.end(PATIENCE).await?.expect(0, &["will be visited again"])
    };
    round().await?;
    ensure!(changes(out.path())?.values().all(|changes| changes.len() == 1), "{:?}", changes(out.path())?);

    write_version(root.path(), base, "second")?;
    let deadline = Instant::now() + PATIENCE;
    let url = |name: &str| format!("{base}{name}");
    while changes(out.path())?[&url("a.html")].len() < 2 {
        ensure!(Instant::now() < deadline, "not visited again: {:?}", changes(out.path())?);
        sleep(Duration::from_millis(100)).await;
        round().await?;
    }
    let changes = changes(out.path())?;
    let change = &changes[&url("a.html")][1];
    ensure!(change["change"] == "changed" && change["text_changed"] == true, "{change}");
    ensure!(changes[&url("b.html")].len() == 1, "its copy is out of date, which nothing says: {changes:?}");
    let documents = std::fs::read_to_string(out.path().join("documents.jsonl"))?;
    let last: Value = serde_json::from_str(documents.lines().last().unwrap_or_default())?;
    ensure!(last["url"] == url("a.html") && last["visit"] == 1, "{last}");
    ensure!(last["text"] == "second" && last["listed_modified"].is_string(), "{last}");
    Ok(())
}
