//! Whatever the order of batches, closed files, crashes and restarts, each response is in the archive exactly once.

use std::time::Duration;

use orbweaver_archiver::ArchiverConfig;
use proptest::prelude::*;

use crate::world::{PageRecord, World};

#[derive(Debug, Clone)]
enum Op {
    Deliver(usize),
    RunJob(usize),
    LandPlan,
    LandRejects,
    Tick(i64),
    CloseFiles,
    Commit,
    Crash { is_suspended: bool },
    CrashAfterAppend,
    Revoke(usize),
    Lose,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (1..6usize).prop_map(Op::Deliver),
        16 => any::<usize>().prop_map(Op::RunJob),
        5 => Just(Op::LandPlan),
        2 => Just(Op::LandRejects),
        3 => (0..2000i64).prop_map(Op::Tick),
        2 => Just(Op::CloseFiles),
        4 => Just(Op::Commit),
        1 => any::<bool>().prop_map(|is_suspended| Op::Crash { is_suspended }),
        1 => Just(Op::CrashAfterAppend),
        1 => (0..8usize).prop_map(Op::Revoke),
        1 => Just(Op::Lose),
    ]
}

fn page() -> impl Strategy<Value = PageRecord> {
    prop_oneof![
        6 => Just(PageRecord::Captured("a")),
        3 => Just(PageRecord::Captured("b")),
        2 => Just(PageRecord::Captured("c")),
        1 => Just(PageRecord::Damaged("a")),
        1 => Just(PageRecord::Damaged("d")),
        2 => Just(PageRecord::Plain),
    ]
}

fn limits() -> ArchiverConfig {
    ArchiverConfig {
        max_file_bytes: 500,
        max_file_responses: 7,
        max_open_files: 2,
        max_file_age: Duration::from_secs(5),
        idle: Duration::from_secs(1),
        ..ArchiverConfig::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_response_is_archived_exactly_once_whatever_crashes_between_any_two_steps(
        pages in proptest::collection::vec(page(), 1..60),
        ops in proptest::collection::vec(op(), 0..120),
        is_uploading in any::<bool>(),
    ) {
        let upload = is_uploading.then(|| "s3://archive".to_owned());
        let mut world = World::new(pages, ArchiverConfig { upload, ..limits() });
        for op in ops {
            match op {
                Op::Deliver(records) => world.deliver(records),
                Op::RunJob(which) => world.run_job(which),
                Op::LandPlan => world.land_plan(),
                Op::LandRejects => world.land_rejects(),
                Op::Tick(after) => world.tick(after),
                Op::CloseFiles => world.close_files(),
                Op::Commit => world.commit(),
                Op::Crash { is_suspended } => world.crash(is_suspended),
                Op::CrashAfterAppend => world.crash_after_append(),
                Op::Revoke(jobs) => world.revoke(jobs),
                Op::Lose => world.lose(),
            }
        }
        world.finish();
        world.verify();
    }
}

#[test]
fn an_entry_that_a_suspended_owner_appends_after_the_claim_of_its_successor_hides_no_response() {
    let pages = vec![PageRecord::Captured("a"); 4];
    let mut world = World::new(pages, ArchiverConfig::default());
    world.run_job(0);
    world.deliver(2);
    world.run_job(0);
    // The locations.
    world.land_plan();
    world.close_files();
    world.run_job(0);
    // The successor deletes the file, which has no entry yet; then the entry arrives.
    world.crash(true);
    world.run_job(0);
    // The next owner finds the entry of a file that does not exist.
    world.crash(false);
    world.finish();
    world.verify();
    assert_eq!(world.closed_files(), [("a", 0, 3)]);
}

#[test]
fn a_revoked_partition_leaves_complete_files_if_its_drain_is_long_enough() {
    let pages = vec![PageRecord::Captured("a"), PageRecord::Captured("b"), PageRecord::Plain];
    let mut world = World::new(pages, ArchiverConfig::default());
    world.run_job(0);
    world.deliver(3);
    world.run_job(0);
    world.run_job(0);
    world.revoke(4);
    assert_eq!(world.closed_files(), [("a", 0, 0), ("b", 1, 0)]);
    world.finish();
    world.verify();
    assert_eq!(world.closed.len(), 2);
}

#[test]
fn beyond_the_limit_of_open_files_the_least_recently_written_one_is_closed() {
    let pages = ["a", "b", "a", "c"].map(PageRecord::Captured).to_vec();
    let mut world = World::new(pages, limits());
    world.run_job(0);
    for _ in 0..4 {
        world.deliver(1);
        world.run_jobs();
        world.tick(10);
    }
    assert_eq!(world.closed_files(), [("b", 1, 0)]);
    world.finish();
    world.verify();
}

#[test]
fn a_file_closes_at_the_tick_at_which_it_is_idle() {
    let mut world = World::new(vec![PageRecord::Captured("a"); 2], limits());
    world.run_job(0);
    world.deliver(1);
    world.run_jobs();
    world.tick(999);
    world.run_jobs();
    assert!(world.closed.is_empty());
    world.tick(1);
    world.run_jobs();
    assert_eq!(world.closed_files(), [("a", 0, 0)]);
}
