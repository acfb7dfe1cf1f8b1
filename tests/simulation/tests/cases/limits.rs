//! Rules about the sizes of records.

use std::collections::BTreeSet;

use orbweaver_simulation_tests::{
    broken::{Broken, Rule},
    scenario::Scenario,
};

use crate::{
    fails_without, holds, violated,
    webs::{crawl, web},
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
    fails_without(Rule::RecordLimit, a_large_page, 0..1, violated);
}

/// `a_large_page`, where the services do not know the log's limit.
fn a_record_that_the_log_refuses(seed: u64) -> Scenario {
    Scenario { rejected: BTreeSet::from([1]), broken: Broken::without(Rule::RecordLimit), ..a_large_page(seed) }
}

#[test]
fn a_record_that_the_log_refuses_rejects_its_own_origins_and_the_crawl_goes_on() {
    holds(a_record_that_the_log_refuses, 0..5, violated);
    fails_without(Rule::Refusals, a_record_that_the_log_refuses, 0..1, violated);
}
