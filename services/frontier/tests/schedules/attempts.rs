//! Costs of attempts (docs/protocol.md#attempts), and URLs whose dispatches are lost.

use orbweaver_messages::{Dispatch, LEASE_MS, Millis, OutcomeKind};

use crate::{restored::restart, world::World};

const HOUR_MS: Millis = 3_600_000;

/// Makes a dispatch of this site the oldest one.
fn put_first(world: &mut World, site: &str) {
    let index = world.in_flight.iter().position(|dispatch| dispatch.context.site == site).unwrap();
    world.in_flight.swap(0, index);
}

/// Lets a URL of another site be dispatched, and ends it with an outcome of this kind.
fn another_is(world: &mut World, kind: OutcomeKind) {
    world.admit_and_settle(1);
    put_first(world, "1.example");
    world.end(kind);
}

/// Loses the dispatch of the only URL of site 0, and returns it.
fn lose(world: &mut World) -> Dispatch {
    put_first(world, "0.example");
    world.in_flight.remove(0)
}

/// Loses the dispatch of the only URL of site 0 while one of another site is fetched, and lets its lease expire.
/// Returns the dispatch.
fn lose_and_expire(world: &mut World) -> Dispatch {
    let lost = lose(world);
    another_is(world, OutcomeKind::Fetched);
    world.pass(LEASE_MS);
    lost
}

/// Ends the dispatch of the only URL of site 0 with an outcome of this kind, after a request or without one. The
/// outcome is not handled yet.
fn end(world: &mut World, kind: OutcomeKind, requested: bool) {
    put_first(world, "0.example");
    world.answer(kind, 1);
    let requested_at_ms = requested.then_some(world.now);
    world.outcomes.last_mut().unwrap().requested_at_ms = requested_at_ms;
}

#[test]
fn leases_that_run_out_while_the_fetchers_are_away_cost_no_attempt_although_rate_limiters_defer_meanwhile() {
    let mut world = World::new(None).with_leased(0);
    for _ in 0..30 {
        let lost = lose(&mut world);
        assert_eq!((lost.attempt, lost.last_attempt), (1, false));
        another_is(&mut world, OutcomeKind::Deferred);
        world.in_flight.retain(|dispatch| dispatch.context.site != "1.example");
        world.pass(LEASE_MS);
    }
    assert!(world.given_up.is_empty() && world.ended.is_empty());
    world.finish();
    assert_eq!(world.ended.len(), world.admitted as usize);
}

#[test]
fn a_lost_dispatch_costs_no_attempt_although_later_ones_are_answered() {
    let mut world = World::new(None).with_leased(0);
    for _ in 0..9 {
        assert_eq!(lose_and_expire(&mut world).attempt, 1);
    }
    assert!(world.given_up.is_empty());
    // An answer resets the count.
    another_is(&mut world, OutcomeKind::Fetched);
    world.end(OutcomeKind::Retry);
    world.pass(1000);
    for _ in 0..9 {
        assert_eq!(lose_and_expire(&mut world).attempt, 2, "one request was made");
    }
    assert!(world.given_up.is_empty());
    world.finish();
    assert_eq!(world.ended.len(), world.admitted as usize);
}

