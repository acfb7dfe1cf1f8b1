//! Random schedules of records, outcomes, time and crashes for one partition of the frontier.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod attempts;
mod definitions;
mod listed;
mod ops;
mod renewed;
mod restored;
mod revisits;
mod site_cap;
mod world;

use definitions::CRAWL;
use ops::{Op, op};
use orbweaver_frontier::FrontierConfig;
use orbweaver_messages::{Dispatch, LEASE_MS, Millis, OutcomeKind};
use orbweaver_patterns::{BUDGET, HARD_LIMIT};
use proptest::prelude::*;
use world::World;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_url_ends_and_every_origin_completes_once_whatever_happens(ops in prop::collection::vec(op(), 1..120)) {
        let mut world = World::new(None);
        ops.iter().filter(|op| !matches!(op, Op::Again(_) | Op::Cut(..))).for_each(|op| world.play(op));
        world.finish();
        world.assert_complete("");
        prop_assert_eq!(world.ended.len(), world.admitted as usize);
        prop_assert!(world.ended.values().all(|times| *times == 1), "a tombstone was written twice without a second record");
    }

    #[test]
    fn a_cap_is_reached_exactly(pages in 1..40u64, kinds in prop::collection::vec(any::<bool>(), 80)) {
        let mut world = World::new(Some(pages));
        (0..200).for_each(|site| world.admit(site));
        world.settle();
        let mut fetched = 0;
        for ok in kinds.into_iter().chain(std::iter::repeat_n(true, 100)) {
            if world.in_flight.is_empty() {
                break;
            }
            fetched += u64::from(ok);
            world.end(if ok { OutcomeKind::Fetched } else { OutcomeKind::Gone });
            prop_assert!(fetched + world.in_flight.len() as u64 <= pages);
        }
        prop_assert_eq!(fetched, pages);
        prop_assert!(world.in_flight.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn with_an_index_on_disk_the_same_is_decided_as_with_one_in_memory(ops in prop::collection::vec(op(), 1..120)) {
        let (mut memory, mut disk) = (World::new(None), World::on_disk(None));
        // Demotions are lost with an index in memory.
        let floods = ops.iter().any(|op| matches!(op, Op::Flood(_)));
        for op in ops.iter().filter(|op| !floods || !matches!(op, Op::Crash | Op::CrashWithoutIndex | Op::Stale(_))) {
            memory.play(op);
            disk.play(op);
            prop_assert_eq!(&disk.decided, &memory.decided, "after {:?}", op);
            prop_assert_eq!(&disk.incomplete, &memory.incomplete);
            prop_assert_eq!(disk.frontier.load(), memory.frontier.load());
        }
        ops.iter().for_each(|op| disk.play(op));
        disk.finish();
        disk.assert_complete("");
        prop_assert_eq!(disk.ended.len(), disk.admitted as usize);
        for (fingerprint, depth) in &disk.found {
            prop_assert!(disk.asked.get(fingerprint).is_some_and(|asked| asked <= depth), "{fingerprint} at {depth}");
        }
    }
}

#[test]
fn a_tombstone_of_a_former_owner_ends_on_a_restore_no_record_that_came_behind_the_one_that_it_names() {
    for compacted in [false, true] {
        let mut world = World::new(None).with_leased(0);
        world.crash(true);
        world.end(OutcomeKind::Retry);
        assert_eq!(world.records.len(), 2, "re-appended by the current owner");
        // The former owner had an outcome of the first record, and did not know yet that the partition had moved.
        world.bury_late(0);
        assert_eq!(world.records.len(), 3);
        if compacted {
            world.compacted = 1;
        }
        world.crash(true);
        assert_eq!(world.waiting(), 1, "compacted: {compacted}");
        world.settle();
        world.finish();
        assert_eq!((world.waiting(), world.ended.len()), (0, 1));
    }
}

#[test]
fn the_lowest_depth_goes_first_and_first_come_is_first_served_within_it() {
    let mut world = World::new(Some(3));
    for site in [128, 0, 64, 0] {
        world.admit(site);
    }
    world.settle();
    let order: Vec<_> =
        world.in_flight.iter().map(|dispatch| dispatch.context.url.rsplit('/').next().unwrap().to_owned()).collect();
    // All four are of one site; URLs 2 and 4 have depth 0, URL 3 has depth 1, URL 1 has depth 2 and is capped.
    assert_eq!(order, ["2", "4", "3"]);
}

#[test]
fn what_waits_long_is_appended_anew_so_that_a_restart_replays_little() {
    let mut world = World::new(None).with_leased(0);
    world.answer(OutcomeKind::Blocked, 1);
    // The first URL is blocked for a second; meanwhile many others are admitted and end.
    for _ in 0..50 {
        world.admit_and_settle(1);
        world.end(OutcomeKind::Fetched);
    }
    let lowest = world.incomplete[0].first().copied().unwrap();
    assert!(lowest > 8, "the commit point of {} records stays at {lowest}", world.records.len());
}

/// Ends the oldest dispatch as fetched, by a clock that is an hour ahead. Returns the event time of its row.
fn fetch_ahead(world: &mut World) -> Millis {
    let (before, fast) = (world.now, world.now + 3_600_000);
    world.now = fast;
    world.answer(OutcomeKind::Fetched, 1);
    world.now = before;
    // As the stage decodes it.
    let outcome = world.outcomes.pop().unwrap().in_time(before);
    assert_eq!((outcome.ended_at_ms, outcome.event_ms()), (before, fast));
    world.outcomes.push(outcome);
    fast
}

#[test]
fn a_dispatch_carries_the_time_of_the_last_write_of_its_url_across_restarts_and_retries() {
    for (then, restart) in [OutcomeKind::Retry, OutcomeKind::Blocked, OutcomeKind::Deferred]
        .into_iter()
        .flat_map(|kind| [None, Some(true), Some(false)].map(|restart| (kind, restart)))
    {
        let mut world = World::on_disk(None).with_leased(64);
        // Discovered again at a lesser depth, the URL is requested again after it was fetched.
        world.admit_again(8);
        world.settle();
        assert_eq!(world.in_flight[0].written_at_ms, 0);
        let fast = fetch_ahead(&mut world);
        for kind in [then, OutcomeKind::Fetched] {
            world.settle();
            if let Some(trust) = restart {
                world.restart(trust);
                world.now += LEASE_MS;
            }
            world.pass(2_000);
            let carried = world.in_flight.first().map(|dispatch| dispatch.written_at_ms);
            assert_eq!(carried, Some(fast), "{then:?}, {restart:?}, before {kind:?}");
            world.answer(kind, 1);
        }
        world.settle();
        assert_eq!(world.waiting(), 0, "{then:?}, {restart:?}");
    }
}

#[test]
fn a_url_that_is_found_nearer_again_keeps_the_time_of_its_row() {
    type Step = fn(&mut World);
    let find: Step = |world| world.admit_again(8);
    let defer: Step = |world| world.answer(OutcomeKind::Deferred, 1);
    let lose: Step = |world| {
        world.in_flight.clear();
        world.now += LEASE_MS;
    };
    // While it is leased, and while it is queued.
    let orders = [("deferred", [find, defer]), ("lost", [find, lose]), ("queued", [defer, find])];
    // After each step the frontier restarts, with or without its index, after or before it reads what the step wrote.
    let crashes = [None, Some((true, true)), Some((true, false)), Some((false, true)), Some((false, false))];
    for ((name, steps), crash) in orders.into_iter().flat_map(|order| crashes.map(|crash| (order, crash))) {
        let mut world = World::on_disk(None).with_leased(128);
        world.admit_again(8);
        world.settle();
        let fast = fetch_ahead(&mut world);
        world.settle();
        assert_eq!(world.carried(), [(1, fast)]);
        for step in steps {
            step(&mut world);
            if let Some((trust, reads)) = crash {
                if reads {
                    world.settle();
                }
                world.restart(trust);
            }
            world.settle();
        }
        // A deferral whose pause was lost in a crash leads to one more dispatch at the greater depth.
        if world.in_flight.first().is_some_and(|dispatch| dispatch.context.depth > 0) {
            defer(&mut world);
            world.settle();
        }
        world.pass(2_000);
        assert_eq!(world.carried(), [(0, fast)], "{name}, {crash:?}");
        world.end(OutcomeKind::Fetched);
        world.assert_complete(&format!("{name}, {crash:?}"));
    }
}

#[test]
fn a_url_that_is_found_nearer_while_its_outcome_is_being_applied_keeps_the_time_of_its_row() {
    // The frontier is writing a tombstone, or the record at the lesser depth at which the URL was found before.
    for finds in [1, 2] {
        let mut world = World::new(None).with_leased(64 * finds);
        if finds == 2 {
            world.admit_again(8);
            world.settle();
        }
        let fast = fetch_ahead(&mut world);
        let being_written = world.decide().unwrap();
        world.admit_again(8);
        world.settle();
        being_written.into_iter().for_each(|decision| world.carry_out(decision));
        world.settle();
        assert_eq!(world.carried(), [(0, fast)], "{finds}");
        world.end(OutcomeKind::Fetched);
        world.assert_complete(&format!("{finds}"));
    }
}

/// Returns the numbers of the URLs that are dispatched next, each answered immediately.
fn order(world: &mut World, most: usize) -> Vec<u32> {
    let mut order = vec![];
    while order.len() < most
        && let Some(dispatch) = world.in_flight.first()
    {
        order.push(dispatch.context.url.rsplit('/').next().unwrap().parse().unwrap());
        world.end(OutcomeKind::Fetched);
    }
    order
}

#[test]
fn what_is_of_a_pattern_over_its_budget_goes_behind_all_others_of_its_site_and_is_not_lost() {
    for mut world in [World::new(Some(0)), World::on_disk(Some(0))] {
        // URLs of site 1 are in a mode that refuses nothing. Those admitted before their pattern was over its budget
        // keep their place.
        (0..=BUDGET).for_each(|_| world.admit_trap(1 + 128));
        let trap = world.admitted;
        world.settle();
        world.admit_and_settle(1 + 192);
        world.pages.limit(&CRAWL.parse().unwrap(), None);
        world.settle();
        let order = order(&mut world, 1000);
        assert_eq!(order.first(), Some(&(trap + 1)), "the only other one is first, although it is deepest");
        assert_eq!(order.len(), world.admitted as usize);
        // URLs that were re-appended meanwhile are demoted once more.
        let (over_budget, demote) = world.frontier.similar();
        assert!(over_budget == 1 && demote >= u64::from(trap), "{over_budget}, {demote}");
        assert_eq!(world.refused, 0);
    }
}

#[test]
fn what_comes_before_the_back_is_kept_waiting_by_a_quarter_of_the_slots_at_most_also_after_a_restart() {
    for restarts in [false, true] {
        // Twenty slots.
        let config = FrontierConfig { default_interval_ms: 50, ..world::config() };
        let mut world = World::configured(Some(0), config);
        (0..=BUDGET).for_each(|_| world.admit_trap(1));
        world.settle();
        world.pages.limit(&CRAWL.parse().unwrap(), None);
        world.settle();
        for _ in 0..30 {
            world.end(OutcomeKind::Fetched);
        }
        assert_eq!(world.in_flight.len(), 20, "there is nothing but the demoted");
        if restarts {
            world.restart(true);
        }
        (0..30).for_each(|_| world.admit(1));
        world.settle();
        let is_trap = |dispatch: &Dispatch| dispatch.context.url.contains("/trap/");
        let before: Vec<_> = world.in_flight.iter().skip(20).collect();
        assert!(before.len() == 15 && !before.into_iter().any(&is_trap));
        while let Some(first) = world.in_flight.iter().position(|dispatch| !is_trap(dispatch)) {
            world.in_flight.swap(0, first);
            world.end(OutcomeKind::Fetched);
            let demoted = world.in_flight.iter().filter(|dispatch| is_trap(dispatch)).count();
            assert_eq!(demoted, 20, "demoted URLs continue when nothing else is queued and a slot is free");
        }
        let left = order(&mut world, 1000).len();
        assert!(left > 100 && world.waiting() == 0, "{left}");
    }
}

#[test]
fn beyond_the_hard_limit_what_its_pattern_led_to_is_refused_and_counted_in_a_crawl_that_is_strict() {
    let mut world = World::new(Some(0));
    (0..HARD_LIMIT).for_each(|_| world.admit_trap(2 + 64));
    (0..HARD_LIMIT).for_each(|_| world.admit_trap(2 + 128));
    world.settle();
    world.pages.limit(&CRAWL.parse().unwrap(), None);
    world.settle();
    let fetched = order(&mut world, 1000).len();
    assert_eq!((fetched, world.refused), (HARD_LIMIT as usize, HARD_LIMIT as u32), "one half was passed once only");
    world.assert_complete("");
}
