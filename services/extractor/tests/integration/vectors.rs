//! Vectors of other crawlers, as far as they concern extraction: links, `base`, meta refresh and robots directives.
//! Differences are listed with their reasons.

use std::path::Path;

use base64::Engine;
use orbweaver_extractor::{Extracted, ExtractorConfig, PageInput, extract};
use orbweaver_messages::LinkKind;
use serde_json::Value;
use url::Url;

/// Lines that are expected to fail, with the reasons.
type Expected<'a> = &'a [(usize, &'a str)];

pub(crate) fn rows(file: &str) -> Vec<Value> {
    let path = Path::new("tests/vectors").join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Checks every row, and that exactly the listed ones fail. `check` returns `None` for rows that do not concern
/// extraction.
pub(crate) fn check_all(file: &str, expected: Expected<'_>, check: impl Fn(&Value) -> Option<Result<(), String>>) {
    let (mut failures, mut checked) = (Vec::new(), 0);
    for (index, row) in rows(file).iter().enumerate() {
        let Some(result) = check(row) else { continue };
        checked += 1;
        let listed = expected.iter().find(|(line, _)| *line == index + 1);
        match (result, listed) {
            (Err(problem), None) => failures.push(format!("{file}:{}: {problem}", index + 1)),
            (Ok(()), Some((line, reason))) => failures.push(format!("{file}:{line} passes, but is listed: {reason}")),
            _ => {}
        }
    }
    assert!(checked > expected.len(), "{file}: hardly anything was checked");
    assert!(failures.is_empty(), "{} of {checked}:\n{}", failures.len(), failures.join("\n"));
}

/// Returns a field as bytes; one that is not UTF-8 is in Base64.
pub(crate) fn bytes(row: &Value, name: &str) -> Vec<u8> {
    match row[format!("{name}_b64")].as_str() {
        Some(text) => base64::engine::general_purpose::STANDARD.decode(text).unwrap(),
        None => row[name].as_str().unwrap_or_default().as_bytes().to_vec(),
    }
}

fn body(row: &Value) -> Vec<u8> {
    bytes(row, "html")
}

fn read(url: &str, body: &[u8], content_type: Option<&str>) -> Extracted {
    let url = Url::parse(url).unwrap();
    let input = PageInput { url: &url, site: None, content_type, headers: &[], body };
    extract(&input, &ExtractorConfig { other_links: true, ..ExtractorConfig::default() })
}

/// Returns the URLs of the other links of the given kinds; of all, if there are none.
fn others(page: &Extracted, kinds: &[LinkKind]) -> Vec<String> {
    let links = page.other_links.iter().flatten();
    links.filter(|link| kinds.is_empty() || kinds.contains(&link.kind)).map(|link| link.url.clone()).collect()
}

fn same<T: PartialEq + std::fmt::Debug>(found: &T, expected: &T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("found {found:?}, expected {expected:?}")) }
}

/// Returns the expected URL as this crawler writes URLs: parsed, without fragment.
fn written(url: &str) -> String {
    let mut url = Url::parse(url).unwrap();
    url.set_fragment(None);
    url.into()
}

/// Returns the expected links and their URLs.
fn expected_links(row: &Value) -> impl Iterator<Item = (&Value, String)> {
    row["expected_links"].as_array().unwrap().iter().map(|link| (link, written(link["url"].as_str().unwrap())))
}

fn distinct(urls: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut distinct: Vec<String> = urls.into_iter().collect();
    distinct.sort();
    distinct.dedup();
    distinct
}

/// Checks the links of a row. Rows with `exact` name all links of the page, others some of them. `with_others`: the row
/// names what the page embeds.
fn check_links(row: &Value, with_others: bool) -> Result<(), String> {
    let page = read(row["base_url"].as_str().unwrap(), &body(row), None);
    let expected = distinct(expected_links(row).map(|(_, url)| url));
    let followed = page.followed("", false);
    let links = followed.iter().flat_map(|followed| &followed.urls).map(|url| (*url).to_owned());
    let found = distinct(links.chain(if with_others { others(&page, &[]) } else { vec![] }));
    if row["exact"] == false {
        let missing: Vec<_> = expected.iter().filter(|url| !found.contains(url)).collect();
        return if missing.is_empty() { Ok(()) } else { Err(format!("missing {missing:?} in {found:?}")) };
    }
    same(&found, &expected)
}

#[test]
fn heritrix_finds_the_same_links() {
    const SCRIPTED: &str = "pictures that only a script loads are unknown";
    let listed = [
        (12, "a form is no link"),
        (13, "an element `meta` is no link; facts have it"),
        (23, "parameters of a plug-in are no links"),
        (24, "conditional comments are comments"),
        (27, SCRIPTED),
        (28, SCRIPTED),
        (29, SCRIPTED),
        (30, SCRIPTED),
        (32, SCRIPTED),
        (34, SCRIPTED),
        (35, SCRIPTED),
        (36, SCRIPTED),
        (37, SCRIPTED),
        (40, "Heritrix follows nofollow links by default; they are kept here, and not followed"),
    ];
    check_all("heritrix_html.jsonl", &listed, |row| {
        let html = row["html"].as_str().unwrap_or_default();
        // Rows with one of these tags name links to pages, the others what a page embeds.
        let has_links = ["<a ", "<area ", "<frame ", "<iframe ", "robots"].iter().any(|tag| html.contains(tag));
        Some(check_links(row, !has_links))
    });
}

#[test]
fn nutch_finds_the_same_links_in_odd_markup() {
    check_all("nutch_edge_cases.jsonl", &[], |row| Some(check_links(row, false)));
}

#[test]
fn nutch_finds_the_same_links_and_texts() {
    let listed = [
        (6, "an image is no link to a page"),
        (10, "a form is no link"),
        (14, "an image is no link to a page"),
        (15, "a video is no link to a page"),
    ];
    check_all("nutch_outlinks.jsonl", &listed, |row| {
        let page = read(row["base_url"].as_str().unwrap(), &body(row), None);
        let found: Vec<_> =
            page.links.iter().filter(|link| !link.nofollow).map(|link| (link.url.clone(), link.text.clone())).collect();
        let text = |link: &Value| link["text"].as_str().unwrap_or_default().to_owned();
        let expected = expected_links(row).map(|(link, url)| (url, text(link))).collect();
        Some(same(&found, &expected))
    });
}

#[test]
fn scrapy_finds_the_same_links_texts_and_nofollow() {
    let listed = [
        (1, "Scrapy names a URL once; here every link is kept with its text"),
        (22, "Scrapy leaves out what looks like an image; here the content type decides when it is fetched"),
        (45, "only http and https are crawled"),
    ];
    check_all("scrapy_linkextractor.jsonl", &listed, |row| {
        if row["default_options"] != true {
            return None;
        }
        let charset = match row["declared_encoding"].as_str() {
            Some("cp1252") => "windows-1252",
            other => other.unwrap_or("utf-8"),
        };
        let content_type = format!("text/html; charset={charset}");
        let page = read(row["base_url"].as_str().unwrap(), &body(row), Some(&content_type));
        let found: Vec<_> =
            page.links.iter().map(|link| (link.url.clone(), link.text.clone(), link.nofollow)).collect();
        let text = |link: &Value| link["text"].as_str().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        let expected =
            expected_links(row).map(|(link, url)| (url, text(link), link["nofollow"].as_bool().unwrap())).collect();
        Some(same(&found, &expected))
    });
}

#[test]
fn scrapy_finds_the_same_links_of_chosen_elements() {
    let listed = [
        (31, "an `area` is a link of the same kind as an `a`"),
        (32, "an `area` is a link of the same kind as an `a`"),
        (33, "an `area` is a link of the same kind as an `a`"),
    ];
    check_all("scrapy_linkextractor.jsonl", &listed, |row| {
        let options = row["options"].as_object().unwrap();
        let are_known = options.keys().all(|name| ["tags", "attrs", "deny_extensions"].contains(&name.as_str()));
        let option = |name: &str| options.get(name).and_then(Value::as_str).unwrap_or_default();
        let tags: Vec<&str> = option("tags").split('\'').skip(1).step_by(2).collect();
        let is_none = [option("tags"), option("attrs")].contains(&"None");
        if option("tags").is_empty() && option("attrs").is_empty()
            || !are_known
            || is_none
            || tags.iter().any(|tag| !["a", "area", "img"].contains(tag))
        {
            return None;
        }
        let page = read(row["base_url"].as_str().unwrap(), &body(row), None);
        let images = if tags.contains(&"img") { others(&page, &[LinkKind::Image]) } else { vec![] };
        let found = distinct(page.links.iter().map(|link| link.url.clone()).chain(images));
        Some(same(&found, &distinct(expected_links(row).map(|(_, url)| url))))
    });
}

#[test]
fn w3lib_finds_the_same_base_url() {
    check_all("w3lib_base_url.jsonl", &[], |row| {
        let page_url =
            Some(row["page_url"].as_str().unwrap()).filter(|url| !url.is_empty()).unwrap_or("http://none.test/");
        let expected = Some(row["expected_base"].as_str().unwrap()).filter(|url| !url.is_empty()).unwrap_or(page_url);
        let page = read(page_url, &body(row), None);
        Some(same(&String::from(page.base), &written(expected)))
    });
}

#[test]
fn w3lib_finds_the_same_meta_refresh() {
    let listed = [
        (3, "a tag that the page's end cuts is no tag (WHATWG HTML 13.2.5, eof-in-tag)"),
        (21, "noscript is not searched for a refresh; this row expects it"),
        (23, "a script is not searched for markup; this row expects it"),
    ];
    check_all("w3lib_meta_refresh.jsonl", &listed, |row| {
        let content_type = row["encoding"].as_str().map(|charset| format!("text/html; charset={charset}"));
        let page = read(row["page_url"].as_str().unwrap(), &body(row), content_type.as_deref());
        let expected: Vec<_> = row["expected_url"].as_str().map(written).into_iter().collect();
        Some(same(&page.links.iter().map(|link| link.url.clone()).collect(), &expected))
    });
}

#[test]
fn nutch_reads_the_same_robots_directives() {
    check_all("meta_robots.jsonl", &[], |row| {
        let page = read(row["base_url"].as_str().unwrap(), &body(row), None);
        let expected = (row["noindex"].as_bool().unwrap(), row["nofollow"].as_bool().unwrap());
        let base = row["base_href"].as_str().unwrap_or(row["base_url"].as_str().unwrap());
        let found = (page.robots.noindex, page.robots.nofollow);
        Some(same(&(found, String::from(page.base)), &(expected, written(base))))
    });
}

#[test]
fn stormcrawler_reads_the_same_x_robots_tags() {
    check_all("x_robots_tag.jsonl", &[], |row| {
        let values = row["headers"]["X-Robots-Tag"].as_array().unwrap();
        let headers: Vec<_> =
            values.iter().map(|value| ("x-robots-tag".to_owned(), value.as_str().unwrap().to_owned())).collect();
        let url = Url::parse("http://a.test/").unwrap();
        let input = PageInput { url: &url, site: None, content_type: None, headers: &headers, body: b"" };
        let robots = extract(&input, &ExtractorConfig::default()).robots;
        let expected = (row["noindex"].as_bool().unwrap(), row["nofollow"].as_bool().unwrap());
        Some(same(&(robots.noindex, robots.nofollow), &expected))
    });
}

#[test]
fn the_query_of_a_link_is_written_in_the_encoding_of_its_page() {
    check_all("wpt_query_percent_encoding.jsonl", &[], |row| {
        let charset = row["document_encoding"].as_str().unwrap();
        let content_type = format!("text/html; charset={charset}");
        // As a character reference, the only form in which a page can hold a character outside of its encoding.
        let query: String =
            row["query_text"].as_str().unwrap().chars().map(|c| format!("&#{};", u32::from(c))).collect();
        let page = read("http://a.test/", format!("<a href='?{query}'>").as_bytes(), Some(&content_type));
        let expected = format!("http://a.test/?{}", row["expected"].as_str().unwrap());
        Some(same(&page.links.iter().map(|link| link.url.clone()).collect(), &vec![expected]))
    });
}
