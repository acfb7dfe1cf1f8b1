//! The small tools print lines of JSON.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use orbweaver_pipeline_tests::{Ended, Orbweaver};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(10);

fn lines(ended: &Ended) -> Result<Vec<Value>> {
    ended.expect(0, &[])?;
    Ok(ended.stdout.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

#[tokio::test]
async fn url_prints_what_each_url_is_to_a_crawl() -> Result<()> {
    let ended = Orbweaver::new(["url", "HTTP://Www.Example.ORG:80/%7Ea/../b?x#f", "not a url"])?.end(SOON).await?;
    let lines = lines(&ended)?;
    ensure!(lines.len() == 2, "{lines:?}");
    ensure!(lines[0].to_string().contains("\"http://www.example.org/b?x\""), "{}", lines[0]);
    ensure!(lines[0].to_string().contains("\"example.org\""), "{}", lines[0]);
    ensure!(lines[1]["error"].is_string(), "{}", lines[1]);
    Ok(())
}

#[tokio::test]
async fn extract_prints_the_document_of_a_file() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("page.html");
    std::fs::write(&file, "<title> A  page </title><p>Some <b>text</b>. <a href='../x?a=1#f' rel=nofollow>a link</a>")?;
    let extract = Orbweaver::new(["extract", "--base", "http://example.org/a/b"])?.arg(&file);
    let lines = lines(&extract.end(SOON).await?)?;
    ensure!(lines.len() == 1, "{lines:?}");
    let (document, link) = (&lines[0], &lines[0]["links"][0]);
    ensure!(document["title"] == "A page", "{document}");
    ensure!(document["text"].as_str().is_some_and(|text| text.contains("Some text. a link")), "{document}");
    ensure!(
        link["url"] == "http://example.org/x?a=1" && link["text"] == "a link" && link["rel"] == "nofollow",
        "{link}"
    );
    Ok(())
}

#[tokio::test]
async fn extract_prints_the_facts_of_a_page_on_request() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("page.html");
    std::fs::write(
        &file,
        r#"<meta property=og:site_name content="Spiders Weekly"><script type="application/ld+json">{"@type": "NewsArticle",
           "datePublished": "2026-03-01T08:00:00+01:00", "author": {"name": "A. Weaver"}}</script><link rel=license href=/by>
           <div itemscope itemtype=https://schema.org/Thing><b itemprop=name>Orb</b></div>"#,
    )?;
    let extract = ["extract", "--base", "http://example.org/a/b"];
    let found = lines(&Orbweaver::new(extract)?.arg("--facts").arg(&file).end(SOON).await?)?;
    let facts = &found[0]["facts"];
    ensure!(facts["published"] == "2026-03-01T08:00:00+01:00" && facts["authors"][0] == "A. Weaver", "{facts}");
    ensure!(facts["site_name"] == "Spiders Weekly" && facts["licenses"][0] == "http://example.org/by", "{facts}");
    ensure!(facts["json_ld"][0]["@type"] == "NewsArticle", "{facts}");
    ensure!(facts["microdata"][0]["properties"]["name"][0] == "Orb", "{facts}");
    let found = lines(&Orbweaver::new(extract)?.arg(&file).end(SOON).await?)?;
    ensure!(found[0].get("facts").is_none(), "{}", found[0]);
    Ok(())
}

#[tokio::test]
async fn extract_prints_the_other_links_of_a_page_on_request() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("page.html");
    std::fs::write(&file, "<img src=orb.png alt='An orb'><iframe src=c></iframe><link rel=next href=2>")?;
    let extract = ["extract", "--base", "http://example.org/a/1"];
    let found = lines(&Orbweaver::new(extract)?.arg("--other-links").arg(&file).end(SOON).await?)?;
    let (links, others) = (&found[0]["links"], &found[0]["other_links"]);
    ensure!(links[0]["kind"] == "frame" && others.as_array().is_some_and(|others| others.len() == 2), "{}", found[0]);
    ensure!(others[0]["url"] == "http://example.org/a/orb.png" && others[0]["text"] == "An orb", "{others}");
    ensure!(others[0]["kind"] == "image" && others[1]["kind"] == "next" && others[1]["rel"] == "next", "{others}");
    let found = lines(&Orbweaver::new(extract)?.arg(&file).end(SOON).await?)?;
    ensure!(found[0].get("other_links").is_none(), "{}", found[0]);
    Ok(())
}

#[tokio::test]
async fn extract_prints_the_main_text_and_its_markdown_on_request() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("page.html");
    let prose = "A paragraph of the article, long enough, with some words, and a full stop. ".repeat(4);
    std::fs::write(
        &file,
        format!(
            "<title>Spiders</title><nav><ul><li><a href=/>Home</a><li><a href=/shop>Shop</a></ul></nav><main><article>
             <h1>Spiders</h1><p>{prose}<p>{prose} See <a href=../webs>their webs</a>.<img src=a.png alt=A><ul><li>one <b>orb</b><li>two</ul>
             <pre><code class=language-rust>fn main() {{}}</code></pre></article></main>
             <footer>Imprint</footer>"
        ),
    )?;
    let options = ["extract", "--base", "http://example.org/a/b", "--main-text", "--markdown=images"];
    let lines = lines(&Orbweaver::new(options)?.arg(&file).end(SOON).await?)?;
    let field = |name: &str| lines[0][name].as_str().with_context(|| format!("no {name}"));
    let (text, markdown) = (field("main_text")?, field("markdown")?);
    ensure!(
        text.contains("full stop.\n\nA paragraph") && !text.contains("Shop") && !text.contains("Imprint"),
        "{text}"
    );
    for part in [
        "[their webs](http://example.org/webs)",
        "**orb**",
        "```rust\nfn main() {}\n```",
        "](http://example.org/a/a.png)",
    ] {
        ensure!(markdown.contains(part), "{part} is not in {markdown}");
    }
    ensure!(!markdown.contains("Shop") && field("text")?.contains("Shop"), "{markdown}");
    Ok(())
}

#[tokio::test]
async fn robots_prints_what_a_file_says_of_each_url() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("robots.txt");
    std::fs::write(&file, "User-agent: *\nDisallow: /private/\nAllow: /private/open\n")?;
    let robots = Orbweaver::new(["robots", "--agent", "TestBot"])?.arg(&file);
    let robots = robots.arg("http://example.org/private/x").arg("/private/open").arg("/other");
    let lines = lines(&robots.end(SOON).await?)?;
    let allowed: Vec<_> = lines.iter().map(|line| line["allowed"].as_bool()).collect();
    ensure!(allowed == [Some(false), Some(true), Some(true)], "{lines:?}");
    Ok(())
}

#[tokio::test]
async fn a_tool_names_a_file_that_is_not_there() -> Result<()> {
    let extract = Orbweaver::new(["extract", "no-such-file", "--base", "http://example.org/"])?;
    extract.end(SOON).await?.expect(66, &["no-such-file"])?;
    let robots = Orbweaver::new(["robots", "no-such-file", "--agent", "a", "http://example.org/"])?;
    robots.end(SOON).await?.expect(66, &["no-such-file"])
}
