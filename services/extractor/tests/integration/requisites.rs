//! Requisites of pages and style sheets.

use orbweaver_extractor::ExtractorConfig;
use orbweaver_extractor::body::BodyReader;
use orbweaver_extractor::job::{PageVerdict, process};
use orbweaver_extractor::pass::PagePass;
use orbweaver_log::Record;
use orbweaver_messages::{
    BodyEncoding, Discovered, DiscoveryKind, Page, PageKind, Pattern, REQUISITE_DEPTH, decode, topic,
};

use crate::fixture::{NOW, PARTITIONS, delivered, links, page};

const URL: &str = "http://a.test/d/page";

/// Makes a page whose requisites are requested.
fn requesting(body: &[u8]) -> Page {
    let mut page = Page { requisites: Some(500), ..page(URL, body, BodyEncoding::Identity) };
    page.context.trail = page.context.trail.through(Pattern(7));
    page
}

/// Makes a style sheet that is a requisite.
fn style_sheet(body: &[u8]) -> Page {
    let content_type = Some("Text/CSS; charset=utf-8".to_owned());
    let mut page = Page { kind: PageKind::Other, content_type, ..requesting(body) };
    (page.context.sighting, page.context.depth) = (DiscoveryKind::Requisite, REQUISITE_DEPTH);
    page
}

fn first_pass(page: &Page, body: &[u8], config: &ExtractorConfig) -> PageVerdict {
    let pass = PagePass::first(delivered(7, Some(page), Some(body)).1);
    process(&pass, (PARTITIONS, NOW), &mut BodyReader::default(), config)
}

fn discovered(records: &[Record]) -> Vec<Discovered> {
    let found = records.iter().filter(|record| record.tp.topic == topic::DISCOVERED);
    found.map(|record| decode("discovered", record.value.as_ref()).unwrap()).collect()
}

/// Returns what a response that is no page discovers, and whether its links in the store become none.
fn passed_over(page: &Page, body: &[u8]) -> (Vec<Discovered>, bool) {
    match first_pass(page, body, &ExtractorConfig::default()) {
        PageVerdict::PassedOver { links, records, discovered: count } => {
            let found = discovered(&records);
            assert_eq!(found.iter().map(|found| found.urls.len()).sum::<usize>(), count);
            (found, links.is_some())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn requisites_are_discovered_after_the_links_by_site_at_a_depth_of_their_own_and_without_a_trail() {
    let body = b"<a href=x.png>x</a><img src=x.png><img src=http://b.test/y.png><img src=//a.test/z.png>";
    let PageVerdict::Extracted(result) = first_pass(&requesting(body), body, &ExtractorConfig::default()) else {
        panic!("no page")
    };
    let found = discovered(&result.records);
    let summary: Vec<_> = found.iter().map(|found| (&*found.site, found.sighting, found.urls.join(" "))).collect();
    let expected = [
        ("a.test", DiscoveryKind::Link, "http://a.test/d/x.png"),
        ("a.test", DiscoveryKind::Requisite, "http://a.test/d/x.png http://a.test/z.png"),
        ("b.test", DiscoveryKind::Requisite, "http://b.test/y.png"),
    ];
    assert_eq!(summary, expected.map(|(site, sighting, urls)| (site, sighting, urls.to_owned())));
    for found in &found[1..] {
        assert_eq!((found.depth, found.via.as_deref()), (REQUISITE_DEPTH, Some(URL)));
        assert!(found.trail.is_empty() && found.content.is_none());
    }
    assert_eq!((result.counts.discovered, result.counts.links), (4, 1));
    let without = Page { requisites: None, ..requesting(body) };
    let PageVerdict::Extracted(result) = first_pass(&without, body, &ExtractorConfig::default()) else {
        panic!("no page")
    };
    assert_eq!(discovered(&result.records).len(), 1);
}

#[test]
fn requisites_of_a_style_sheet_are_one_deeper_up_to_the_greatest_depth() {
    let body = b"@import 'a.css'; p { background: url(//b.test/b.png#x), url(data:image/png;base64,AA) }";
    let (found, has_links) = passed_over(&style_sheet(body), body);
    let urls: Vec<_> = found.iter().map(|found| (&*found.site, found.depth, found.urls.join(" "))).collect();
    let (depth, style) = (REQUISITE_DEPTH + 1, "http://a.test/d/a.css".to_owned());
    assert_eq!(urls, [("a.test", depth, style), ("b.test", depth, "http://b.test/b.png".to_owned())]);
    assert!(found.iter().all(|found| found.sighting == DiscoveryKind::Requisite) && has_links);
    let mut last = style_sheet(body);
    last.context.depth = u16::MAX;
    assert_eq!(passed_over(&last, body), (vec![], true));
}

#[test]
fn a_style_sheet_that_is_linked_as_a_page_is_read_and_other_responses_are_not() {
    let body = b"p { background: url(b.png) }";
    let mut linked = Page { kind: PageKind::Response, ..style_sheet(body) };
    (linked.context.sighting, linked.context.depth) = (DiscoveryKind::Link, 2);
    let (found, has_links) = passed_over(&linked, body);
    assert_eq!((found.len(), found[0].depth, has_links), (1, REQUISITE_DEPTH, false));
    for other in [
        Page { requisites: None, ..style_sheet(body) },
        Page { status: 404, kind: PageKind::Response, ..style_sheet(body) },
        Page { content_type: Some("text/plain".into()), ..style_sheet(body) },
        Page { content_type: None, ..style_sheet(body) },
    ] {
        assert_eq!(passed_over(&other, body).0, [], "{other:?}");
    }
    // As UTF-16 with a byte order mark.
    let wide: Vec<u8> = "\u{feff}p{x:url(é.png)}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(passed_over(&style_sheet(&wide), &wide).0[0].urls, ["http://a.test/d/%C3%A9.png"]);
}

#[test]
fn a_page_of_several_passes_has_its_requisites_in_the_first() {
    let body = format!("{}<img src=a.png>", links(12)).into_bytes();
    let config = ExtractorConfig { pass_links: 4, max_links: 4, ..ExtractorConfig::default() };
    let mut next = PagePass::first(delivered(7, Some(&requesting(&body)), Some(&body)).1);
    let mut passes = vec![];
    loop {
        match process(&next, (PARTITIONS, NOW), &mut BodyReader::default(), &config) {
            PageVerdict::Discovered(pass) => (passes.push(pass.records), next = pass.next).1,
            PageVerdict::Extracted(result) => break passes.push(result.records),
            other => panic!("{other:?}"),
        }
    }
    let is_requisite = |found: &Discovered| found.sighting == DiscoveryKind::Requisite;
    let counts: Vec<_> =
        passes.iter().map(|records| discovered(records).iter().filter(|found| is_requisite(found)).count()).collect();
    assert!(counts.len() > 2 && counts[0] == 1 && counts[1..].iter().all(|count| *count == 0), "{counts:?}");
}
