//! Sequences of events that the protocol's rules prevent, each shown to do harm when its rule is disabled.
//!
//! A case is a family of schedules: the same kind of web and faults, many seeds. With all rules none may show harm;
//! without the rule at least one must.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

mod dispatches;
mod fetching;
mod limits;
mod moments;
mod polite;
mod restores;
mod webs;

use orbweaver_log::RECORD_LIMIT;
use orbweaver_messages::CrawlEventKind;
use orbweaver_simulation_tests::{
    broken::Rule,
    counts::Counts,
    faults::{Back, Fault, Machine, Planned},
    network::Weather,
    random::Random,
    revisions::Revision,
    scenario::Scenario,
    schedule::{Report, run},
    settings::{Service, Settings},
    web::{Kind, Trouble, Web},
};

/// A web without failures: each page must be fetched exactly once.
fn calm(seed: u64) -> Scenario {
    let mut scenario = Scenario::of(seed);
    for page in &mut scenario.web.pages {
        page.troubles.clear();
        page.service_ms = page.service_ms.min(300);
        page.text_bytes = 0;
        if page.kind == Kind::CookieWall {
            page.kind = Kind::Html;
        }
    }
    for host in &mut scenario.web.hosts {
        host.robots_troubles.clear();
        host.service_ms = host.service_ms.min(300);
    }
    scenario.web.max_depth = None;
    scenario.faults.clear();
    scenario.revisions.clear();
    scenario.first = Revision::default();
    scenario.second = None;
    (scenario.record_limit, scenario.settings.record_limit) = (RECORD_LIMIT, RECORD_LIMIT);
    scenario.weather = Weather::Rough;
    scenario
}

fn at(at_ms: u64, fault: Fault) -> Planned {
    Planned { at_ms, fault }
}

fn machine(service: Service, number: u64) -> Machine {
    Machine { service, number }
}

const BACK: Back = Back { after_ms: 500, loses_index: false };

/// Kills of the processes of a service, alternately before an acknowledgement and at an append, each at another record.
fn kills_at_writes(service: Service, times: u64, every_ms: u64) -> Vec<Planned> {
    let kill = |n| match n % 2 {
        0 => Fault::KillAtLanding(machine(service, n), BACK, n % 5),
        _ => Fault::KillAtAppend(machine(service, n), BACK, n % 3),
    };
    (0..times).map(|n| at(every_ms * n + 2_000, kill(n))).collect()
}

fn described(report: &Report) -> String {
    let faults: Vec<String> = report.scenario.faults.iter().map(ToString::to_string).collect();
    format!("seed {}: {:#?}\n{}", report.scenario.seed, report.violations, faults.join("\n"))
}

/// Predicate: whether a schedule did harm.
type Harm = fn(&Report) -> bool;

fn violated(report: &Report) -> bool {
    !report.violations.is_empty()
}

/// For schedules in which no process loses work: each page is requested exactly as often as necessary.
fn repeats_a_request(report: &Report) -> bool {
    violated(report) || report.repeats.all > 0
}

/// Asserts that none of these seeds shows the harm.
fn holds(scenario: impl Fn(u64) -> Scenario, seeds: std::ops::Range<u64>, harm: Harm) {
    let counts = Counts::new().unwrap();
    for seed in seeds {
        let report = run(scenario(seed), &counts);
        assert!(!harm(&report), "{}", described(&report));
    }
}

/// Number of seeds that are searched for harm. Some schedules show it in one of seven seeds, and any change of the pipeline
/// makes other seeds show it.
const SEARCHED: u64 = 300;

/// Asserts that, without the rule, a seed shows the harm.
fn fails_without(rule: Rule, scenario: impl Fn(u64) -> Scenario, harm: Harm) {
    let counts = Counts::new().unwrap();
    let found = (0..SEARCHED).any(|seed| {
        let mut scenario = scenario(seed);
        scenario.broken = std::mem::take(&mut scenario.broken).and(rule);
        harm(&run(scenario, &counts))
    });
    assert!(found, "none of the first {SEARCHED} seeds needs {rule:?}");
}

/// Another service appends at offset 100, the owner's own tombstone is acknowledged at 101, and the owner is killed.
fn another_service_writes_between(seed: u64) -> Scenario {
    let mut scenario = calm(seed);
    scenario.faults = (0..4).map(|n| at(3_000 * n + 2_000, Fault::Kill(machine(Service::Frontier, n), BACK))).collect();
    scenario
}

