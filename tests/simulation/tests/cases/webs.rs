//! Hand-made webs for the sequences of events of single rules.

use std::collections::BTreeSet;

use orbweaver_simulation_tests::{
    network::Weather,
    random::Random,
    scenario::Scenario,
    settings::Settings,
    web::{Host, Kind, Page, Web},
};

use crate::calm;

/// Creates a web of these pages, each with the number of its site and its links. The first page is the seed.
pub(crate) fn web(pages: &[(usize, &[usize])]) -> Web {
    let sites = pages.iter().map(|(site, _)| site + 1).max().unwrap_or(0);
    let host = |site| Host {
        name: format!("site{site}.org"),
        site: format!("site{site}.org"),
        has_robots: false,
        robots_at: None,
        crawl_delay_s: None,
        robots_troubles: vec![],
        service_ms: 20,
    };
    let page = |(number, (site, links)): (usize, &(usize, &[usize]))| Page {
        url: format!("https://site{site}.org/p{number}"),
        host: *site,
        kind: Kind::Html,
        links: links.to_vec(),
        troubles: vec![],
        service_ms: 20,
        text_bytes: 0,
    };
    Web {
        pages: pages.iter().enumerate().map(page).collect(),
        hosts: (0..sites).map(host).collect(),
        seeds: vec![0],
        max_depth: None,
        interval_ms: 100,
        version_ms: None,
        external: BTreeSet::new(),
        sitemaps: false,
    }
}

/// Creates a crawl of four pages, each on its own site, that take fifteen seconds to respond, and of twelve pages on
/// the site of the seed, which are requested meanwhile at intervals of a second.
pub(crate) fn slow_and_quick_pages(seed: u64) -> Scenario {
    const SLOW: usize = 4;
    const QUICK: usize = 12;
    let links: Vec<usize> = (1..=SLOW + QUICK).collect();
    let site = |page: usize| if page <= SLOW { page } else { 0 };
    let pages: Vec<(usize, &[usize])> =
        (0..=SLOW + QUICK).map(|page| (site(page), if page == 0 { &links[..] } else { &[] })).collect();
    let mut web = web(&pages);
    web.interval_ms = 1_000;
    web.pages[1..=SLOW].iter_mut().for_each(|page| page.service_ms = 15_000);
    all_at_once(crawl(seed, web))
}

/// Limits neither dispatches nor requests, except per site.
pub(crate) fn all_at_once(mut scenario: Scenario) -> Scenario {
    let settings = &mut scenario.settings;
    (settings.concurrency, settings.min_outstanding, settings.budget) = (64, 512, 1_000);
    scenario
}

/// Creates a crawl of this web in one partition, with one process per service; the seed determines settings and delays.
pub(crate) fn crawl(seed: u64, web: Web) -> Scenario {
    let mut settings = Settings::draw(&mut Random::new(seed), web.interval_ms);
    (settings.partitions, settings.processes) = (1, [1; 5]);
    Scenario { web, settings, weather: Weather::Fair, ..calm(seed) }
}
