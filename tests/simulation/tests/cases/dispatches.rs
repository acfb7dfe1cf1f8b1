//! Rules about dispatches: attempts, poison records, parked records.

use std::collections::BTreeSet;

use orbweaver_simulation_tests::{
    broken::Rule, faults::Fault, scenario::Scenario, schedule::Report, settings::Service, web::Trouble,
};

use crate::{
    at, calm, fails_without, holds, violated,
    webs::{crawl, web},
};

/// The fetchers are unavailable three times, each time longer than a dispatch may wait, and each page fails once.
fn deferred_again_and_again(seed: u64) -> Scenario {
    let mut scenario = calm(seed);
    for page in &mut scenario.web.pages {
        page.troubles = vec![Trouble::Error];
    }
    scenario.faults = (0..3).map(|n| at(60_000 * n + 2_500, Fault::AllAway(Service::Fetcher, 40_000))).collect();
    scenario
}

#[test]
fn a_url_that_nobody_asked_for_is_dispatched_as_often_as_it_takes() {
    holds(deferred_again_and_again, 0..10, violated);
    fails_without(Rule::Attempts, deferred_again_and_again, violated);
}

/// The record of page 2 crashes the extractor on every delivery.
fn a_poison_record(seed: u64) -> Scenario {
    let web = web(&[(0, &[1, 2, 3]), (1, &[4]), (0, &[5]), (1, &[]), (0, &[]), (0, &[])]);
    let rejected = BTreeSet::from([2]);
    Scenario { poison: Some(2), rejected, within_ms: 3_600_000, ..crawl(seed, web) }
}

#[test]
fn a_record_that_ends_its_reader_goes_to_the_dead_letters_and_all_others_are_worked_off() {
    holds(a_poison_record, 0..3, violated);
    fails_without(Rule::Quarantine, a_poison_record, violated);
}

/// Forty pages, each on its own site, that take ten seconds to respond.
fn many_slow_sites(seed: u64) -> Scenario {
    const SITES: usize = 40;
    let links: Vec<usize> = (1..=SITES).collect();
    let pages: Vec<(usize, &[usize])> =
        (0..=SITES).map(|page| (page, if page == 0 { &links[..] } else { &[] })).collect();
    let mut web = web(&pages);
    web.pages[1..].iter_mut().for_each(|page| page.service_ms = 10_000);
    let mut scenario = crawl(seed, web);
    (scenario.settings.min_outstanding, scenario.settings.concurrency) = (4, 64);
    scenario
}

/// The bound is four, plus two seconds of measured outcomes.
fn dispatches_more_than_is_answered(report: &Report) -> bool {
    violated(report) || report.most_outstanding > 10
}

#[test]
fn dispatches_are_bounded_by_what_is_answered() {
    holds(many_slow_sites, 0..3, dispatches_more_than_is_answered);
    fails_without(Rule::Outstanding, many_slow_sites, dispatches_more_than_is_answered);
}

/// Two pages of one site are blocked for ten minutes; the budget is two records.
fn a_blocked_site(seed: u64) -> Scenario {
    let mut web = web(&[(0, &[4, 5, 1]), (0, &[2]), (0, &[3]), (0, &[]), (1, &[]), (1, &[])]);
    for page in [4, 5] {
        web.pages[page].troubles = vec![Trouble::Busy(Some(600))];
    }
    let mut scenario = Scenario { within_ms: 1_500_000, ..crawl(seed, web) };
    scenario.settings.budget = 2;
    scenario
}

#[test]
fn what_waits_for_a_blocked_site_keeps_nothing_else_waiting() {
    holds(a_blocked_site, 0..5, violated);
    fails_without(Rule::Parking, a_blocked_site, violated);
}
