//! Rules about requests: their URLs and their times.

use orbweaver_simulation_tests::{
    broken::Rule,
    faults::Fault,
    random::Random,
    scenario::Scenario,
    schedule::Report,
    settings::{Service, Settings},
    web::{Kind, Trouble},
};

use crate::{
    at, calm, fails_without, holds, machine, violated,
    webs::{crawl, web},
};

/// Page 3 is discovered at depth 3, and fetched, before it is discovered at depth 2; only then is the page it links to
/// within the limit.
fn found_again_nearer(seed: u64) -> Scenario {
    let mut web = web(&[(0, &[1, 4]), (1, &[2]), (2, &[3]), (3, &[5]), (4, &[3]), (5, &[])]);
    web.max_depth = Some(3);
    web.pages[4].troubles = vec![Trouble::Busy(Some(20))];
    crawl(seed, web)
}

#[test]
fn a_page_that_is_found_again_at_a_lesser_depth_is_followed_again() {
    holds(found_again_nearer, 0..5, violated);
    fails_without(Rule::Depth, found_again_nearer, violated);
}

/// The server does not know page 1 by its canonical form, in which the tilde is unescaped.
fn an_escape_that_matters(seed: u64) -> Scenario {
    let mut web = web(&[(0, &[1]), (0, &[])]);
    web.pages[1].url = "https://site0.org/%7Ep1".to_owned();
    crawl(seed, web)
}

#[test]
fn what_is_requested_is_the_url_as_it_was_found() {
    holds(an_escape_that_matters, 0..3, violated);
    fails_without(Rule::AsFound, an_escape_that_matters, violated);
}

/// A chain of forty redirects that ends in a missing page.
fn a_long_row_of_redirects(seed: u64) -> Scenario {
    const ROW: usize = 40;
    let mut web = web(&[(0, &[1][..])].into_iter().chain((0..ROW).map(|_| (0, &[][..]))).collect::<Vec<_>>());
    for page in 1..ROW {
        web.pages[page].kind = Kind::Redirect(page + 1);
    }
    web.pages[ROW].kind = Kind::Missing;
    crawl(seed, web)
}

/// The first page, the first redirect, and twenty hops.
fn follows_more_than_twenty(report: &Report) -> bool {
    violated(report) || report.asked.iter().filter(|asked| !asked.is_robots).count() > 22
}

#[test]
fn a_row_of_redirects_ends_after_twenty_hops() {
    holds(a_long_row_of_redirects, 0..3, follows_more_than_twenty);
    fails_without(Rule::Chain, a_long_row_of_redirects, follows_more_than_twenty);
}

/// Every response takes three times the interval.
fn slow_answers(seed: u64) -> Scenario {
    let mut scenario = calm(seed);
    scenario.web.interval_ms = 100;
    scenario.settings = Settings::draw(&mut Random::new(seed), 100);
    scenario.web.pages.iter_mut().for_each(|page| page.service_ms = 300);
    scenario.web.hosts.iter_mut().for_each(|host| host.service_ms = 300);
    scenario
}

#[test]
fn the_interval_of_a_site_begins_with_its_answer() {
    holds(slow_answers, 0..5, violated);
    fails_without(Rule::Answers, slow_answers, violated);
}

/// Partitions move from fetcher to fetcher.
fn fetchers_share_out_anew(seed: u64) -> Scenario {
    let mut scenario = calm(seed);
    scenario.web.interval_ms = 2_000;
    scenario.settings = Settings::draw(&mut Random::new(seed), 2_000);
    (scenario.settings.partitions, scenario.settings.processes[3]) = (2, 3);
    scenario.faults = (0..12).map(|n| at(1_500 * n + 3_000, Fault::Move(Service::Fetcher))).collect();
    scenario
}

#[test]
fn whoever_gets_a_partition_waits_as_if_its_sites_had_been_asked_just_now() {
    holds(fetchers_share_out_anew, 0..10, violated);
    fails_without(Rule::Delays, fetchers_share_out_anew, violated);
}

/// A fetcher is suspended for longer than its session, and resumes when dispatches arrive again after a pause.
fn a_fetcher_wakes(seed: u64) -> Scenario {
    let mut scenario = calm(seed);
    scenario.web.interval_ms = 100;
    scenario.settings = Settings::draw(&mut Random::new(seed), 100);
    (scenario.settings.partitions, scenario.settings.processes[3]) = (1, 1);
    scenario.faults = vec![
        at(2_500, Fault::AllAway(Service::Frontier, 60_000)),
        at(2_600, Fault::FreezeUnnoticed(machine(Service::Fetcher, 0), 61_000 + 100 * (seed % 40))),
        at(3_000, Fault::Add(Service::Fetcher)),
    ];
    scenario
}

#[test]
fn a_fetcher_that_was_frozen_sends_nothing_while_another_has_its_partition() {
    holds(a_fetcher_wakes, 0..20, violated);
    fails_without(Rule::Proof, a_fetcher_wakes, violated);
}