#[test]
fn what_another_service_wrote_below_an_own_record_is_seen() {
    holds(another_service_writes_between, 0..20, violated);
    fails_without(Rule::Positions, another_service_writes_between, violated);
}

/// Appends of normalizer-dedup fail or are interrupted by kills after a part of a batch has landed.
fn one_of_n_produces_fails(seed: u64) -> Scenario {
    let mut scenario = calm(seed);
    let dedup = |n: u64| machine(Service::Dedup, n);
    scenario.faults = (0..12)
        .map(|n| match n % 4 {
            1 => at(700 * n + 1_000, Fault::KillAtAppend(dedup(n), BACK, n % 5)),
            _ => at(700 * n + 1_000, Fault::FailAppend(dedup(n), n % 3)),
        })
        .collect();
    scenario
}

#[test]
fn a_url_whose_produce_failed_is_not_known_to_the_retry() {
    holds(one_of_n_produces_fails, 0..20, violated);
    fails_without(Rule::Acknowledged, one_of_n_produces_fails, violated);
}

fn two_partitions(seed: u64) -> Scenario {
    let mut scenario = calm(seed);
    scenario.settings.partitions = 2;
    scenario
}

#[test]
fn an_outcome_that_goes_elsewhere_never_ends_its_lease() {
    holds(two_partitions, 0..5, violated);
    fails_without(Rule::Partition, two_partitions, violated);
}

/// The fetchers are unavailable for longer than several leases.
fn fetchers_away(seed: u64) -> Scenario {
    let mut scenario = calm(seed);
    scenario.settings.min_outstanding = 512;
    scenario.faults = vec![at(2_500, Fault::AllAway(Service::Fetcher, 1_200_000))];
    scenario
}

/// Each fetcher may repeat the requests that it had in flight, and no others.
fn repeats_more_than_was_in_flight(report: &Report) -> bool {
    let fetchers = usize::try_from(report.scenario.settings.processes[3]).unwrap();
    violated(report)
        || report.repeats.most.as_ref().is_some_and(|(most, _)| *most > 1)
        || report.repeats.all > fetchers * report.scenario.settings.concurrency
}

#[test]
fn when_the_fetchers_were_away_for_an_hour_no_url_is_fetched_again_and_again() {
    holds(fetchers_away, 0..20, repeats_more_than_was_in_flight);
    fails_without(Rule::Expiry, fetchers_away, repeats_more_than_was_in_flight);
}

#[test]
fn two_readings_prove_completion_and_one_does_not() {
    holds(calm, 0..30, violated);
    fails_without(Rule::TwoReadings, calm, violated);
}

fn frontier_killed(seed: u64) -> Scenario {
    let mut scenario = calm(seed);
    scenario.faults = (0..5).map(|n| at(2_500 * n + 2_000, Fault::Kill(machine(Service::Frontier, n), BACK))).collect();
    scenario
}

#[test]
fn after_a_restore_reading_goes_on_at_its_end_while_the_commit_stays() {
    holds(frontier_killed, 0..20, violated);
    fails_without(Rule::CommitPoint, frontier_killed, violated);
}

/// Each page fails once and has two attempts; the frontier is killed at its writes.
fn a_retry_and_a_crash(seed: u64) -> Scenario {
    let mut scenario = calm(seed);
    for page in &mut scenario.web.pages {
        page.troubles = vec![Trouble::Error];
    }
    scenario.settings.max_attempts = 2;
    scenario.faults = kills_at_writes(Service::Frontier, 8, 3_000);
    scenario
}

#[test]
fn attempts_rise_once_when_an_outcome_comes_again_after_a_crash() {
    holds(a_retry_and_a_crash, 0..40, violated);
}

/// Queued URLs are rewritten and ended, the log is compacted immediately, and the frontier restarts repeatedly.
fn compacted_at_once(seed: u64) -> Scenario {
    let mut scenario = frontier_killed(seed);
    scenario.compaction_lag_ms = 0;
    scenario.faults.extend((0..4).map(|n| at(16_000 * (n + 1), Fault::Kill(machine(Service::Frontier, n), BACK))));
    scenario
}

#[test]
fn compaction_never_loses_a_url_that_waits() {
    holds(compacted_at_once, 0..20, violated);
}

