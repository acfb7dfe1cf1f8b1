//! Sitemaps of sites.

use orbweaver_messages::{Discovered, DiscoveryKind};

use super::*;

/// Returns a dispatch of a crawl.
fn of_crawl(around: &Surroundings, crawl: &str, path: &str, sequence: u64) -> ReadyDispatch {
    let mut ready = around.ready_every(100, &format!("https://a.example/{path}"), sequence);
    ready.dispatch.context.crawl = crawl.parse().unwrap();
    ready.dispatch.context.depth = 3;
    ready
}

/// Returns surroundings with this robots.txt, in which the crawls `maps` and `more` read sitemaps.
fn with_sitemaps(robots_txt: &str) -> Surroundings {
    let mut around = with_robots(robots(robots_txt));
    for path in ["one", "two"] {
        around.client.on(&format!("https://a.example/{path}"), page("hello"));
    }
    for (offset, crawl) in [(5, "maps"), (6, "more")] {
        around.define(offset, crawl, |definition| definition.profile.sitemaps = Some(true));
    }
    around
}

fn found(around: &Surroundings) -> Vec<Discovered> {
    let records = around.records(topic::DISCOVERED);
    records.iter().map(|record| decode("discovered", record.value.as_ref()).unwrap()).collect()
}

fn urls(around: &Surroundings) -> Vec<String> {
    found(around).into_iter().map(|found| format!("{} {}", &*found.crawl, found.urls.join(" "))).collect()
}

#[test]
fn the_sitemaps_of_a_robots_txt_are_durable_before_the_first_outcome_and_discovered_once_per_crawl() {
    let mut around = with_sitemaps("Sitemap: /map.xml\nSitemap: https://b.example/x.xml#y\nSitemap: mailto:x\n");
    for (sequence, (crawl, path)) in
        [("plain", "one"), ("maps", "one"), ("maps", "two"), ("more", "one")].iter().enumerate()
    {
        around.deliver(&of_crawl(&around, crawl, path, sequence as u64));
    }
    around.pass(5000);
    let expected = ["https://a.example/map.xml", "https://b.example/x.xml"];
    let expected: Vec<_> =
        ["maps", "more"].iter().flat_map(|crawl| expected.map(|url| format!("{crawl} {url}"))).collect();
    assert_eq!(urls(&around), expected);
    let first = &found(&around)[1];
    assert_eq!((&*first.site, first.sighting, first.depth), ("b.example", DiscoveryKind::Sitemap, 3));
    assert_eq!(first.via.as_deref(), Some(ROBOTS));
    let position = |topic: Topic, crawl: &str| {
        around.durable.iter().position(|durable| match durable {
            Durable::Record(record) if record.tp.topic == topic && topic == topic::DISCOVERED => {
                decode::<Discovered>("discovered", record.value.as_ref()).unwrap().crawl[..] == *crawl
            }
            Durable::Record(record) if record.tp.topic == topic => {
                decode::<Outcome>("outcome", record.value.as_ref()).unwrap().context.crawl[..] == *crawl
            }
            _ => false,
        })
    };
    for crawl in ["maps", "more"] {
        assert!(position(topic::DISCOVERED, crawl) < position(topic::OUTCOMES, crawl), "{crawl}");
    }
    around.assert_all_complete();
}

#[test]
fn without_a_named_sitemap_the_usual_place_is_tried_and_a_refused_page_leads_to_it_too() {
    let mut around = with_sitemaps("User-agent: *\nDisallow: /no\n");
    around.deliver(&of_crawl(&around, "maps", "no", 0));
    around.pass(1000);
    assert_eq!(around.kinds(), [some(OutcomeKind::Refused, "robots")]);
    assert_eq!(urls(&around), ["maps https://a.example/sitemap.xml"]);
    around.assert_all_complete();
}

#[test]
fn a_dispatch_that_is_left_to_another_fetcher_does_not_take_its_sitemaps_with_it() {
    let mut around = with_sitemaps("Sitemap: /map.xml\n");
    let ready = ReadyDispatch { interval_ms: 10_000, ..of_crawl(&around, "maps", "one", 0) };
    let partition = around.deliver(&ready).tp.partition;
    around.pass(10_001);
    assert_eq!((around.asked(), urls(&around).len()), (vec![ROBOTS.to_owned()], 0), "the page is queued");
    around.stage.close(partition);
    around.open(partition, 2);
    around.deliver(&ready);
    around.pass(40_000);
    assert_eq!(urls(&around), ["maps https://a.example/map.xml"]);
}

#[test]
fn a_requisite_and_an_external_url_discover_no_sitemaps() {
    for sighting in [DiscoveryKind::Requisite, DiscoveryKind::External] {
        let mut around = with_sitemaps("Sitemap: /map.xml\n");
        let mut ready = of_crawl(&around, "maps", "one", 0);
        ready.dispatch.context.sighting = sighting;
        around.deliver(&ready);
        around.pass(5000);
        assert_eq!((around.outcomes().len(), urls(&around)), (1, vec![]), "{sighting:?}");
    }
}