#[test]
fn the_count_of_lost_dispatches_survives_restarts_in_every_state_of_the_url() {
    // What happens to each dispatch before the one that is lost.
    let states = [
        ("leased", None),
        ("queued after a deferral", Some(OutcomeKind::Deferred)),
        ("delayed after a retry", Some(OutcomeKind::Retry)),
        ("delayed by a block", Some(OutcomeKind::Blocked)),
    ];
    for ((name, kind), trust) in states.into_iter().flat_map(|state| [false, true].map(|trust| (state, trust))) {
        let what = format!("{name}, with its index: {trust}");
        let mut world = World::on_disk(None).with_leased(0);
        for lost in 0..10 {
            assert!(world.given_up.is_empty(), "{what}: after {lost} of ten");
            if let Some(kind) = kind {
                end(&mut world, kind, false);
                world.settle();
            }
            restart(&mut world, trust);
            world.pass(1000);
            assert_eq!(lose(&mut world).attempt, 1, "{what}");
            another_is(&mut world, OutcomeKind::Fetched);
            restart(&mut world, trust);
            // The lease ends, and the frontier restarts before it reads its own record.
            world.now += LEASE_MS;
            assert!(world.step());
            restart(&mut world, trust);
        }
        assert_eq!(world.given_up, ["http://0.example/1"], "{what}");
        let stuck = world.outcomes.iter().rfind(|outcome| outcome.context.site == "0.example").unwrap();
        assert_eq!((stuck.kind, stuck.reason.as_deref()), (OutcomeKind::Gone, Some("stuck")), "{what}");
        assert!(world.in_flight.is_empty(), "{what}");
        // It has ended, so that completion can be proven.
        world.assert_complete(&what);
    }
}

#[test]
fn a_deferral_resets_the_count_of_lost_dispatches_only_after_a_request() {
    // After the deferral the frontier restarts, with or without its index, when it has handled the outcome or when its
    // decisions are lost.
    let crashes = [None, Some((false, false)), Some((false, true)), Some((true, false)), Some((true, true))];
    for (requested, crash) in [false, true].into_iter().flat_map(|requested| crashes.map(|crash| (requested, crash))) {
        let mut world = World::on_disk(None).with_leased(0);
        for _ in 0..9 {
            lose_and_expire(&mut world);
        }
        // Without a request: by a rate-limiter, or by a fetcher that has returned from a crash.
        end(&mut world, OutcomeKind::Deferred, requested);
        if crash.is_none_or(|(_, handles)| handles) {
            world.settle();
        } else {
            world.lose_decisions();
        }
        if let Some((trust, _)) = crash {
            restart(&mut world, trust);
        }
        world.pass(1000);
        lose_and_expire(&mut world);
        assert_eq!(world.given_up.is_empty(), requested, "after a request: {requested}, {crash:?}");
        world.finish();
        assert_eq!(world.ended.len(), world.admitted as usize, "after a request: {requested}, {crash:?}");
    }
}

#[test]
fn a_record_has_a_count_of_lost_dispatches_only_while_there_are_any() {
    let mut world = World::new(None).with_leased(0);
    let count = |world: &World| world.records.iter().rev().find_map(|(_, record)| record.as_ref().ok()).unwrap().lost;
    lose(&mut world);
    world.pass(LEASE_MS);
    assert_eq!(world.records.len(), 1, "no later dispatch was answered: nothing is written");
    lose_and_expire(&mut world);
    assert_eq!(count(&world), 1);
    end(&mut world, OutcomeKind::Deferred, true);
    world.settle();
    assert_eq!(count(&world), 0);
    let written = world.records.len();
    world.pass(1000);
    end(&mut world, OutcomeKind::Deferred, true);
    world.settle();
    assert_eq!(world.records.len(), written, "a deferral that resets nothing is not written");
}

#[test]
fn a_clock_that_jumps_by_an_hour_ends_leases_and_no_url() {
    let mut world = World::new(None).with_leased(0);
    for _ in 0..30 {
        another_is(&mut world, OutcomeKind::Fetched);
        let early = lose(&mut world);
        world.pass(HOUR_MS);
        let again = world.in_flight.last().unwrap().clone();
        assert_eq!((again.context.url, again.attempt), (early.context.url.clone(), 1));
        // Now the answer to the dispatch whose lease expired early arrives. It must not count, since its attempt is not
        // current.
        world.in_flight.insert(0, early);
        world.end(OutcomeKind::Retry);
        // Then the answer to the current one arrives: no request was made.
        world.end(OutcomeKind::Deferred);
        world.pass(1000);
    }
    world.end(OutcomeKind::Fetched);
    assert!(world.given_up.is_empty());
    assert_eq!(world.ended.len(), world.admitted as usize);
}
