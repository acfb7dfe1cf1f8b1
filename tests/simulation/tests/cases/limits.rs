//! Rules about the sizes of records, and about the number of pages.

use std::collections::BTreeSet;

use orbweaver_simulation_tests::{
    broken::{Broken, Rule},
    faults::Fault,
    network::Weather,
    revisions::Revision,
    scenario::Scenario,
    schedule::Report,
    settings::Service,
};

use crate::{
    at, fails_without, holds, violated,
    webs::{all_at_once, crawl, web},
};

/// Records of at most 4 KiB, and a page with ten times as much text, hardly compressible.
fn a_large_page(seed: u64) -> Scenario {
    let mut web = web(&[(0, &[1, 2]), (0, &[3]), (1, &[4]), (0, &[]), (0, &[])]);
    web.pages[1].text_bytes = 40 << 10;
    let mut scenario = Scenario { record_limit: 4 << 10, within_ms: 900_000, ..crawl(seed, web) };
    scenario.settings.record_limit = 4 << 10;
    scenario
}

#[test]
fn a_page_beyond_the_record_limit_is_cut_and_all_its_links_are_followed() {
    holds(a_large_page, 0..5, violated);
    fails_without(Rule::RecordLimit, a_large_page, violated);
}

/// `a_large_page`, where the services do not know the log's limit.
fn a_record_that_the_log_refuses(seed: u64) -> Scenario {
    Scenario { rejected: BTreeSet::from([1]), broken: Broken::without(Rule::RecordLimit), ..a_large_page(seed) }
}

#[test]
fn a_record_that_the_log_refuses_rejects_its_own_origins_and_the_crawl_goes_on() {
    holds(a_record_that_the_log_refuses, 0..5, violated);
    fails_without(Rule::Refusals, a_record_that_the_log_refuses, violated);
}

/// Twelve pages of a site in a crawl with at most four pages per site, whose frontiers restart every eight seconds.
fn a_site_beyond_its_cap(seed: u64) -> Scenario {
    let links: Vec<usize> = (1..12).collect();
    let mut web = web(&(0..12).map(|page| (0, if page == 0 { &links[..] } else { &[] })).collect::<Vec<_>>());
    web.pages.iter_mut().for_each(|page| page.service_ms = 2_000);
    let faults = (1..8).map(|time| at(8_000 * time, Fault::AllAway(Service::Frontier, 500))).collect();
    let mut scenario = Scenario { faults, ..crawl(seed, web) };
    scenario.first.max_pages_per_site = Some(4);
    scenario
}

#[test]
fn a_site_gets_no_more_pages_than_its_crawl_allows_although_frontiers_restart() {
    holds(a_site_beyond_its_cap, 0..10, violated);
    fails_without(Rule::SitePages, a_site_beyond_its_cap, violated);
}

/// Three hundred pages of sixty sites in four partitions, of which the crawl fetches half within a second or two; the only
/// frontier is killed about that time.
fn a_kill_near_a_cap(moment: u64) -> Scenario {
    let links: Vec<usize> = (1..300).collect();
    let pages: Vec<(usize, &[usize])> =
        (0..300).map(|page| (page % 60, if page == 0 { &links[..] } else { &[] })).collect();
    let faults = vec![at(1_000 + 50 * moment, Fault::AllAway(Service::Frontier, 100))];
    let mut scenario = Scenario { faults, weather: Weather::Fair, ..all_at_once(crawl(moment, web(&pages))) };
    scenario.settings.partitions = 4;
    scenario.assigned_at_once = true;
    scenario.first.max_pages = Some(150);
    scenario.revisions = vec![Revision { at_ms: 100_000, ..Revision::default() }];
    scenario
}

#[test]
fn a_frontier_that_is_killed_near_a_cap_does_not_exceed_it_once_restarted() {
    let exceeds = |report: &Report| report.over_cap > 0;
    holds(a_kill_near_a_cap, 0..60, exceeds);
    fails_without(Rule::SharesLast, a_kill_near_a_cap, exceeds);
}
