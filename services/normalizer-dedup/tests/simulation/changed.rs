//! Changes of a crawl's definition while links arrive.

use orbweaver_messages::{CrawlDefinition, Scope, crawl_key, decode, encode, topic};
use orbweaver_normalizer_dedup::{DedupStats, LinkOutcome};
use std::sync::Arc;

use crate::world::{End, Life, World, fingerprint};

/// Creates a running crawl with its process.
fn begun(max_depth: Option<u16>) -> (World, Life, Arc<DedupStats>) {
    let world = World::defined(4, Scope::Any, max_depth);
    let life = Life::begin(&world);
    let tally = life.stage.tally();
    (world, life, tally)
}

/// Writes a changed definition, and lets the process read it.
fn redefine(world: &mut World, life: &mut Life, change: impl FnOnce(&mut CrawlDefinition)) {
    write_changed(world, change);
    assert_eq!(life.run(world, usize::MAX), End::Idle);
}

/// Writes a changed definition.
pub(crate) fn write_changed(world: &mut World, change: impl FnOnce(&mut CrawlDefinition)) {
    let last = world.records(topic::CONTROL).filter(|record| record.key.as_deref() == Some(b"crawl/default")).last();
    let mut definition: CrawlDefinition =
        decode("crawl-definition", last.and_then(|record| record.value.as_ref())).expect("a definition");
    change(&mut definition);
    world.put(topic::CONTROL, 0, &crawl_key(&"default".parse().expect("a name")), encode(&definition));
}

fn found(world: &mut World, life: &mut Life, depth: u16, urls: &[&str]) {
    world.links("example.org", depth, urls);
    assert_eq!(life.run(world, usize::MAX), End::Idle);
}

fn passed(world: &World) -> Vec<(String, u16, u64)> {
    let path = |url: &str| url.trim_start_matches("https://example.org").to_owned();
    world
        .waiting()
        .iter()
        .map(|waiting| (path(&waiting.context.url), waiting.context.depth, waiting.definition))
        .collect()
}

#[test]
fn links_are_decided_by_the_definition_that_was_read_last_and_say_so() {
    let (mut world, mut life, tally) = begun(None);
    found(&mut world, &mut life, 1, &["https://example.org/a", "https://example.org/private/b"]);
    redefine(&mut world, &mut life, |definition| definition.exclude = vec!["/c".to_owned()]);
    found(
        &mut world,
        &mut life,
        1,
        &["https://example.org/private/b", "https://example.org/c", "https://example.org/a"],
    );
    assert_eq!(passed(&world), [("/a".to_owned(), 1, 0), ("/private/b".to_owned(), 1, 1)]);
    assert_eq!((tally.get(LinkOutcome::Excluded), tally.get(LinkOutcome::Duplicate)), (2, 1));
    assert!(world.is_complete() && world.rejected.is_empty());
}

#[test]
fn what_a_limit_of_depth_has_cut_passes_when_it_is_met_again() {
    let (mut world, mut life, tally) = begun(Some(2));
    found(&mut world, &mut life, 3, &["https://example.org/a"]);
    redefine(&mut world, &mut life, |definition| definition.max_depth = Some(3));
    assert_eq!(passed(&world), [], "nothing comes back by itself");
    found(&mut world, &mut life, 3, &["https://example.org/a"]);
    assert_eq!(passed(&world), [("/a".to_owned(), 3, 1)]);
    assert_eq!(tally.get(LinkOutcome::TooDeep), 1);
}

#[test]
fn what_is_known_and_excluded_by_now_does_not_pass_once_more_from_nearer() {
    let (mut world, mut life, tally) = begun(Some(5));
    found(&mut world, &mut life, 4, &["https://example.org/a", "https://example.org/b"]);
    redefine(&mut world, &mut life, |definition| definition.exclude = vec!["/a".to_owned()]);
    found(&mut world, &mut life, 2, &["https://example.org/a", "https://example.org/b"]);
    assert_eq!(passed(&world)[2..], [("/b".to_owned(), 2, 1)]);
    assert_eq!((tally.get(LinkOutcome::Excluded), tally.get(LinkOutcome::Shallower)), (1, 1));
}

#[test]
fn no_link_of_a_stopped_crawl_is_admitted() {
    let (mut world, mut life, tally) = begun(None);
    found(&mut world, &mut life, 1, &["https://example.org/a"]);
    redefine(&mut world, &mut life, |definition| definition.stopped = true);
    found(&mut world, &mut life, 1, &["https://example.org/b", "https://example.org/c"]);
    assert_eq!(passed(&world), [("/a".to_owned(), 1, 0)]);
    assert_eq!(tally.get(LinkOutcome::Stopped), 2);
    assert!(world.is_complete() && world.rejected.is_empty());
}