#[test]
fn a_crash_between_every_two_of_frontier_seen_index_and_complete_loses_nothing() {
    let counts = Counts::new().unwrap();
    let web: Web = calm(3).web;
    let dedup = machine(Service::Dedup, 0);
    for after in 0..24 {
        for kill in [Fault::KillAtAppend(dedup, BACK, after), Fault::KillAtLanding(dedup, BACK, after)] {
            let mut scenario = calm(3);
            scenario.web = web.clone();
            scenario.settings.processes[0] = 1;
            scenario.faults = vec![at(1, Fault::Move(Service::Dedup)), at(2_100, kill)];
            let report = run(scenario, &counts);
            assert!(!violated(&report), "{}", described(&report));
        }
    }
}

/// Pages that are not seeds are excluded soon after the start; a slow site keeps most of them queued until then.
fn narrowed(seed: u64) -> Scenario {
    let mut scenario = calm(seed);
    scenario.web.interval_ms = 2_000;
    scenario.settings = Settings::draw(&mut Random::new(seed), 2_000);
    let pages = scenario.web.pages.len();
    let excluded = (1..pages).filter(|page| page % 3 == 0 && !scenario.web.seeds.contains(page)).collect();
    scenario.revisions = vec![Revision { at_ms: 6_000, excluded, ..Revision::default() }];
    scenario
}

#[test]
fn what_waits_when_the_scope_becomes_narrower_ends_unasked_and_the_crawl_completes() {
    let counts = Counts::new().unwrap();
    let (mut unasked, mut all) = (0, 0);
    for seed in 0..20 {
        let scenario = narrowed(seed);
        let before = run(Scenario { revisions: vec![], ..scenario.clone() }, &counts);
        let after = run(scenario, &counts);
        assert!(!violated(&before) && !violated(&after), "{}\n{}", described(&before), described(&after));
        assert!(after.requests <= before.requests, "seed {seed}");
        (unasked, all) = (unasked + before.requests - after.requests, all + before.requests);
    }
    assert!(unasked * 20 > all, "{unasked} of {all} requests were spared");
}

/// A pause for a minute, after three seconds, while nothing fails.
fn paused(seed: u64) -> Scenario {
    let mut scenario = calm(seed);
    let revision = |at_ms, paused| Revision { at_ms, paused, ..Revision::default() };
    scenario.revisions = vec![revision(3_000, true), revision(63_000, false)];
    // The log delivers a record within half a second in rough weather.
    scenario.revised_within_ms = 1_000;
    scenario
}

#[test]
fn a_paused_crawl_sends_nothing_after_a_second_and_completes_once_it_is_resumed() {
    let counts = Counts::new().unwrap();
    let (mut proven, mut events) = (0, vec![]);
    for seed in 0..50 {
        let report = run(paused(seed), &counts);
        assert!(!violated(&report), "{}", described(&report));
        assert!(report.virtual_ms > 63_000, "seed {seed}: completion must not be reported while the crawl is paused");
        proven += u32::from(report.crawl_ms.values().any(|crawl_ms| *crawl_ms > 63_000));
        events.extend(report.events.into_values());
    }
    // The others end before a lease of their last owners has passed.
    assert!(proven >= 10, "{proven} of 50 were proven complete by probes");
    let are_of = |kind| events.iter().filter(|event| **event == kind).count();
    let (complete, resumed) = (are_of(CrawlEventKind::Complete), are_of(CrawlEventKind::Resumed));
    assert!(complete >= 10 && complete + resumed == events.len(), "{events:?}");
}

/// A cap at half of the pages, counted by one or several frontiers, and removed after a while.
fn capped(seed: u64, frontiers: u64) -> Scenario {
    let mut scenario = calm(seed);
    scenario.settings.partitions = 4;
    scenario.settings.processes[1] = frontiers;
    scenario.first.max_pages = Some(scenario.web.pages.len() as u64 / 2);
    scenario.revisions = vec![Revision { at_ms: 90_000, ..Revision::default() }];
    scenario
}

#[test]
fn a_cap_holds_over_all_frontiers_and_the_crawl_completes_when_it_is_taken_off() {
    let counts = Counts::new().unwrap();
    for seed in 0..30 {
        for frontiers in [1, 3] {
            let report = run(capped(seed, frontiers), &counts);
            assert!(!violated(&report), "{}", described(&report));
            // A single frontier counts exactly; several may each round their share up, and learn late of the others'
            // pages.
            assert!(
                report.over_cap <= 2 * (frontiers - 1),
                "seed {seed}: {} pages too many with {frontiers}",
                report.over_cap
            );
            assert!(report.virtual_ms > 90_000, "seed {seed}: completion must not be reported while URLs are queued");
        }
    }
}
