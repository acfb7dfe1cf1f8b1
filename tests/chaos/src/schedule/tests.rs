//! Schedules are deterministic and feasible.

use super::*;

fn extent(brokers: u8) -> Extent {
    Extent { brokers, long: false, stretch: 1, instances: 1, faults: Faults::All }
}

#[test]
fn a_seed_gives_the_same_schedule_always_and_another_seed_another() {
    for seed in 0..200 {
        assert_eq!(schedule(seed, extent(3)), schedule(seed, extent(3)));
        assert_ne!(schedule(seed, extent(3)), schedule(seed + 1, extent(3)));
    }
}

#[test]
fn every_service_is_killed_frozen_drained_and_added_to_and_every_server_goes_away() {
    for (seed, brokers) in (0..200_u64).zip([1, 3].into_iter().cycle()) {
        let steps = schedule(seed, extent(brokers));
        let count = |kind: &str| steps.iter().filter(|step| step.fault.kind() == kind).count();
        let of_instances = ["kill", "freeze", "drain", "add", "remove", "no_fetchers", "cut_off", "out_of_memory"];
        assert_eq!(of_instances.map(count), [5, 5, 5, 5, 3, 1, 2, 1], "seed {seed}");
        let clock = if seed.is_multiple_of(2) { "clock_ahead" } else { "clock_back" };
        let of_all = ["broker", "cql", "cut", "slow", "pause", "delete", "disk_full", clock];
        assert_eq!(of_all.map(count), [usize::from(brokers), 1, 1, 1, 1, 1, 1, 1], "seed {seed}");
        for number in 1..=brokers {
            assert!(steps.iter().any(|step| matches!(step.fault, Fault::Broker { node, .. } if node == number)));
        }
        assert!(steps.is_sorted_by_key(|step| step.at_ms));
        assert!(steps.last().unwrap().at_ms < 200_000, "seed {seed}");
    }
}

#[test]
fn nobody_is_disturbed_who_is_not_there_and_each_service_has_an_instance_at_the_end() {
    for seed in 0..200 {
        let mut there: Vec<_> = Service::ALL.into_iter().map(|service| Slot { service, number: 1 }).collect();
        for step in schedule(seed, extent(3)) {
            match step.fault {
                Fault::Add { slot } => {
                    assert!(!there.contains(&slot));
                    there.push(slot);
                }
                Fault::Remove { slot } => {
                    assert!(there.contains(&slot));
                    there.retain(|other| *other != slot);
                }
                Fault::Kill { slot, .. }
                | Fault::Freeze { slot, .. }
                | Fault::Drain { slot, .. }
                | Fault::OutOfMemory { slot, .. }
                | Fault::CutOff { slot, .. } => {
                    assert!(there.contains(&slot), "seed {seed}: {}", step.fault);
                }
                _ => {}
            }
        }
        assert!(Service::ALL.iter().all(|service| there.iter().any(|slot| slot.service == *service)));
    }
}

#[test]
fn a_freeze_is_longer_than_a_session_and_a_long_schedule_outlasts_a_lease() {
    let steps = schedule(3, Extent { long: true, ..extent(3) });
    for step in &steps {
        match step.fault {
            Fault::Freeze { for_ms, .. } | Fault::CutOff { for_ms, .. } => {
                assert!(u128::from(for_ms) > SESSION.as_millis());
            }
            Fault::Clock { for_ms, .. } => assert!(for_ms > CLOCK_TOLERATED_MS),
            Fault::Outages { times, for_ms, .. } => assert!(times == 3 && for_ms > 60_000),
            Fault::NoFetchers { away_ms } => {
                assert!(away_ms > orbweaver_messages::LEASE_MS.unsigned_abs());
            }
            _ => {}
        }
    }
}

#[test]
fn clocks_are_set_right_again_unless_processes_worked_ahead_of_the_right_time() {
    let clock = |seed, long| {
        let steps = schedule(seed, Extent { long, ..extent(3) });
        steps.into_iter().map(|step| step.fault).find(|fault| matches!(fault, Fault::Clock { .. })).unwrap()
    };
    for (seed, ahead) in [(1, false), (2, true)] {
        assert_eq!(clock(seed, false), Fault::Clock { ahead, for_ms: CLOCK_MS, returns: true });
        assert_eq!(clock(seed, true), Fault::Clock { ahead, for_ms: LONG_CLOCK_MS, returns: !ahead });
    }
}

#[test]
fn a_schedule_that_is_stretched_has_the_same_faults_over_a_longer_time() {
    let (short, long) = (schedule(5, extent(3)), schedule(5, Extent { stretch: 20, ..extent(3) }));
    let kinds = |steps: &[Step]| {
        let mut kinds: Vec<_> = steps.iter().map(|step| step.fault.kind()).collect();
        kinds.sort_unstable();
        kinds
    };
    assert_eq!(kinds(&short), kinds(&long));
    assert!(long.last().unwrap().at_ms > 10 * short.last().unwrap().at_ms);
}

#[test]
fn faults_of_processes_alone_are_those_of_the_whole_schedule_on_as_many_instances_as_there_are() {
    let three = Extent { instances: 3, ..extent(3) };
    for seed in 0..50 {
        let (all, processes) = (schedule(seed, three), schedule(seed, Extent { faults: Faults::Processes, ..three }));
        assert!(processes.iter().all(|step| all.contains(step)));
        let count = |kind: &str| processes.iter().filter(|step| step.fault.kind() == kind).count();
        let kinds = ["kill", "freeze", "drain", "add", "remove", "delete"];
        assert_eq!(kinds.map(count), [5, 5, 5, 5, 3, 1], "seed {seed}");
        assert_eq!(processes.len(), 24);
        let added = processes.iter().filter_map(|step| match step.fault {
            Fault::Add { slot } => Some(slot.number),
            _ => None,
        });
        assert!(added.min() == Some(4));
        assert_eq!(schedule(seed, Extent { faults: Faults::None, ..three }).len(), 1);
    }
}
