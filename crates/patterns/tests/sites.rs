//! Traps and honest sites, crawled one page after another: demoted URLs last, otherwise the lowest depth first.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::collections::{BTreeMap, BTreeSet};

use orbweaver_messages::{DiscoveryKind, FrontierUrl, Trail, Traps, UrlContext};
use orbweaver_patterns::{Patterns, Verdict, digest};

/// A site: returns the text of a page and its links.
type Web = fn(path: &str) -> (String, Vec<String>);

/// Result of a crawl.
#[derive(Debug, Default)]
struct Crawl {
    fetched: Vec<String>,
    refused: usize,
}

impl Crawl {
    fn pages(&self, part: &str) -> usize {
        self.fetched.iter().filter(|url| url.contains(part)).count()
    }
}

fn waiting(url: &str, via: &str, depth: u16, traps: Traps) -> FrontierUrl {
    let site = "h.test".to_owned();
    let via = Some(via.to_owned());
    let context = UrlContext {
        depth,
        sighting: DiscoveryKind::Link,
        via,
        ..UrlContext::of_seed("c".parse().unwrap(), url.to_owned(), site.into())
    };
    FrontierUrl { traps, ..FrontierUrl::admitted(context, 0) }
}

fn crawl(web: Web, traps: Traps, most: usize) -> Crawl {
    let mut patterns = Patterns::new(1 << 20);
    crawl_on(web, traps, most, &mut patterns)
}

fn crawl_on(web: Web, traps: Traps, most: usize, patterns: &mut Patterns) -> Crawl {
    let mut crawl = Crawl::default();
    let mut seen = BTreeSet::from(["http://h.test/".to_owned()]);
    let mut queue = BTreeMap::from([((false, 0, 0), waiting("http://h.test/", "", 0, traps))]);
    while let Some(((back, depth, sequence), waiting)) = queue.pop_first()
        && crawl.fetched.len() < most
    {
        let (pattern, verdict) = patterns.judge(&waiting);
        match verdict {
            _ if traps == Traps::Off => {}
            Verdict::Normal => {}
            Verdict::Demote | Verdict::Refuse if !back => {
                queue.insert((true, depth, sequence), waiting);
                continue;
            }
            Verdict::Demote => {}
            Verdict::Refuse => {
                crawl.refused += 1;
                continue;
            }
        }
        crawl.fetched.push(waiting.context.url.clone());
        let (text, links) = web(waiting.context.url.strip_prefix("http://h.test").unwrap());
        let urls: Vec<_> = links.iter().map(|link| format!("http://h.test{link}")).collect();
        let content = digest(&["A site", &text], &waiting.context.url, urls.iter().map(String::as_str));
        let trail: Trail = waiting.context.trail.through(pattern);
        for url in urls {
            let found = self::waiting(&url, &waiting.context.url, depth + 1, traps);
            if seen.insert(url) {
                let mut found = FrontierUrl { content, ..found };
                found.context.trail = trail.clone();
                patterns.learn(&found);
                queue.insert((patterns.is_behind(&found), depth + 1, seen.len()), found);
            }
        }
    }
    crawl
}

/// Returns a number from the digits of a text.
fn number(path: &str) -> u64 {
    path.bytes().filter(u8::is_ascii_digit).fold(0, |sum, digit| (sum * 10 + u64::from(digit - b'0')) % 1_000_000_007)
}

/// Returns words that depend only on a number.
fn prose(number: u64, words: usize) -> String {
    let mut state = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let word = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (0..5).map(|letter| char::from(b'a' + (state >> (20 + 8 * letter)) as u8 % 26)).collect::<String>()
    };
    (0..words).map(word).collect::<Vec<_>>().join(" ")
}

/// 10,000 articles, each with links to the previous, the next and another one, listed on pages of twenty links each.
fn archive(path: &str) -> (String, Vec<String>) {
    let here = number(path);
    if path.starts_with("/article/") {
        let around = [here.saturating_sub(1), here + 1, here * 7 % 10_000];
        let links = around.iter().filter(|to| **to < 10_000).map(|to| format!("/article/{to}")).collect();
        return (format!("Article {here}. {}", prose(here, 12)), links);
    }
    let mut links: Vec<_> = (here * 20..here * 20 + 20).map(|article| format!("/article/{article}")).collect();
    let titles: Vec<_> = (here * 20..here * 20 + 20).map(|article| prose(article, 2)).collect();
    if here < 499 {
        links.push(format!("/archive?page={}", here + 1));
    }
    (titles.join(" "), links)
}

