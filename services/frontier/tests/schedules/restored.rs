//! Outcomes that a restarted frontier finds in the log, with or without the records that they led to.

use orbweaver_frontier::decision::Decision;
use orbweaver_messages::{LEASE_MS, OutcomeKind};

use crate::{fetch_ahead, world::World};

type Step = fn(&mut World);

/// Fate of an outcome before the restart.
const STEPS: [(&str, Step); 3] = [
    ("complete", complete),
    ("delivered again", apply_only),
    ("delivered again without its record", World::lose_decisions),
];

/// Lets the frontier handle the next outcome, then the record that it led to. Nothing is dispatched.
fn complete(world: &mut World) {
    assert!(world.step() && world.step());
}

/// Lets the frontier handle the next outcome and append its record, as if the process were killed before it completed
/// any offset.
fn apply_only(world: &mut World) {
    for decision in world.decide().unwrap() {
        if let Decision::Rewrite { waiting, .. } = decision {
            world.records.push((waiting.context.fingerprint, Ok(*waiting)));
        }
    }
}

/// Returns every step, each to be followed by a restart without (`false`) and with (`true`) the index.
fn restarts() -> impl Iterator<Item = (&'static str, Step, bool)> {
    STEPS.into_iter().flat_map(|(name, step)| [false, true].map(|trust| (name, step, trust)))
}

pub(crate) fn restart(world: &mut World, trust: bool) {
    world.restart(trust);
    world.settle();
}

/// Asserts that the only URL ends, and that everything completes.
fn assert_ends(world: &mut World, what: &str) {
    world.finish();
    assert_eq!(world.ended.len(), 1, "{what}");
    world.assert_complete(what);
}

#[test]
fn a_retry_or_a_block_without_a_request_leads_to_the_next_dispatch_at_its_time_also_after_a_restart() {
    // Within the lease, and beyond it.
    let cases = [OutcomeKind::Retry, OutcomeKind::Blocked]
        .into_iter()
        .flat_map(|kind| [LEASE_MS / 2, 2 * LEASE_MS].map(|after_ms| (kind, after_ms)));
    for ((kind, after_ms), (name, step, trust)) in cases.flat_map(|case| restarts().map(move |then| (case, then))) {
        let what = format!("{kind:?} for {after_ms} ms, {name}, with its index: {trust}");
        let mut world = World::on_disk(None).with_leased(0);
        let at_ms = world.now + after_ms;
        world.answer(kind, 1);
        let outcome = world.outcomes.last_mut().unwrap();
        outcome.requested_at_ms = None;
        (outcome.retry_at_ms, outcome.blocked_until_ms) = (Some(at_ms), Some(at_ms));
        step(&mut world);
        restart(&mut world, trust);
        world.now = at_ms - 1;
        world.settle();
        assert_eq!((world.records.len(), world.in_flight.len()), (2, 0), "{what}: one new record, no dispatch yet");
        world.now = at_ms;
        world.settle();
        let next: Vec<_> =
            world.in_flight.iter().map(|next| (next.dispatched_at_ms, next.attempt, next.blocks)).collect();
        assert_eq!((world.records.len(), next), (2, vec![(at_ms, 1, 0)]), "{what}");
        assert_ends(&mut world, &what);
    }
}

#[test]
fn a_url_that_was_found_nearer_during_its_fetch_is_dispatched_without_delay_after_a_restart() {
    for (name, step, trust) in restarts() {
        let what = format!("{name}, with its index: {trust}");
        let mut world = World::on_disk(None).with_leased(64);
        world.end(OutcomeKind::Retry);
        world.pass(1000);
        assert_eq!((world.in_flight[0].context.depth, world.in_flight[0].attempt), (1, 2), "{what}");
        // Discovered again at a lesser depth.
        world.admit_again(8);
        world.settle();
        let fast = fetch_ahead(&mut world);
        step(&mut world);
        restart(&mut world, trust);
        assert_eq!(world.records.len(), 4, "{what}: one new record");
        let next: Vec<_> =
            world.in_flight.iter().map(|next| (next.context.depth, next.attempt, next.written_at_ms)).collect();
        assert_eq!(next, [(0, 1, fast)], "{what}");
        assert_ends(&mut world, &what);
    }
}

#[test]
fn a_copy_that_was_admitted_before_the_tombstone_of_its_url_ends_without_another_dispatch_after_a_restart() {
    // Killed before the copy is read, before the tombstone is read, and before the tombstone of the copy is read.
    for (steps, trust) in (0..3).flat_map(|steps| [false, true].map(|trust| (steps, trust))) {
        let what = format!("{steps} records after the copy, with its index: {trust}");
        let mut world = World::on_disk(None).with_leased(0);
        world.answer(OutcomeKind::Fetched, 1);
        world.cut(0, steps);
        restart(&mut world, trust);
        assert_eq!((world.frontier.load().1, world.scheduled.len()), (0, 1), "{what}: leased, dispatched");
        assert_eq!(world.ended.len(), 1, "{what}");
        world.assert_complete(&what);
    }
}
