//! Rules about times: of blocks, of robots.txt, of rows in the store; clocks that are set.

use orbweaver_messages::Millis;
use orbweaver_simulation_tests::{
    broken::Rule, faults::Fault, scenario::Scenario, schedule::Report, settings::Service, web::Trouble,
};

use crate::{
    BACK, at, fails_without, holds, machine, repeats_a_request, violated,
    webs::{crawl, slow_and_quick_pages, web},
};

const HOUR_MS: Millis = 3_600_000;

/// Page 3 is discovered at depth 2 while it is fetched at depth 3, with status 404. All clocks are set back by an hour
/// before it is fetched again, with status 200; the rate-limiters are unavailable until then.
fn fetched_again_by_a_clock_behind(seed: u64) -> Scenario {
    let mut web = web(&[(0, &[1, 4]), (1, &[2]), (2, &[3]), (3, &[5]), (4, &[3]), (5, &[])]);
    web.max_depth = Some(3);
    (web.pages[3].troubles, web.pages[3].service_ms) = (vec![Trouble::Missing], 18_000);
    web.pages[4].troubles = vec![Trouble::Busy(Some(3))];
    let faults = vec![at(19_000, Fault::AllAway(Service::Limiter, 60_000)), at(19_500, Fault::SetClocks(-HOUR_MS))];
    let mut scenario = Scenario { faults, ..crawl(seed, web) };
    (scenario.settings.min_outstanding, scenario.settings.concurrency) = (4, 4);
    scenario
}

fn keeps_an_earlier_version(report: &Report) -> bool {
    violated(report) || !report.outdated_rows.is_empty()
}

#[test]
fn a_row_by_a_clock_that_was_ahead_gives_way_to_a_later_answer() {
    holds(fetched_again_by_a_clock_behind, 0..10, keeps_an_earlier_version);
    fails_without(Rule::WriteTimes, fetched_again_by_a_clock_behind, keeps_an_earlier_version);
}

/// Thirty hosts whose robots.txt is on site 0, where as many pages are fetched at the same time.
fn robots_elsewhere(seed: u64) -> Scenario {
    const HOSTS: usize = 30;
    let links: Vec<usize> = (1..=2 * HOSTS).collect();
    let site = |page: usize| if page.is_multiple_of(2) { 0 } else { page / 2 + 1 };
    let pages: Vec<(usize, &[usize])> =
        (0..=2 * HOSTS).map(|page| (site(page), if page == 0 { &links[..] } else { &[] })).collect();
    let mut web = web(&pages);
    web.hosts[1..].iter_mut().for_each(|host| host.robots_at = Some(0));
    crawl(seed, web)
}

#[test]
fn a_robots_txt_on_another_site_is_requested_in_that_sites_time() {
    holds(robots_elsewhere, 0..5, violated);
    fails_without(Rule::RobotsTime, robots_elsewhere, violated);
}

/// Page 1 is blocked for two minutes. The commits of the rate-limiter are rejected, and it is killed: its successor
/// reads the outcome again a minute and a half after the block began.
fn a_block_is_read_again(seed: u64) -> Scenario {
    let mut web = web(&[(0, &[1, 2]), (1, &[]), (1, &[])]);
    web.pages[0].service_ms = 5_000;
    web.pages[1].troubles = vec![Trouble::Busy(Some(120))];
    let limiter = machine(Service::Limiter, 0);
    let faults = vec![at(5_000, Fault::RefuseCommits(limiter, 100_000)), at(55_000, Fault::Kill(limiter, BACK))];
    Scenario { faults, ..crawl(seed, web) }
}

/// The block begins within ten seconds; the crawl completes within half a minute of its end.
fn outlasts_the_block(report: &Report) -> bool {
    violated(report) || report.told_ms.is_none_or(|told_ms| told_ms > 170_000)
}

#[test]
fn a_block_that_is_read_again_becomes_no_longer() {
    holds(a_block_is_read_again, 0..5, outlasts_the_block);
    fails_without(Rule::BlockTime, a_block_is_read_again, outlasts_the_block);
}

/// The robots.txt of `host` redirects to site 1, which responds with a block of half a minute; page 1, on site 1, is
/// discovered in the meantime.
fn robots_elsewhere_is_blocked(seed: u64, host: &str, site: &str) -> Scenario {
    let mut web = web(&[(0, &[2, 3]), (1, &[]), (2, &[]), (3, &[1])]);
    (web.hosts[2].name, web.hosts[2].site) = (host.to_owned(), site.to_owned());
    web.pages[2].url = format!("https://{host}/p2");
    web.hosts[2].robots_at = Some(1);
    web.hosts[1].robots_troubles = vec![Trouble::Busy(Some(30))];
    web.pages[3].service_ms = 5_000;
    crawl(seed, web)
}

