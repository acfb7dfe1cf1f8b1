//! Sitemaps and feeds.

use std::collections::BTreeSet;

use orbweaver_extractor::ExtractorConfig;
use orbweaver_extractor::body::BodyReader;
use orbweaver_extractor::job::{PageResult, PageVerdict, process};
use orbweaver_extractor::pass::PagePass;
use orbweaver_log::Record;
use orbweaver_messages::{BodyEncoding, Discovered, DiscoveryKind, Page, PageKind, Pattern, decode, topic};

use crate::fixture::{NOW, PARTITIONS, delivered, page};

const URL: &str = "http://a.test/maps/index.xml";

fn sitemap(body: &[u8]) -> Page {
    let mut page = Page { kind: PageKind::Sitemap, ..page(URL, body, BodyEncoding::Identity) };
    page.context.trail = page.context.trail.through(Pattern(7));
    page
}

/// Carries out all passes over a page. Returns the URLs that they discovered, and the last result, if it has a document
/// or links for the store.
fn passes(page: &Page, body: &[u8], config: &ExtractorConfig) -> (Vec<Discovered>, Option<PageResult>) {
    let mut next = PagePass::first(delivered(7, Some(page), Some(body)).1);
    let mut records: Vec<Record> = vec![];
    let mut bodies = BodyReader::default();
    let result = loop {
        match process(&next, (PARTITIONS, NOW), &mut bodies, config) {
            PageVerdict::Extracted(result) => break Some(*result),
            PageVerdict::PassedOver { links, records, .. } => {
                assert!(links.is_some_and(|links| links.links.is_empty()) && records.is_empty());
                break None;
            }
            PageVerdict::Discovered(pass) => {
                records.extend(pass.records);
                next = pass.next;
            }
            other => panic!("{other:?}"),
        }
    };
    records.extend(result.iter().flat_map(|result| result.records.clone()));
    let found = records.iter().filter(|record| record.tp.topic == topic::DISCOVERED);
    (found.map(|record| decode("discovered", record.value.as_ref()).unwrap()).collect(), result)
}

fn urls(found: &[Discovered]) -> Vec<&str> {
    found.iter().flat_map(|found| &found.urls).map(String::as_str).collect()
}

#[test]
fn the_pages_of_a_sitemap_are_discovered_like_links_without_a_document_and_without_a_trail() {
    let body = b"<urlset><url><loc>http://a.test/x</loc></url><url><loc>http://b.test/y</loc></url>
        <url><loc>../z</loc></url><url><loc>mailto:x</loc></url></urlset>";
    let (found, result) = passes(&sitemap(body), body, &ExtractorConfig::default());
    assert_eq!(urls(&found), ["http://a.test/x", "http://a.test/z", "http://b.test/y"]);
    for found in &found {
        assert_eq!((found.sighting, found.depth, found.via.as_deref()), (DiscoveryKind::Link, 3, Some(URL)));
        assert!(found.trail.is_empty() && found.content.is_none());
    }
    let result = result.unwrap();
    assert!(result.records.iter().all(|record| record.tp.topic == topic::DISCOVERED));
    assert_eq!((result.links.links.len(), result.counts.links, result.counts.truncated), (3, 3, false));
}

#[test]
fn the_files_of_a_sitemap_index_are_sitemaps() {
    let body = b"<sitemapindex><sitemap><loc>http://a.test/1.xml</loc></sitemap></sitemapindex>";
    let (found, _) = passes(&sitemap(body), body, &ExtractorConfig::default());
    assert_eq!((urls(&found), found[0].sighting), (vec!["http://a.test/1.xml"], DiscoveryKind::Sitemap));
}

#[test]
fn a_sitemap_of_many_urls_takes_several_passes_and_each_url_is_discovered_once() {
    let entries: String = (0..23).map(|number| format!("http://a.test/{number}\n")).collect();
    let config = ExtractorConfig { max_links: 3, pass_links: 5, ..ExtractorConfig::default() };
    let (found, result) = passes(&sitemap(entries.as_bytes()), entries.as_bytes(), &config);
    let urls = urls(&found);
    assert_eq!((urls.len(), urls.iter().collect::<BTreeSet<_>>().len()), (23, 23));
    let result = result.unwrap();
    assert_eq!((result.links.links.len(), result.counts.links, result.counts.truncated), (3, 23, true));
}

#[test]
fn a_file_that_is_no_sitemap_is_passed_over_and_a_damaged_one_gives_its_beginning() {
    let config = ExtractorConfig::default();
    let body = b"<p>not found</p>";
    let (found, result) = passes(&sitemap(body), body, &config);
    assert!(found.is_empty() && result.is_none());
    let body = b"<urlset><url><loc>http://a.test/x</loc></url><url><loc>http://a.te";
    let (found, result) = passes(&sitemap(body), body, &config);
    assert_eq!((urls(&found), result.unwrap().counts.truncated), (vec!["http://a.test/x"], true));
}

