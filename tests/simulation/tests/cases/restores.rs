//! Rules about logs, their owners and their indexes.

use std::collections::BTreeSet;

use orbweaver_simulation_tests::{
    broken::Rule,
    faults::{Back, Fault},
    revisions::Revision,
    scenario::Scenario,
    schedule::Report,
    settings::Service,
    web::Trouble,
};

use crate::{
    at, calm, fails_without, frontier_killed, holds, kills_at_writes, machine, repeats_a_request, violated,
    webs::{all_at_once, crawl, slow_and_quick_pages, web},
};

/// Page 3 is discovered at depth 3 and fetched; its frontier is suspended as it writes the tombstone. Another takes
/// over, and page 3 is discovered at depth 2. While it is queued, because the fetchers are unavailable, the first
/// frontier resumes and its tombstone lands.
fn an_owner_wakes_with_a_tombstone(seed: u64) -> Scenario {
    let mut web = web(&[(0, &[1, 4]), (1, &[2]), (2, &[3]), (3, &[5]), (4, &[3]), (5, &[])]);
    web.max_depth = Some(3);
    web.pages[3].service_ms = 15_000;
    web.pages[4].troubles = vec![Trouble::Busy(Some(60))];
    let faults = vec![
        at(12_000, Fault::FreezeAtTombstone(machine(Service::Frontier, 0), 110_000)),
        at(14_000, Fault::Add(Service::Frontier)),
        at(80_000, Fault::AllAway(Service::Fetcher, 100_000)),
    ];
    Scenario { faults, ..crawl(seed, web) }
}

#[test]
fn the_tombstone_of_an_owner_that_wakes_up_ends_nothing_that_waits_under_the_next() {
    holds(an_owner_wakes_with_a_tombstone, 0..5, violated);
    fails_without(Rule::Claims, an_owner_wakes_with_a_tombstone, violated);
}

/// The rate-limiter is suspended as it writes that a site is blocked for a second. Another takes over and learns that
/// the site is blocked for ten minutes; then the first resumes, and its record lands. Rate-limiters and frontier
/// restart, and another fetcher has the partition: only `crawl.sites` records the block.
fn an_owner_wakes_with_a_shorter_block(seed: u64) -> Scenario {
    let mut web = web(&[(0, &[1, 2, 3]), (1, &[]), (1, &[]), (1, &[])]);
    web.pages[1].troubles = vec![Trouble::Busy(Some(1))];
    web.pages[2].troubles = vec![Trouble::Busy(Some(600))];
    let mut faults = vec![
        at(2_100, Fault::FreezeAtSite(machine(Service::Limiter, 0), 250_000)),
        at(2_200, Fault::Add(Service::Fetcher)),
        at(10_000, Fault::Add(Service::Limiter)),
        at(265_000, Fault::AllAway(Service::Limiter, 1_000)),
        at(265_000, Fault::AllAway(Service::Frontier, 1_000)),
    ];
    faults.extend((0..5).map(|n| at(260_000 + 1_000 * n, Fault::Move(Service::Fetcher))));
    Scenario { faults, ..crawl(seed, web) }
}

#[test]
fn the_record_of_a_site_by_an_owner_that_wakes_up_shortens_no_block() {
    holds(an_owner_wakes_with_a_shorter_block, 0..5, violated);
    fails_without(Rule::Claims, an_owner_wakes_with_a_shorter_block, violated);
}

/// Page 1 is blocked for ten minutes: its new record is the last one in the index of the first frontier, which is then
/// killed. Page 2, on the same site, holds the commit point throughout. Another frontier ends pages 3 to 6, and their
/// tombstones are removed. The first frontier, whose index holds these pages, returns and takes over from the other.
fn an_index_has_missed_tombstones(seed: u64) -> Scenario {
    let mut web = web(&[(0, &[1, 2, 3, 4, 5, 6]), (1, &[]), (1, &[]), (2, &[]), (3, &[]), (4, &[]), (5, &[])]);
    (web.pages[1].troubles, web.pages[1].service_ms) = (vec![Trouble::Busy(Some(600))], 1_000);
    web.pages[3..].iter_mut().for_each(|page| page.service_ms = 15_000);
    let back = |after_ms| Back { after_ms, loses_index: false };
    let faults = vec![
        at(14_000, Fault::Kill(machine(Service::Frontier, 0), back(400_000))),
        at(14_500, Fault::Add(Service::Frontier)),
        at(430_000, Fault::Kill(machine(Service::Frontier, 1), back(100_000))),
    ];
    let mut scenario = all_at_once(crawl(seed, web));
    (scenario.settings.frontier_on_disk, scenario.settings.reappend_above) = (true, 65_536);
    Scenario { faults, compaction_lag_ms: 0, tombstones_kept_ms: 60_000, ..scenario }
}

#[test]
fn an_index_over_a_compacted_log_needs_the_tombstones_that_it_has_not_read() {
    holds(an_index_has_missed_tombstones, 0..5, repeats_a_request);
    fails_without(Rule::IndexAge, an_index_has_missed_tombstones, repeats_a_request);
}

/// The frontier is restarted while four requests are in flight.
fn a_frontier_restarts(seed: u64) -> Scenario {
    let faults = vec![at(9_000, Fault::Stop(machine(Service::Frontier, 0), 500))];
    Scenario { faults, ..slow_and_quick_pages(seed) }
}

