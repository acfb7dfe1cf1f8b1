//! Sleeping URLs that sitemaps list as modified.

use std::collections::BTreeMap;

use orbweaver_messages::{DiscoveryKind, Millis, OutcomeKind, RevisitPolicy};

use crate::world::World;

const HOUR_MS: Millis = 3_600_000;
const POLICY: RevisitPolicy =
    RevisitPolicy { interval_ms: 24 * HOUR_MS as u64, max_interval_ms: 240 * HOUR_MS as u64, types: BTreeMap::new() };

/// Returns a world with a URL that sleeps after its first visit.
fn asleep(on_disk: bool) -> World {
    let mut world = World::with_revisits(POLICY, on_disk).with_leased(0);
    world.end(OutcomeKind::Fetched);
    assert!(world.in_flight.is_empty());
    world
}

/// Lists the last URL as modified at this time. Returns the number of the visit if it is visited at once.
fn list(world: &mut World, modified_ms: Millis) -> Option<u32> {
    let mut update = world.known(0).unwrap();
    update.context.sighting = DiscoveryKind::Update;
    update.context.listed_modified_ms = Some(modified_ms);
    world.find(update);
    world.settle();
    world.in_flight.first().map(|dispatch| dispatch.context.visit)
}

#[test]
fn a_sleeping_url_is_visited_at_once_if_it_is_listed_as_modified_since_its_last_visit() {
    for on_disk in [false, true] {
        let mut world = asleep(on_disk);
        let visited_ms = world.now;
        world.now += HOUR_MS;
        assert_eq!(list(&mut world, visited_ms - 1), None, "its last visit has seen that version");
        assert_eq!(list(&mut world, visited_ms + 1), Some(1));
        let dispatch = &world.in_flight[0];
        assert_eq!(dispatch.context.sighting, DiscoveryKind::Link);
        assert_eq!(dispatch.context.listed_modified_ms, Some(visited_ms + 1));
        assert!(dispatch.visited_at_ms.is_some_and(|at| (visited_ms - 1000..=visited_ms).contains(&at)));
        world.end(OutcomeKind::Fetched);
        assert!(world.in_flight.is_empty(), "once");
        assert_eq!(list(&mut world, visited_ms + 1), None);
        // After a restart as well.
        world.crash(on_disk);
        world.pass(1);
        assert!(world.in_flight.is_empty());
        let modified_ms = world.now;
        assert_eq!(list(&mut world, modified_ms), Some(2));
    }
}

#[test]
fn an_update_does_not_shorten_the_delay_of_a_retry_or_restore_its_attempts() {
    for before_first_page in [true, false] {
        let mut world = World::with_revisits(POLICY, false).with_leased(0);
        if !before_first_page {
            world.end(OutcomeKind::Fetched);
            world.now += 48 * HOUR_MS;
            world.settle();
        }
        world.end(OutcomeKind::Retry);
        let modified_ms = world.now;
        assert_eq!(list(&mut world, modified_ms), None);
        world.pass(HOUR_MS);
        let dispatch = &world.in_flight[0];
        assert_eq!((dispatch.attempt, dispatch.context.listed_modified_ms), (2, Some(modified_ms)));
    }
}

#[test]
fn a_site_that_lists_unchanged_pages_as_modified_is_soon_ignored() {
    let mut world = asleep(false);
    let mut visits = 0;
    for _ in 0..50 {
        world.now += 10;
        let modified_ms = world.now;
        if list(&mut world, modified_ms).is_some() {
            visits += 1;
            world.now += 10;
            world.end(OutcomeKind::Fetched);
        }
    }
    assert_eq!(visits, 10);
    assert!(world.frontier.take_updates().refuted >= 9, "a page may change in this time");
}

#[test]
fn an_update_that_is_read_while_its_url_is_visited_causes_no_further_visit() {
    let mut world = asleep(false);
    world.now += HOUR_MS;
    let modified_ms = world.now;
    assert_eq!(list(&mut world, modified_ms), Some(1));
    world.now += 1;
    assert_eq!(list(&mut world, modified_ms), Some(1));
    world.now += 1;
    world.end(OutcomeKind::Fetched);
    assert!(world.in_flight.is_empty());
}

#[test]
fn an_update_of_a_url_that_the_frontier_does_not_know_queues_it() {
    for on_disk in [false, true] {
        let mut world = World::with_revisits(POLICY, on_disk);
        let mut update = world.new_url(0, "");
        update.context.sighting = DiscoveryKind::Update;
        world.find(update);
        if on_disk {
            // It is restored from the log.
            world.crash(false);
        }
        world.settle();
        let dispatch = &world.in_flight[0];
        assert_eq!((dispatch.context.visit, dispatch.context.sighting), (0, DiscoveryKind::Link));
    }
}
