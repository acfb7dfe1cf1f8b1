use proptest::prelude::*;

use super::*;

/// Returns a process with this number of stages that have just joined, and the time.
fn stages<const COUNT: usize>() -> (Arbiter, [u64; COUNT], Instant) {
    let mut arbiter = Arbiter::default();
    let ids = [(); COUNT].map(|()| arbiter.join());
    (arbiter, ids, Instant::now())
}

#[test]
fn stages_have_the_permit_in_the_order_of_the_queue_and_one_that_leaves_blocks_no_other() {
    let trials = Trials::default();
    let [mut first, mut second, mut third] = [(); 3].map(|()| Trial::new(&trials));
    let now = Instant::now();
    assert_eq!(first.begin(now), Some(Permit::Counts));
    assert_eq!((second.begin(now), third.begin(now)), (None, None));
    first.end();
    assert_eq!(first.begin(now), None, "the others were there before");
    second.settle(Activity::Quiet, false);
    second.settle(Activity::Quiet, false);
    second.withdraw();
    assert_eq!(third.begin(now), Some(Permit::Counts));
    drop(third);
    assert_eq!(first.begin(now), Some(Permit::Counts));
    drop(first);
    assert_eq!(second.begin(now), Some(Permit::Counts));
}

#[test]
fn a_stage_tries_records_in_a_row_until_its_turn_is_over() {
    let trials = Trials::default();
    let [mut first, mut second] = [(); 2].map(|()| Trial::new(&trials));
    let now = Instant::now();
    assert_eq!(first.begin(now), Some(Permit::Counts));
    first.complete(now + TRIAL_TIME / 2);
    assert_eq!(first.begin(now + TRIAL_TIME / 2), Some(Permit::Counts));
    assert_eq!(second.begin(now + TRIAL_TIME / 2), None);
    first.complete(now + TRIAL_TIME);
    assert_eq!(first.begin(now + TRIAL_TIME), None, "the other is next");
    assert_eq!(second.begin(now + TRIAL_TIME), Some(Permit::Counts));
}

#[test]
fn a_trial_waits_until_every_other_stage_has_paused_and_has_nothing_in_flight() {
    let trials = Trials::default();
    let [mut first, mut second] = [(); 2].map(|()| Trial::new(&trials));
    let now = Instant::now();
    second.settle(Activity::Quiet, false);
    assert_eq!(first.begin(now), None, "it still accepts records");
    second.settle(Activity::Quiet, false);
    assert!(second.is_held());
    assert_eq!(first.begin(now), None, "its topic-partitions are paused only after this");
    second.settle(Activity::Working, false);
    assert_eq!(first.begin(now), None, "it has accepted a record before");
    second.settle(Activity::Quiet, false);
    assert_eq!(first.begin(now), Some(Permit::Counts));
    first.withdraw();
    second.settle(Activity::Quiet, false);
    assert!(!second.is_held());
    assert_eq!(first.begin(now), None, "it accepts records again");
}

#[test]
fn what_is_held_back_by_a_trial_precedes_the_next_one() {
    let (mut arbiter, [first, second], now) = stages();
    assert_eq!(arbiter.begin(first, now), Some(Permit::Counts));
    for work in [Work::Opening, Work::Records] {
        assert!(!arbiter.enter(second, work) && !arbiter.enter(first, work));
    }
    assert!(arbiter.settle(second, Activity::Quiet, true));
    arbiter.end(first);
    assert_eq!(arbiter.begin(first, now), None);
    assert!(arbiter.enter(second, Work::Opening));
    arbiter.settle(second, Activity::Opening, false);
    assert_eq!(arbiter.begin(first, now), None);
    assert!(!arbiter.enter(second, Work::Opening), "a trial is wanted");
    assert!(arbiter.enter(second, Work::Records), "the opening may wait for its tails");
    arbiter.settle(second, Activity::Quiet, true);
    assert_eq!(arbiter.begin(first, now), Some(Permit::Counts), "a later request waits for the next end");
    arbiter.end(first);
    assert_eq!(arbiter.begin(first, now), None);
    // The work has become superfluous.
    arbiter.settle(second, Activity::Quiet, false);
    assert_eq!(arbiter.begin(first, now), Some(Permit::Counts));
}

