//! Crashes between every two of scope, frontier, seen, index, complete.

use std::collections::BTreeSet;

use orbweaver_messages::{Scope, topic};
use orbweaver_normalizer_dedup::{Config, IndexKind};

use crate::world::{End, Life, World, fingerprint};

fn world() -> World {
    let mut world = World::defined(2, Scope::Host, None);
    world.seed("example.org/docs");
    world.seed("https://example.net/");
    world.links("example.org", 1, &["https://example.org/a", "https://example.org/b#x", "https://other.example.org/"]);
    world.links("example.org", 1, &["https://example.org/b", "https://example.org/%61", "https://example.org/c"]);
    world.links("example.org", 1, &["https://example.org/c", "https://example.org/private/"]);
    world.links("example.net", 2, &["https://example.net/", "https://example.net/d", "https://example.net/d"]);
    world.links("example.org", 1, &["https://example.org/a", "https://example.org/b", "https://example.org/c"]);
    // The links are on pages of the seeds, whose scope entries were in the log before those were fetched.
    for host in ["example.org", "example.net"] {
        let entry = format!("{{\"crawl\":\"default\",\"entry\":\"{host}\"}}");
        world.put(topic::CONTROL, 0, &format!("scope/default/{host}"), entry);
    }
    world
}

/// Expected admissions. In this world links are judged after the seeds' plans, except where a crash makes no
/// difference, since the seeds come first in each partition.
const WANTED: [&str; 6] = [
    "https://example.org/docs",
    "https://example.net/",
    "https://example.org/a",
    "https://example.org/b",
    "https://example.org/c",
    "https://example.net/d",
];

fn crash_everywhere(index: IndexKind, keep_index: bool) {
    let mut crashes = 0;
    for kill_after in 0.. {
        let mut world = World { settings: Config { index, ..Config::default() }, ..world() };
        let killed = Life::begin(&world).run(&mut world, kill_after) == End::Killed;
        crashes += usize::from(killed);
        let seen_then: BTreeSet<_> = world.seen().iter().map(|entry| entry.fingerprint).collect();
        let passes_then = world.passes();
        if !keep_index {
            world.delete_index();
        }
        let mut life = Life::begin(&world);
        assert_eq!(life.run(&mut world, usize::MAX), End::Idle);
        assert!(world.is_complete(), "killed after {kill_after} steps");
        let passes = world.passes();
        assert_eq!(passes.keys().map(String::as_str).collect::<BTreeSet<_>>(), BTreeSet::from(WANTED));
        for (url, count) in &passes {
            let before = passes_then.get(url).copied().unwrap_or_default();
            assert!(*count <= 2, "{url} passed {count} times");
            if seen_then.contains(&fingerprint(url)) {
                assert_eq!(*count, before, "{url} was in `seen` and passed again");
            }
        }
        let seen: BTreeSet<_> = world.seen().iter().map(|entry| entry.fingerprint).collect();
        assert_eq!(seen, WANTED.into_iter().map(fingerprint).collect());
        if !killed {
            break;
        }
    }
    assert!(crashes >= 8, "{crashes} crashes");
}

#[test]
fn a_crash_between_any_two_writes_loses_nothing_and_repeats_only_what_was_not_seen() {
    crash_everywhere(IndexKind::Exact, true);
}

#[test]
fn a_crash_that_takes_the_index_along_changes_nothing() {
    crash_everywhere(IndexKind::Exact, false);
    crash_everywhere(IndexKind::Bloom, false);
}

#[test]
fn records_completed_before_a_crash_admit_nothing_when_they_are_delivered_again() {
    let mut world = world();
    assert_eq!(Life::begin(&world).run(&mut world, usize::MAX), End::Idle);
    let (passes, seen) = (world.passes(), world.seen().len());
    // Nothing was committed: everything is delivered again.
    world.completed.clear();
    assert_eq!(Life::begin(&world).run(&mut world, usize::MAX), End::Idle);
    // The seeds were forwarded again, and recognized as known.
    assert_eq!((world.passes(), world.seen().len()), (passes, seen));
    assert!(world.is_complete());
}
