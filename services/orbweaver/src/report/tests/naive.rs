//! The report computed in memory, from the rules of the documentation.

use std::collections::{BTreeMap, BTreeSet};

use orbweaver_url::Policy;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Crawl;

/// Outcomes with the result of a link to such a URL.
const OUTCOMES: [(&str, Option<&str>, Option<u16>, &str); 9] = [
    ("fetched", None, Some(200), "ok"),
    ("unchanged", None, Some(304), "ok"),
    ("gone", Some("http_404"), Some(404), "broken"),
    ("gone", Some("timeout"), None, "broken"),
    ("gone", Some("redirect_loop"), Some(302), "loop"),
    ("gone", Some("stuck"), None, "unchecked"),
    ("refused", Some("robots"), None, "refused"),
    ("refused", Some("robots_unreachable"), None, "broken"),
    ("refused", Some("content_type"), Some(200), "ok"),
];
const URLS: usize = 12;

/// Returns a URL of the random webs; the last ones are in no crawl.
fn url(number: usize) -> String {
    format!("http://s{}.test/{number}", number % 2)
}

/// Returns a URL as found on a page.
fn spelled(number: usize, spelling: u8) -> String {
    match spelling {
        0 => format!("HTTP://S{}.test:80/x/../{number}", number % 2),
        1 => format!("{}#top", url(number)),
        _ => url(number),
    }
}

/// Event of a random crawl: a URL with an outcome, or a redirect; if fetched, with title and links.
type Event = (usize, usize, usize, usize, Vec<(usize, u8, u8)>);

/// Returns random results, with several visits of some URLs.
pub(super) fn crawl() -> impl Strategy<Value = Crawl> {
    let link = (0..URLS + 3, 0..4u8, 0..3u8);
    let event = (0..URLS, 0..OUTCOMES.len() + 6, 0..URLS + 2, 0..4usize, prop::collection::vec(link, 0..7));
    prop::collection::vec(event, 0..30).prop_map(|events| {
        let (mut crawl, mut visits) = (Crawl::default(), BTreeMap::new());
        events.iter().for_each(|event| add(event, &mut crawl, &mut visits));
        crawl
    })
}

fn add((number, outcome, target, title, links): &Event, crawl: &mut Crawl, visits: &mut BTreeMap<usize, u32>) {
    let visit = visits.entry(*number).or_default();
    let Some((outcome, reason, status, _)) = OUTCOMES.get(*outcome).filter(|(outcome, ..)| *outcome != "fetched")
    else {
        let is_redirect = *outcome >= OUTCOMES.len() && outcome % 2 == 0;
        if is_redirect {
            let line =
                json!({"url": url(*number), "outcome": "redirected", "status": 301, "location": spelled(*target, 0)});
            crawl.urls.push(line);
        } else {
            // From one second to six and a half.
            let fetch_ms = 1000 + 500 * (*target + *title);
            crawl.urls.push(json!({
                "url": url(*number), "outcome": "fetched", "status": 200, "via": url(*target), "bytes": *title, "fetch_ms": fetch_ms,
            }));
            let rel = |rel: u8| if rel == 0 { "nofollow" } else { "" };
            let link = |(to, spelling, kind): &(usize, u8, u8)| json!({"url": spelled(*to, *spelling), "text": format!("to {kind}"), "rel": rel(*kind)});
            // What a page embeds is no link of a report.
            let others = [json!({"url": url(*target), "text": "A", "kind": "image"})];
            crawl.documents.push(json!({
                "other_links": others, "url": url(*number), "fetched_url": url(*number), "redirects": [], "site": format!("s{}.test", number % 2),
                "title": (["", "A", "A b", "B"][*title]), "visit": *visit, "links": links.iter().map(link).collect::<Vec<_>>(),
            }));
        }
        *visit += 1;
        return;
    };
    let line =
        json!({"url": url(*number), "outcome": outcome, "reason": reason, "status": status, "via": url(*target)});
    crawl.urls.push(line);
    *visit += 1;
}