#[test]
fn feeds_that_a_page_declares_are_discovered_only_on_request() {
    let body = b"<link rel='Alternate' type='Application/RSS+xml; charset=utf-8' href=/feed><link rel=alternate
        type=text/html href=/de><link rel='alternate home' type=application/atom+xml href=atom><a href=/x>x</a>
        <link rel=alternate type=application/rss+xml href=' '><noscript><link rel=alternate
        type=application/rss+xml href=/hidden></noscript>";
    let page = page("http://a.test/d/", body, BodyEncoding::Identity);
    let config = ExtractorConfig::default();
    assert_eq!(urls(&passes(&page, body, &config).0), ["http://a.test/x"]);
    let (found, result) = passes(&Page { feeds: true, ..page }, body, &config);
    assert_eq!(urls(&found), ["http://a.test/x", "http://a.test/feed", "http://a.test/d/atom"]);
    assert_eq!((found[0].sighting, found[1].sighting), (DiscoveryKind::Link, DiscoveryKind::Sitemap));
    assert_eq!(result.unwrap().links.links.len(), 3);
}

/// Time of the page, 2023-11-14T22:13:20Z, and a day before.
const READ_MS: i64 = 1_700_000_000_000;
const DAY_MS: i64 = 86_400_000;

#[test]
fn entries_that_were_modified_since_the_last_reading_are_updates_and_all_have_their_dates() {
    let body = b"<urlset>
        <url><loc>http://a.test/undated</loc></url>
        <url><loc>http://a.test/old</loc><lastmod>2023-11-01T08:00:00Z</lastmod></url>
        <url><loc>http://a.test/new</loc><lastmod>2023-11-14T08:00:00Z</lastmod></url>
        <url><loc>http://b.test/new</loc><lastmod>2023-11-14</lastmod></url>
        <url><loc>http://a.test/future</loc><lastmod>2024-01-01</lastmod></url></urlset>";
    let first = sitemap(body);
    let (found, _) = passes(&first, body, &ExtractorConfig::default());
    assert!(found.iter().all(|found| found.sighting == DiscoveryKind::Link), "nothing is new at the first reading");
    let of = |day: &str| orbweaver_sitemaps::milliseconds(day).unwrap();
    let (old, new, whole_day) = (of("2023-11-01T08:00:00Z"), of("2023-11-14T08:00:00Z"), of("2023-11-14"));
    assert_eq!(found[0].modified_ms, [0, old, new, of("2024-01-01")]);
    let again = Page { visited_at_ms: Some(READ_MS - DAY_MS), ..first };
    let (found, _) = passes(&again, body, &ExtractorConfig::default());
    let found: Vec<_> =
        found.iter().map(|found| (found.sighting, urls(std::slice::from_ref(found)), &*found.modified_ms)).collect();
    let rest = vec!["http://a.test/undated", "http://a.test/old", "http://a.test/future"];
    assert_eq!(
        found,
        [
            (DiscoveryKind::Link, rest, &[0, old, of("2024-01-01")][..]),
            (DiscoveryKind::Update, vec!["http://a.test/new"], &[new]),
            (DiscoveryKind::Update, vec!["http://b.test/new"], &[whole_day]),
        ]
    );
}

#[test]
fn a_file_in_which_very_many_entries_are_new_has_no_updates_and_its_files_have_none() {
    let entry = |number| format!("<url><loc>http://a.test/{number}</loc><lastmod>2023-11-14T08:00:00Z</lastmod></url>");
    let config = ExtractorConfig { max_links: 300, pass_links: 300, ..ExtractorConfig::default() };
    for (entries, updates) in [(1000, 1000), (1001, 0)] {
        let body = format!("<urlset>{}</urlset>", (0..entries).map(entry).collect::<String>());
        let page = Page { visited_at_ms: Some(READ_MS - DAY_MS), ..sitemap(body.as_bytes()) };
        let (found, _) = passes(&page, body.as_bytes(), &config);
        let of = |sighting| {
            found.iter().filter(|found| found.sighting == sighting).map(|found| found.urls.len()).sum::<usize>()
        };
        assert_eq!((of(DiscoveryKind::Update), of(DiscoveryKind::Link)), (updates, entries - updates));
        assert!(found.iter().all(|found| found.modified_ms.len() == found.urls.len()));
    }
    let body =
        b"<sitemapindex><sitemap><loc>http://a.test/1.xml</loc><lastmod>2023-11-14</lastmod></sitemap></sitemapindex>";
    let page = Page { visited_at_ms: Some(READ_MS - DAY_MS), ..sitemap(body) };
    let (found, _) = passes(&page, body, &ExtractorConfig::default());
    assert_eq!((found.len(), found[0].sighting), (1, DiscoveryKind::Sitemap));
}

#[test]
fn a_record_without_room_for_all_urls_continues_in_another_with_the_dates_of_its_own() {
    let entries: String = (0..7)
        .map(|number| {
            let date = if number % 3 == 0 { "" } else { "<lastmod>2023-11-14T08:00:00Z</lastmod>" };
            format!("<url><loc>http://a.test/{number}</loc>{date}</url>")
        })
        .collect();
    let body = format!("<urlset>{entries}</urlset>");
    let config = ExtractorConfig { max_discovered_urls: 3, ..ExtractorConfig::default() };
    let (found, _) = passes(&sitemap(body.as_bytes()), body.as_bytes(), &config);
    let modified = orbweaver_sitemaps::milliseconds("2023-11-14T08:00:00Z").unwrap();
    let dates: Vec<_> = found.iter().map(|found| &*found.modified_ms).collect();
    assert_eq!(dates, [&[0, modified, modified][..], &[0, modified, modified], &[]]);
}