fn calendar(path: &str) -> (String, Vec<String>) {
    const MONTHS: [&str; 4] = ["January", "February", "March", "April"];
    let month = match path.split('/').nth(2).map_or(0, number) {
        0 => 100_000 + number(path) % 10,
        month => month,
    };
    let at = |month: u64| format!("/calendar/{month}");
    let day = format!("/calendar/{month}/day-{}", month % 28);
    (format!("{} of {month}: no events", MONTHS[month as usize % 4]), vec![at(month + 1), day, at(month - 1)])
}

fn sessions(path: &str) -> (String, Vec<String>) {
    let page = path.rsplit('/').next().map_or(0, number) % 20;
    let session = |salt: u64| format!("{:032x}", u128::from(number(path) * 31 + salt) * 0x9e37_79b9_7f4a_7c15_f39c);
    let links = (0..4).map(|salt| format!("/s/{}/page-{}", session(salt), (page + salt) % 20)).collect();
    (format!("Page {}", prose(page, 9)), links)
}

fn repeats(path: &str) -> (String, Vec<String>) {
    let base = path.rsplit_once('/').map_or("", |(base, _)| base);
    let links = ["docs/index.html", "guide/index.html"].iter().map(|link| format!("{base}/{link}"));
    ("The same wherever it is.".to_owned(), links.collect())
}

fn search(path: &str) -> (String, Vec<String>) {
    let query = path.split_once("q=").map_or("", |(_, query)| query);
    let words = ["red", "blue", "cheap", "new"];
    let links = words.iter().map(|word| format!("/search?q={query}{}{word}", if query.is_empty() { "" } else { "+" }));
    (format!("Nothing found for {}. Try {}.", query.replace('+', " "), words.join(" ")), links.collect())
}

const TRAPS: [(&str, Web); 4] =
    [("calendar", calendar), ("sessions", sessions), ("repeats", repeats), ("search", search)];

#[test]
fn an_honest_archive_is_fetched_whole_in_every_mode() {
    for traps in [Traps::Off, Traps::Learn, Traps::Strict] {
        let crawl = crawl(archive, traps, 100_000);
        assert_eq!((crawl.pages("/article/"), crawl.refused), (10_000, 0), "{traps:?}");
    }
}

#[test]
fn every_trap_ends_at_its_budget_in_strict_mode_alone() {
    for (name, web) in TRAPS {
        let strict = crawl(web, Traps::Strict, 5_000);
        assert!((150..1500).contains(&strict.fetched.len()), "{name}: {}", strict.fetched.len());
        assert!(strict.refused > 0, "{name}");
        for traps in [Traps::Off, Traps::Learn] {
            let crawl = crawl(web, traps, 5_000);
            assert_eq!((crawl.fetched.len(), crawl.refused), (5_000, 0), "{name}, {traps:?}");
        }
    }
}

#[test]
fn a_trap_waits_until_the_honest_part_of_its_site_is_fetched() {
    fn both(path: &str) -> (String, Vec<String>) {
        let (web, name): (Web, _) = if path.starts_with("/calendar") { (calendar, 0) } else { (archive, 1) };
        let (text, mut links) = web(path);
        // Every page of the archive leads into the trap, as a page header does.
        links.extend((name == 1).then(|| format!("/calendar/{}", 100_000 + number(path))));
        (text, links)
    }
    let off = crawl(both, Traps::Off, 12_000);
    let learn = crawl(both, Traps::Learn, 12_000);
    assert!(off.pages("/article/") < 9_000, "{}", off.pages("/article/"));
    assert_eq!(learn.pages("/article/"), 10_000);
    let strict = crawl(both, Traps::Strict, 100_000);
    assert_eq!(strict.pages("/article/"), 10_000);
}

#[test]
fn what_is_forgotten_is_learnt_anew_and_costs_a_trap_s_budget_once_more() {
    let mut patterns = Patterns::new(1 << 20);
    let first = crawl_on(calendar, Traps::Strict, 5_000, &mut patterns);
    assert!(patterns.over_budget() > 0);
    let again = crawl_on(calendar, Traps::Strict, 5_000, &mut patterns);
    assert!(again.fetched.len() < 20, "known: {}", again.fetched.len());
    let again = crawl(calendar, Traps::Strict, 5_000);
    assert_eq!(again.fetched, first.fetched);
}

#[test]
fn many_sites_take_no_more_than_their_bound() {
    let mut patterns = Patterns::new(256 << 10);
    for site in 0..20_000 {
        let url = format!("http://s{site}.test/a/b/c?d={site}");
        let mut waiting = waiting(&url, "http://v.test/", 1, Traps::Learn);
        waiting.context.site = format!("s{site}.test").into();
        let (pattern, verdict) = patterns.judge(&waiting);
        assert_eq!(verdict, Verdict::Normal);
        waiting.context.trail = Trail::default().through(pattern);
        patterns.learn(&FrontierUrl { content: Some(1), ..waiting });
        assert!(patterns.bytes() <= 256 << 10, "{}", patterns.bytes());
    }
}