#[test]
fn a_block_by_a_site_to_which_a_robots_txt_redirects_holds_for_that_site() {
    holds(|seed| robots_elsewhere_is_blocked(seed, "site2.org", "site2.org"), 0..5, violated);
}

#[test]
fn a_block_by_another_host_to_which_a_robots_txt_redirects_holds_for_their_site() {
    holds(|seed| robots_elsewhere_is_blocked(seed, "more.site1.org", "site1.org"), 0..5, violated);
}

/// The clock of a service's machine is an hour ahead for four seconds, then an hour behind for ten, while four requests
/// are in flight and others are due.
fn a_clock_steps(service: Service, seed: u64) -> Scenario {
    let of = machine(service, 0);
    let faults =
        vec![at(9_000, Fault::SetClock(of, HOUR_MS, 4_000)), at(14_000, Fault::SetClock(of, -HOUR_MS, 10_000))];
    Scenario { faults, ..slow_and_quick_pages(seed) }
}

#[test]
fn a_clock_that_steps_by_an_hour_and_back_hurries_no_request_and_ends_no_lease() {
    for service in Service::ALL {
        holds(|seed| a_clock_steps(service, seed), 0..2, repeats_a_request);
    }
    fails_without(Rule::SteadyClock, |seed| a_clock_steps(Service::Frontier, seed), repeats_a_request);
}

/// The frontier is restarted while the clock of its machine is an hour ahead and four requests are in flight.
fn a_frontier_starts_an_hour_ahead(seed: u64) -> Scenario {
    let frontier = machine(Service::Frontier, 0);
    let faults = vec![at(9_000, Fault::SetClock(frontier, HOUR_MS, 60_000)), at(9_000, Fault::Stop(frontier, 500))];
    Scenario { faults, ..slow_and_quick_pages(seed) }
}

#[test]
fn a_process_that_starts_an_hour_ahead_joins_once_its_clock_agrees() {
    holds(a_frontier_starts_an_hour_ahead, 0..5, repeats_a_request);
    fails_without(Rule::ClockDifference, a_frontier_starts_an_hour_ahead, repeats_a_request);
}

/// Page 1 is blocked for five minutes while the clock of the rate-limiter's machine is an hour ahead. All processes
/// that know of the block are restarted with the right clock, after more than a lease: only `crawl.sites` has the block
/// of the site, on which page 2 is queued.
fn a_block_outlasts_all_that_know_of_it(seed: u64) -> Scenario {
    let mut web = web(&[(0, &[1, 2]), (1, &[]), (1, &[])]);
    web.pages[0].service_ms = 5_000;
    web.pages[1].troubles = vec![Trouble::Busy(Some(300))];
    let mut faults = vec![at(4_000, Fault::SetClock(machine(Service::Limiter, 0), HOUR_MS, 20_000))];
    let services = [Service::Limiter, Service::Frontier, Service::Fetcher];
    faults.extend(services.map(|service| at(140_000, Fault::AllAway(service, 1_000))));
    Scenario { faults, ..crawl(seed, web) }
}

/// The judge excuses a successor of the fetcher that was refused, because that fetcher is killed.
fn requests_before_the_block_ends(report: &Report) -> bool {
    let refused = report.asked.iter().find(|asked| asked.retry_after_ms.is_some());
    let Some((refused, ended_ms)) = refused.and_then(|refused| Some((refused, refused.ended_ms?))) else { return true };
    let until_ms = ended_ms.saturating_add_unsigned(refused.retry_after_ms.unwrap_or_default());
    let is_early = |at_ms: Millis| ended_ms < at_ms && at_ms < until_ms;
    violated(report) || report.asked.iter().any(|asked| asked.site == refused.site && is_early(asked.arrived_ms))
}

#[test]
fn a_block_of_minutes_holds_when_all_that_know_of_it_are_restarted() {
    holds(a_block_outlasts_all_that_know_of_it, 0..5, requests_before_the_block_ends);
    fails_without(Rule::Blocks, a_block_outlasts_all_that_know_of_it, requests_before_the_block_ends);
}
