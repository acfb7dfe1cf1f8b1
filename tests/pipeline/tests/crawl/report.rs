//! `orbweaver report links` on a finished crawl, compared with the links and responses of its web.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use orbweaver_pipeline_tests::{Orbweaver, Output};
use orbweaver_toyweb::{Asked, Fate, Kind, Web, WebConfig};
use regex::Regex;
use serde_json::Value;
use url::Url;

use crate::{PATIENCE, serve};

/// Redirects that a crawl follows.
const FOLLOWED: usize = 20;

fn config() -> WebConfig {
    let specials = [(Kind::Dead, 3), (Kind::Chain, 4), (Kind::Loop, 2), (Kind::LongChain, 1), (Kind::Disallowed, 1)];
    WebConfig { pages: 80, links: 5, bytes: 1_500, specials: BTreeMap::from(specials), ..WebConfig::default() }
}

/// Row of the sections with links: section, URL, page, result, statuses from the URL to the end.
type Row = (String, String, String, String, Vec<u16>);

/// A web, read without a crawler.
struct Model {
    web: Web,
    /// Redirects and pages that a crawl may request, by URL.
    pages: BTreeSet<String>,
}

impl Model {
    fn answer(&self, url: &str) -> Result<(u16, Option<String>, String)> {
        let url = Url::parse(url)?;
        let host = format!("{}:{}", url.host_str().context("a host")?, url.port().context("a port")?);
        let reply =
            self.web.answer(&Asked { host: &host, target: &url[url::Position::BeforePath..], ..Asked::default() });
        let location = reply.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("location"));
        let location = location.map(|(_, to)| url.join(to)).transpose()?.map(String::from);
        Ok((reply.status, location, String::from_utf8_lossy(&reply.body).into_owned()))
    }

    /// Returns the links of a page, in order.
    fn links(&self, page: &str) -> Result<Vec<String>> {
        let (base, href) = (Url::parse(page)?, Regex::new(r#"<a [^>]*?href="?([^">\s]+)"?"#)?);
        let (.., body) = self.answer(page)?;
        let links = href.captures_iter(&body).filter_map(|link| base.join(&link[1].replace("&amp;", "&")).ok());
        Ok(links
            .map(|mut link| {
                link.set_fragment(None);
                link.into()
            })
            .collect())
    }

    /// Returns the result of a link and the statuses to its end.
    fn end(&self, url: &str) -> Result<(&'static str, Vec<u16>)> {
        let (mut url, mut passed, mut statuses) = (url.to_owned(), BTreeSet::new(), vec![]);
        loop {
            let (status, location, _) = self.answer(&url)?;
            if !passed.insert(url) {
                return Ok(("loop", statuses));
            }
            statuses.push(status);
            match location {
                Some(_) if passed.len() > FOLLOWED => return Ok(("broken", statuses)),
                Some(to) => url = to,
                None => return Ok((if status == 200 { "ok" } else { "broken" }, statuses)),
            }
        }
    }

    fn rows(&self) -> Result<BTreeMap<Row, usize>> {
        let mut rows = BTreeMap::new();
        for page in &self.pages {
            if self.answer(page)?.0 != 200 {
                continue;
            }
            for url in self.links(page)? {
                let (result, statuses) = self.end(&url)?;
                let sections = [("broken", result != "ok"), ("redirects", (300..400).contains(&statuses[0]))];
                for (section, _) in sections.into_iter().filter(|(_, is_of_section)| *is_of_section) {
                    let row = (section.to_owned(), url.clone(), page.clone(), result.to_owned(), statuses.clone());
                    *rows.entry(row).or_default() += 1;
                }
            }
        }
        Ok(rows)
    }

    /// Returns the pages by host and title, of those titles that several pages have.
    fn titles(&self) -> Result<BTreeSet<(String, String)>> {
        let title = Regex::new("<title>([^<]*)</title>")?;
        let mut pages: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for page in &self.pages {
            let (status, _, body) = self.answer(page)?;
            if let (200, Some(title)) = (status, title.captures(&body)) {
                pages.entry(title[1].to_owned()).or_default().push(page.clone());
            }
        }
        pages.retain(|_, pages| pages.len() > 1);
        Ok(pages
            .into_iter()
            .flat_map(|(title, pages)| pages.into_iter().map(move |page| (title.clone(), page)))
            .collect())
    }
}

async fn report(out: &Path, options: &[&str], code: i32) -> Result<String> {
    let ended = Orbweaver::new(["report", "links"].iter().chain(options))?.arg(out).end(PATIENCE).await?;
    ended.expect(code, &[])?;
    Ok(ended.stdout)
}

fn row(line: &Value) -> Result<Row> {
    let text =
        |field: &str| Ok::<_, anyhow::Error>(line[field].as_str().with_context(|| format!("{line}"))?.to_owned());
    let statuses =
        line["chain"].as_array().context("a chain")?.iter().map(|hop| &hop["status"]).chain([&line["status"]]);
    let statuses = statuses.filter_map(|status| u16::try_from(status.as_u64()?).ok()).collect();
    Ok((text("section")?, text("url")?, text("page")?, text("result")?, statuses))
}

#[tokio::test]
async fn a_report_has_every_broken_link_redirect_and_shared_title_of_the_web_and_no_others() -> Result<()> {
    let web = serve(config())?;
    let out = tempfile::tempdir()?;
    Orbweaver::crawl(web.start_url(), out.path(), "")?.end(PATIENCE).await?.expect(0, &[])?;
    Output::read(out.path())?.ended_by("complete")?;
    let truth = web.truth().into_iter().filter(|expected| expected.fate == Fate::Fetched);
    let model = Model { web: Web::new(config(), web.address().port())?, pages: truth.map(|page| page.url).collect() };

    let text = report(out.path(), &["--format", "jsonl"], 0).await?;
    let lines: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let (titles, links): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line["section"] == "titles");
    let mut rows: BTreeMap<Row, usize> = BTreeMap::new();
    // The ends of chains to which no page links are reported without a page.
    for line in links.iter().filter(|line| line.get("page").is_some()) {
        ensure!(line["text"] == "a special place", "{line}");
        *rows.entry(row(line)?).or_default() += 1;
    }
    let expected = model.rows()?;
    ensure!(expected.len() > 15 && rows == expected, "reported: {rows:#?}\nexpected: {expected:#?}");
    let alone: BTreeSet<_> =
        links.iter().filter(|line| line.get("page").is_none()).map(|line| line["url"].as_str()).collect();
    ensure!(
        alone.iter().all(|url| url.is_some_and(|url| url.contains("/loop/") || url.contains("/long-chain/"))),
        "{alone:?}"
    );

    let titles: BTreeSet<_> = titles
        .iter()
        .map(|line| {
            let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
            (text("title"), text("url"))
        })
        .collect();
    let expected = model.titles()?;
    ensure!(titles == expected, "reported: {titles:#?}\nexpected: {expected:#?}");

    let all: u64 = rows.iter().filter(|((section, ..), _)| section == "broken").map(|(_, count)| *count as u64).sum();
    let text = report(out.path(), &["--only", "broken", "--fail"], 1).await?;
    ensure!(text.contains(&format!("URLs, {all} links")), "{text}");
    ensure!(
        !std::fs::read_dir(out.path())?
            .any(|entry| entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with('.'))),
        "temporary files remain"
    );
    Ok(())
}

#[tokio::test]
async fn results_without_broken_links_do_not_fail_and_a_missing_directory_does() -> Result<()> {
    let web = serve(WebConfig { pages: 10, specials: BTreeMap::new(), ..config() })?;
    let out = tempfile::tempdir()?;
    Orbweaver::crawl(web.start_url(), out.path(), "")?.end(PATIENCE).await?.expect(0, &[])?;
    let text = report(out.path(), &["--fail"], 0).await?;
    ensure!(text.contains("broken     0 URLs, 0 links"), "{text}");
    report(&out.path().join("none"), &[], 66).await?;
    Ok(())
}
