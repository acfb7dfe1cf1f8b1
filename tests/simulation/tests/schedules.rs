//! Seeded schedules: no violations, and the same schedule on every run of a seed.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use orbweaver_simulation_tests::{
    counts::Counts,
    scenario::Scenario,
    schedule::{Report, run},
};

fn described(report: &Report) -> String {
    let faults: Vec<String> = report.scenario.faults.iter().map(ToString::to_string).collect();
    format!("seed {}: {:#?}\n{}", report.scenario.seed, report.violations, faults.join("\n"))
}

/// Returns the number of schedules to run: a thousand take about a minute on two cores.
fn schedules() -> u64 {
    std::env::var("ORBWEAVER_SIMULATION_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1000)
}

#[test]
fn no_schedule_shows_a_violation() {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let counts = Counts::new().unwrap();
                for seed in (thread..schedules()).step_by(usize::try_from(threads).unwrap()) {
                    let report = run(Scenario::of(seed), &counts);
                    assert!(report.violations.is_empty(), "{}", described(&report));
                }
            });
        }
    });
}

#[test]
fn schedules_that_once_failed_do_not_fail_any_more() {
    let counts = Counts::new().unwrap();
    for line in include_str!("../regressions.txt").lines().filter(|line| !line.starts_with('#')) {
        let Some(seed) = line.split_whitespace().next() else { continue };
        let report = run(Scenario::of(seed.parse().unwrap()), &counts);
        assert!(report.violations.is_empty(), "{line}\n{}", described(&report));
    }
}

#[test]
fn a_seed_is_the_same_schedule_every_time() {
    let counts = Counts::new().unwrap();
    for seed in 0..30 {
        let [one, other] = [(); 2].map(|()| run(Scenario::of(seed), &counts));
        assert_eq!(
            (one.trace, one.virtual_ms, one.happened),
            (other.trace, other.virtual_ms, other.happened),
            "{seed}"
        );
    }
}