#[test]
fn a_trial_beside_a_stage_that_does_not_become_quiet_runs_at_last_and_does_not_count() {
    let (mut arbiter, [first, second], now) = stages();
    arbiter.settle(second, Activity::Opening, false);
    assert_eq!(arbiter.begin(first, now), None);
    let opened = now + 10 * QUIET_WITHIN;
    assert_eq!(arbiter.begin(first, opened), None, "an opening ends");
    arbiter.settle(second, Activity::Working, false);
    assert_eq!(arbiter.begin(first, opened), None);
    assert_eq!(arbiter.begin(first, opened + QUIET_WITHIN / 2), None);
    assert_eq!(arbiter.begin(first, opened + QUIET_WITHIN), Some(Permit::Uncounted));
    assert!(arbiter.enter(second, Work::Opening) && !arbiter.enter(first, Work::Opening));
    assert!(arbiter.settle(second, Activity::Working, false), "its records are still held back");
    arbiter.end(first);
    assert_eq!(arbiter.begin(first, opened + QUIET_WITHIN), Some(Permit::Uncounted), "no second wait");
    arbiter.end(first);
    arbiter.withdraw(first);
    assert!(!arbiter.settle(second, Activity::Quiet, false));
    assert_eq!(arbiter.begin(first, opened + QUIET_WITHIN), None, "the wait begins again");
    arbiter.settle(second, Activity::Quiet, false);
    assert_eq!(arbiter.begin(first, opened + QUIET_WITHIN), Some(Permit::Counts));
}

proptest! {
    /// In any order of events, a trial that counts begins only while every other stage is quiet, no stage starts work
    /// during it, and every stage that keeps requesting a trial gets one.
    #[test]
    fn no_stage_starts_work_during_a_trial_that_counts_and_every_trial_comes(steps in proptest::collection::vec((0_usize..3, 0_u8..7), 1..200)) {
        let (mut arbiter, ids, mut now) = stages::<3>();
        let mut busy = [false; 3];
        let mut tried: Option<(usize, Permit)> = None;
        for (index, step) in steps {
            let id = ids[index];
            match step {
                0 | 1 if tried.is_none() && !busy[index] => {
                    let permit = arbiter.begin(id, now);
                    if permit == Some(Permit::Counts) {
                        prop_assert!((0..3).all(|other| other == index || !busy[other]));
                    }
                    tried = permit.map(|permit| (index, permit));
                }
                2 if tried.is_some_and(|(trying, _)| trying == index) => {
                    arbiter.end(id);
                    tried = None;
                }
                3 | 4 => {
                    let work = if step == 3 { Work::Opening } else { Work::Records };
                    if arbiter.enter(id, work) {
                        prop_assert!(tried.is_none_or(|(_, permit)| permit == Permit::Uncounted));
                        busy[index] = true;
                    }
                }
                5 if tried.is_none_or(|(trying, _)| trying != index) => {
                    busy[index] = false;
                    arbiter.settle(id, Activity::Quiet, index == 2);
                }
                6 => now += QUIET_WITHIN / 10,
                _ => {}
            }
        }
        if let Some((trying, _)) = tried {
            arbiter.end(ids[trying]);
        }
        // All have work that waits, and want a trial.
        for index in 0..3 {
            let comes = (0..20).any(|_| {
                for id in ids {
                    arbiter.enter(id, Work::Opening);
                    arbiter.settle(id, Activity::Quiet, true);
                }
                let queued: Vec<u64> = arbiter.queue.iter().copied().filter(|id| *id != ids[index]).collect();
                for other in queued {
                    if arbiter.begin(other, now).is_some() {
                        arbiter.end(other);
                    }
                }
                let began = arbiter.begin(ids[index], now).is_some();
                arbiter.end(ids[index]);
                began
            });
            prop_assert!(comes, "stage {}", index);
        }
    }
}