#[test]
fn a_url_that_was_queued_before_its_crawl_was_stopped_has_an_entry_in_seen_although_its_owner_was_killed() {
    let (mut world, mut life, _) = begun(None);
    world.links("example.org", 1, &["https://example.org/a"]);
    life.deliver(&mut world, usize::MAX);
    while world.waiting().is_empty() {
        life.step(&mut world, 0);
    }
    assert_eq!(world.seen(), [], "it is killed in between");
    drop(life);
    write_changed(&mut world, |definition| definition.stopped = true);
    let mut life = Life::begin(&world);
    assert_eq!(life.run(&mut world, usize::MAX), End::Idle);
    assert!(world.is_complete());
    // What deletes a crawl finds its URLs there.
    let seen: Vec<_> = world.seen().into_iter().map(|entry| entry.fingerprint).collect();
    assert_eq!(seen, [fingerprint("https://example.org/a")]);
}

#[test]
fn a_seed_is_of_the_last_crawl_with_its_name_although_only_the_stop_of_the_first_was_read() {
    let (mut world, mut life, tally) = begun(None);
    redefine(&mut world, &mut life, |definition| definition.stopped = true);
    write_changed(&mut world, |definition| definition.deleted = true);
    world.define("default#2", Scope::Any, None);
    world.seed("https://example.org/a");
    assert!(life.deliver(&mut world, usize::MAX), "before the definitions");
    assert_eq!(life.run(&mut world, usize::MAX), End::Idle);
    let crawls: Vec<_> = world.waiting().into_iter().map(|waiting| waiting.context.crawl).collect();
    assert_eq!((crawls, tally.get(LinkOutcome::Stopped)), (vec!["default#2".parse().expect("a name")], 0));
    assert!(world.is_complete() && world.rejected.is_empty());
}

#[test]
fn a_seed_of_a_stopped_crawl_is_dropped_once_no_other_crawl_has_its_name() {
    let (mut world, mut life, tally) = begun(None);
    redefine(&mut world, &mut life, |definition| definition.stopped = true);
    world.seed("https://example.org/a");
    assert_eq!(life.run(&mut world, usize::MAX), End::Idle);
    assert_eq!((passed(&world), tally.get(LinkOutcome::Stopped)), (vec![], 1));
    assert!(world.is_complete() && world.rejected.is_empty());
}

#[test]
fn a_shallower_sighting_passes_from_when_on_depth_is_limited() {
    let (mut world, mut life, tally) = begun(None);
    found(&mut world, &mut life, 4, &["https://example.org/a"]);
    found(&mut world, &mut life, 3, &["https://example.org/a"]);
    redefine(&mut world, &mut life, |definition| definition.max_depth = Some(9));
    found(&mut world, &mut life, 2, &["https://example.org/a"]);
    assert_eq!(passed(&world), [("/a".to_owned(), 4, 0), ("/a".to_owned(), 2, 1)]);
    assert_eq!((tally.get(LinkOutcome::Duplicate), tally.get(LinkOutcome::Shallower)), (1, 1));
}

#[test]
fn a_crawl_that_was_deleted_pins_nothing() {
    let mut world = World { partitions: 4, ..World::defined(2, Scope::Any, None) };
    world.delete("default");
    world.define("default", Scope::Any, None);
    let mut life = Life::begin(&world);
    found(&mut world, &mut life, 1, &["https://example.org/a"]);
    assert_eq!(passed(&world), [("/a".to_owned(), 1, 2)]);
}

#[test]
fn a_definition_that_cannot_be_used_changes_nothing_and_is_counted() {
    let (mut world, mut life, tally) = begun(None);
    redefine(&mut world, &mut life, |definition| definition.exclude = vec!["(".to_owned()]);
    redefine(&mut world, &mut life, |definition| {
        definition.exclude = vec![];
        definition.pins.canonical_policy = "raw/1".to_owned();
    });
    found(&mut world, &mut life, 1, &["https://example.org/a", "https://example.org/private/b"]);
    assert_eq!(passed(&world), [("/a".to_owned(), 1, 0)]);
    assert!(world.is_complete() && world.rejected.is_empty());
    let registry = prometheus::Registry::new();
    orbweaver_normalizer_dedup::metrics::register(&registry, tally).expect("a registry");
    let families = registry.gather();
    let value =
        |name: &str| families.iter().find(|family| family.name() == name).expect("a metric").get_metric()[0].clone();
    let refused = value(orbweaver_normalizer_dedup::metrics::REFUSED_DEFINITIONS);
    assert_eq!(refused.get_counter().get_value() as u64, 2);
    let version = value(orbweaver_normalizer_dedup::metrics::DEFINITION_VERSION);
    assert_eq!(version.get_gauge().get_value() as u64, 0);
}