fn canonical(value: &Value) -> String {
    Policy::STANDARD.canonical_text(&orbweaver_url::parse(value.as_str().unwrap()).unwrap()).into_owned()
}

/// Returns result, hops, last URL, status and reason of a URL.
fn end_of(url: &str, ends: &BTreeMap<&str, &Value>) -> (String, Vec<Value>, String, Value, Value) {
    let (mut hops, mut passed, mut url) = (vec![], BTreeSet::new(), url.to_owned());
    loop {
        if !passed.insert(url.clone()) {
            return ("loop".to_owned(), hops, url, Value::Null, json!("redirect_loop"));
        }
        let Some(end) = ends.get(&*url) else {
            return ("not_crawled".to_owned(), hops, url, Value::Null, Value::Null);
        };
        if end["outcome"] == "redirected" {
            hops.push(json!({"url": url, "status": end["status"]}));
            url = canonical(&end["location"]);
            continue;
        }
        let found =
            OUTCOMES.iter().find(|(outcome, reason, ..)| end["outcome"] == *outcome && end["reason"] == json!(reason));
        return (found.unwrap().3.to_owned(), hops, url, end["status"].clone(), end["reason"].clone());
    }
}

/// Returns the lines of the report.
pub(super) fn lines(crawl: &Crawl) -> Vec<Value> {
    let ends: BTreeMap<&str, &Value> = crawl.urls.iter().map(|end| (end["url"].as_str().unwrap(), end)).collect();
    let mut pages: BTreeMap<&str, &Value> =
        crawl.documents.iter().map(|page| (page["url"].as_str().unwrap(), page)).collect();
    pages.retain(|url, _| {
        let (result, hops, ..) = end_of(url, &ends);
        hops.is_empty() && result != "broken" && result != "loop"
    });
    let mut lines = vec![];
    for section in ["broken", "redirects"] {
        for (url, end) in &ends {
            lines.extend(lines_of(section, url, end, (&ends, &pages)));
        }
    }
    let mut titles: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for (url, page) in &pages {
        titles.entry((page["site"].as_str().unwrap(), page["title"].as_str().unwrap())).or_default().push(url);
    }
    for ((site, title), urls) in titles.iter().filter(|((_, title), urls)| title.is_empty() || urls.len() > 1) {
        lines.extend(urls.iter().map(|url| json!({"section": "titles", "site": site, "title": title, "url": url})));
    }
    let mut slow: Vec<(&str, &Value)> =
        ends.into_iter().filter(|(_, end)| end["fetch_ms"].as_u64() >= Some(2000)).collect();
    slow.sort_by_key(|(url, end)| (std::cmp::Reverse(end["fetch_ms"].as_u64()), *url));
    let line = |(url, end): (&str, &Value)| json!({"section": "slow", "url": url, "fetch_ms": end["fetch_ms"], "status": end["status"], "bytes": end["bytes"]});
    lines.extend(slow.into_iter().map(line));
    lines
}

fn lines_of(
    section: &str,
    url: &str,
    end: &Value,
    (ends, pages): (&BTreeMap<&str, &Value>, &BTreeMap<&str, &Value>),
) -> Vec<Value> {
    let (result, hops, last, status, reason) = end_of(url, ends);
    let is_of_section = if section == "broken" { result == "broken" || result == "loop" } else { !hops.is_empty() };
    if !is_of_section {
        return vec![];
    }
    let line = json!({
        "section": section, "url": url, "result": result, "status": status, "reason": reason, "hops": hops.len(),
        "chain": hops, "final_url": last, "via": end["via"],
    });
    let mut lines = vec![];
    for (page, document) in pages {
        for link in document["links"].as_array().unwrap().iter().filter(|link| canonical(&link["url"]) == url) {
            let mut line = line.clone();
            line["page"] = json!(page);
            line["link_url"] = link["url"].clone();
            line["text"] = link["text"].clone();
            line["rel"] = link["rel"].clone();
            lines.push(line);
        }
    }
    if lines.is_empty() && hops.is_empty() {
        lines.push(line);
    }
    lines
}
