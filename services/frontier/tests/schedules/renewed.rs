//! URLs whose last record in the log is not the queued one, and restarts before that one is appended again.

use orbweaver_messages::{LEASE_MS, OutcomeKind};

use crate::world::World;

/// Loses all dispatches, and lets their leases expire.
fn lose_all(world: &mut World) {
    world.in_flight.clear();
    world.now += LEASE_MS;
}

/// Asserts that the only URL ends, and that its least depth was that of a request.
fn assert_asked_at(world: &mut World, depth: u16, what: &str) {
    assert_eq!(world.waiting(), 1, "{what}");
    world.finish();
    let asked: Vec<u16> = world.asked.values().copied().collect();
    assert_eq!(asked, [depth], "{what}");
    world.assert_complete(what);
}

#[test]
fn a_lesser_depth_that_a_record_of_a_greater_one_follows_survives_any_number_of_restarts() {
    for trust in [false, true] {
        let what = format!("with its index: {trust}");
        let mut world = World::on_disk(None).with_leased(64);
        lose_all(&mut world);
        // Discovered again, one deeper.
        world.admit_again(16);
        world.lose_decisions();
        for _ in 0..2 {
            world.restart(trust);
            assert_eq!(world.incomplete[0].first(), Some(&0), "{what}: the commit point passed the lesser depth");
        }
        world.settle();
        assert_eq!(world.records.len(), 3, "{what}: appended again");
        lose_all(&mut world);
        // The last record of the URL remains, and its index is lost.
        world.compacted = 1;
        world.crash(false);
        assert_asked_at(&mut world, 1, &what);
    }
}

#[test]
fn a_url_that_was_found_nearer_before_its_tombstone_survives_a_restart_behind_that_tombstone() {
    for trust in [false, true] {
        let what = format!("with its index: {trust}");
        let mut world = World::on_disk(None).with_leased(128);
        world.answer(OutcomeKind::Fetched, 1);
        let ended = world.decide().unwrap();
        world.admit_again(8);
        world.settle();
        ended.into_iter().for_each(|decision| world.carry_out(decision));
        world.lose_decisions();
        world.restart(trust);
        world.settle();
        assert_eq!(world.records.len(), 4, "{what}: appended again");
        // The tombstone came after both earlier records of the URL.
        world.compacted = 3;
        world.crash(false);
        assert_asked_at(&mut world, 1, &what);
    }
}

#[test]
fn a_record_of_a_greater_depth_does_not_pass_for_the_retry_that_is_being_written() {
    let mut world = World::on_disk(None).with_leased(64);
    world.answer(OutcomeKind::Retry, 1);
    world.lose_decisions();
    // Discovered again, one deeper, before the retry is in the log, which it will never be.
    world.admit_again(16);
    world.lose_decisions();
    world.restart(true);
    world.settle();
    world.compacted = 2;
    world.crash(false);
    assert_asked_at(&mut world, 1, "after a retry that was not written");
}
