//! Many sites that behave in every way, for hours: each gets requests in its own time, and none later than it permits.

use std::collections::BTreeMap;

use orbweaver_simulation_tests::{
    counts::Counts,
    faults::Fault,
    random::Random,
    scenario::Scenario,
    schedule::{Report, run},
    web::{Asked, Host, Trouble, Web},
};

use crate::{
    described, holds, violated,
    webs::{all_at_once, crawl, web},
};

const PAGES: usize = 8;

/// Creates a crawl of sites that are fast or slow, have a crawl-delay, refuse with and without Retry-After, fail or do
/// not respond at all. Each site is a seed with its pages.
fn sites_of_every_kind(seed: u64, sites: usize) -> Scenario {
    let random = &mut Random::new(seed);
    let links: Vec<Vec<usize>> = (0..sites).map(|site| (site * PAGES + 1..(site + 1) * PAGES).collect()).collect();
    let page = |page: usize| (page / PAGES, if page.is_multiple_of(PAGES) { &links[page / PAGES][..] } else { &[] });
    let mut web = web(&(0..sites * PAGES).map(page).collect::<Vec<_>>());
    web.seeds = (0..sites).map(|site| site * PAGES).collect();
    web.interval_ms = 1_000;
    for site in 0..sites {
        behave(&mut web, site, random);
    }
    let mut scenario = all_at_once(crawl(seed, web));
    (scenario.settings.partitions, scenario.settings.processes) = (4, [1, 2, 2, 2, 1]);
    scenario.within_ms = 3 * 24 * 3_600_000;
    scenario
}

/// As [`sites_of_every_kind`], with fewer sites and faults in the first two hours.
fn disturbed(seed: u64) -> Scenario {
    let mut scenario = sites_of_every_kind(seed, 150);
    let mut random = Random::new(seed);
    scenario.faults = (0..8).flat_map(|_| Fault::plan(&mut random)).collect();
    for planned in &mut scenario.faults {
        planned.at_ms = random.between(1_000, 2 * 3_600_000);
    }
    scenario.faults.sort_by_key(|planned| planned.at_ms);
    scenario
}

type MakeTrouble = fn(&mut Random) -> Trouble;

fn behave(web: &mut Web, site: usize, random: &mut Random) {
    let of_site = site * PAGES..(site + 1) * PAGES;
    let (service_ms, delay_s, trouble): (_, _, Option<MakeTrouble>) = match random.below(100) {
        0..40 => (random.between(5, 300), None, None),
        40..55 => (random.between(600, 4_000), None, None),
        55..65 => (20, Some(random.between(2, 90)), None),
        65..80 => (20, None, Some(|random| Trouble::Busy(Some(random.between(1, 4 * 3_600))))),
        80..90 => (20, None, Some(|_| Trouble::Busy(None))),
        90..95 => (20, None, Some(|_| Trouble::Hang)),
        _ => (20, None, Some(|_| Trouble::Error)),
    };
    let host: &mut Host = &mut web.hosts[site];
    (host.has_robots, host.crawl_delay_s, host.service_ms) = (delay_s.is_some(), delay_s, service_ms);
    for page in of_site {
        web.pages[page].service_ms = service_ms;
        if let Some(trouble) = trouble.filter(|_| random.chance(30)) {
            web.pages[page].troubles = vec![trouble(random)];
        }
    }
}

/// Returns, of each site without failures, the time from its first to its last request, and the least that its delay and
/// its responses permit, both in milliseconds.
fn durations(report: &Report) -> Vec<(i64, i64)> {
    let web = &report.scenario.web;
    let mut sites: BTreeMap<usize, Vec<&Asked>> = BTreeMap::new();
    for request in &report.asked {
        sites.entry(request.host).or_default().push(request);
    }
    let fails = |site: &usize| web.pages[site * PAGES..(site + 1) * PAGES].iter().any(|page| !page.troubles.is_empty());
    let durations = sites.into_iter().filter(|(site, _)| !fails(site)).map(|(site, asked)| {
        let host = &web.hosts[site];
        let took = asked[asked.len() - 1].arrived_ms - asked[0].arrived_ms;
        let gap_ms = web.interval_ms.max(host.crawl_delay_s.unwrap_or(0) * 1000).max(2 * host.service_ms);
        (took, i64::try_from((gap_ms + host.service_ms) * (asked.len() as u64 - 1)).unwrap())
    });
    durations.collect()
}

#[test]
fn a_thousand_sites_of_every_kind_get_requests_in_their_own_time_and_as_many_as_they_permit() {
    let report = run(sites_of_every_kind(1, 1000), &Counts::new().unwrap());
    assert_eq!(report.violations, [""; 0], "{}", described(&report));
    let durations = durations(&report);
    let (took, least) = durations.iter().fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
    assert!(took * 10 <= least * 11, "{took} ms, of which {least} ms are necessary");
    let late = durations.iter().filter(|(took, least)| *least > 60_000 && took * 10 > least * 11);
    assert_eq!(late.count(), 0, "{durations:?}");
}

#[test]
fn sites_of_every_kind_get_requests_in_their_own_time_whatever_happens_to_the_processes() {
    holds(disturbed, 1..3, violated);
}