#[test]
fn a_url_in_flight_stays_leased_when_its_frontier_restarts() {
    holds(a_frontier_restarts, 0..5, repeats_a_request);
    fails_without(Rule::Leases, a_frontier_restarts, repeats_a_request);
}

/// The partition of a frontier moves while forty pages are queued in it: `crawl.frontier` immediately, `crawl.outcomes`
/// after twenty seconds.
fn a_partition_moves_topic_by_topic(seed: u64) -> Scenario {
    const PAGES: usize = 40;
    let links: Vec<usize> = (1..=PAGES).collect();
    let pages: Vec<(usize, &[usize])> =
        (0..=PAGES).map(|page| (page % 4, if page == 0 { &links[..] } else { &[] })).collect();
    let mut web = web(&pages);
    web.interval_ms = 2_000;
    let faults = vec![at(2_500, Fault::Add(Service::Frontier)), at(8_000, Fault::MoveApart(Service::Frontier, 20_000))];
    Scenario { faults, ..crawl(seed, web) }
}

#[test]
fn a_frontier_that_holds_one_of_its_topics_serves_nothing() {
    holds(a_partition_moves_topic_by_topic, 0..5, violated);
    fails_without(Rule::Together, a_partition_moves_topic_by_topic, violated);
}

fn seeds_have_expired(seed: u64) -> Scenario {
    Scenario { seeds_expired: true, within_ms: 60_000, ..calm(seed) }
}

/// A halted stage reports it in its error; the offsets do not show that it is not working.
fn nobody_says_that_seeds_are_missing(report: &Report) -> bool {
    report.told_ms.is_some()
        && !report.ended.iter().any(|error| error.contains("records were deleted before they were read"))
}

#[test]
fn a_stage_whose_records_have_expired_halts_and_says_so() {
    holds(seeds_have_expired, 0..3, nobody_says_that_seeds_are_missing);
    fails_without(Rule::Offsets, seeds_have_expired, nobody_says_that_seeds_are_missing);
}

/// Thirty pages, each linked from the one before, and one that is blocked for ten minutes throughout.
fn one_waits_while_many_end(seed: u64) -> Scenario {
    const PAGES: usize = 30;
    let links: Vec<Vec<usize>> =
        (0..PAGES).map(|page| if page == 0 { vec![1, PAGES] } else { vec![page + 1] }).collect();
    let mut pages: Vec<(usize, &[usize])> = links.iter().map(|links| (0, &links[..])).collect();
    pages[PAGES - 1].1 = &[];
    pages.push((1, &[]));
    let mut web = web(&pages);
    web.pages[PAGES].troubles = vec![Trouble::Busy(Some(600))];
    let mut scenario = crawl(seed, web);
    scenario.settings.reappend_above = 4;
    scenario
}

/// With two queued URLs, a span of eight offsets is tolerated; as many may be in transit.
fn spans_more_than_what_waits(report: &Report) -> bool {
    violated(report) || report.longest_span > 20
}

#[test]
fn a_url_that_waits_for_long_does_not_hold_back_the_commit_point() {
    holds(one_waits_while_many_end, 0..5, spans_more_than_what_waits);
    fails_without(Rule::Reappend, one_waits_while_many_end, spans_more_than_what_waits);
}

/// The frontier is killed repeatedly, and each restore reads from a leader that lags.
fn leaders_lag(seed: u64) -> Scenario {
    Scenario { readers_lag_ms: 3_000, ..frontier_killed(seed) }
}

#[test]
fn a_leader_that_lags_ends_no_restore() {
    holds(leaders_lag, 0..10, violated);
    fails_without(Rule::Ends, leaders_lag, violated);
}

/// Processes of a service are killed at their writes.
fn killed_at_writes(service: Service, seed: u64) -> Scenario {
    Scenario { faults: kills_at_writes(service, 12, 700), ..calm(seed) }
}

#[test]
fn a_page_whose_outcome_is_written_last_is_not_lost_with_its_fetcher() {
    let killed = |seed| killed_at_writes(Service::Fetcher, seed);
    holds(killed, 0..10, violated);
    fails_without(Rule::Order, killed, violated);
}

/// Two operators revise the same version of the crawl's definition: the first excludes page 3, the other page 4.
fn two_revise_the_same_version(seed: u64) -> Scenario {
    let web = web(&[(0, &[1]), (0, &[2]), (0, &[3, 4]), (0, &[]), (0, &[])]);
    let revision =
        |at_ms, page| Revision { at_ms, excluded: BTreeSet::from([page]), replaces: vec![0], ..Revision::default() };
    Scenario { revisions: vec![revision(400, 3), revision(500, 4)], ..crawl(seed, web) }
}

fn the_second_applies(report: &Report) -> bool {
    let asked = |page: usize| report.asked.iter().any(|asked| asked.url == report.scenario.web.pages[page].url);
    violated(report) || asked(3) || !asked(4)
}

#[test]
fn of_two_definitions_in_place_of_the_same_version_the_first_applies() {
    holds(two_revise_the_same_version, 0..5, the_second_applies);
    fails_without(Rule::Versions, two_revise_the_same_version, the_second_applies);
}

#[test]
fn a_url_that_is_marked_as_seen_when_it_waits_is_not_lost_with_the_dedup() {
    let killed = |seed| killed_at_writes(Service::Dedup, seed);
    holds(killed, 0..10, violated);
    fails_without(Rule::SeenLast, killed, violated);
}
