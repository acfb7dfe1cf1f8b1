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
