//! Records whose crawl is not yet defined.

use orbweaver_messages::{CrawlDefinition, Scope, Traps, decode, topic};
use orbweaver_normalizer_dedup::{Config, NormalizerDedup};
use orbweaver_stage::Stage;

use crate::world::{Life, World};

/// Advances time, with ticks, without reading.
fn pass(life: &mut Life, world: &mut World, hours: usize) {
    for _ in 0..hours {
        life.now += 3_600_000;
        life.call(world, NormalizerDedup::tick);
    }
}

#[test]
fn an_unknown_crawl_is_rejected_behind_an_end_of_control_requested_after_the_record_came_and_never_by_time() {
    let mut world = World::new(4);
    let mut life = Life::begin(&world);
    // Defined before its seed arrives; but `crawl.control` is slow or unavailable.
    world.define("default", Scope::Any, None);
    world.seed("https://example.org/");
    world.links("example.org", 1, &["https://example.org/a"]);
    while life.deliver(&mut world, 1) {}
    pass(&mut life, &mut world, 24);
    assert_eq!(world.rejected, [], "the end of the log is not known to be read");
    assert_eq!((life.stage.due(life.now), life.stage.next_tick()), (0, None), "it is the log that is slow");
    assert!(!life.refresh(&mut world), "below the end is a record that was not read");
    life.run(&mut world, usize::MAX);
    assert!(world.is_complete() && world.rejected.is_empty());
    assert_eq!(world.passes().len(), 2);

    // The refresh of an earlier record proves nothing for a later one.
    for seed in 0..2 {
        world.seed(&format!(r#"{{"url":"https://example.org/{seed}","crawl":"nowhere"}}"#));
        life.deliver(&mut world, 1);
    }
    assert_eq!(life.refreshes.len(), 2);
    assert!(life.refresh(&mut world));
    assert_eq!(world.rejected, [], "its grace time runs");
    pass(&mut life, &mut world, 1);
    assert_eq!(world.rejected.len(), 1);
    pass(&mut life, &mut world, 24);
    assert_eq!(world.rejected.len(), 1);
    assert!(life.refresh(&mut world));
    assert_eq!(world.rejected.len(), 2, "its grace time was over before");
    assert!(world.is_complete());
}

#[test]
fn a_definition_that_cannot_be_used_rejects_only_when_none_that_can_be_is_behind_it() {
    for repaired in [true, false] {
        let mut world = World::new(4);
        let mut life = Life::begin(&world);
        world.put(topic::CONTROL, 0, "crawl/default", &b"{}"[..]);
        assert!(life.receive_tailed(&mut world));
        if repaired {
            world.define("default", Scope::Any, None);
        }
        world.seed("https://example.org/");
        assert!(life.deliver(&mut world, 1));
        assert_eq!(world.rejected, [], "it was not read to its end");
        life.run(&mut world, usize::MAX);
        let reasons: Vec<_> = world.rejected.iter().map(|(_, _, reason)| reason.as_str()).collect();
        match repaired {
            true => assert_eq!((reasons.len(), world.passes().len()), (0, 1)),
            false => {
                assert!(
                    reasons[0].starts_with("the definition of the crawl `default` cannot be used: "),
                    "{reasons:?}"
                );
            }
        }
        assert!(world.is_complete());
    }
}

const GRACE_MS: i64 = 5_000;

/// Returns the settings of a process that creates the default crawl.
fn creating() -> Config {
    Config {
        creates_default_crawl: true,
        default_scope: Scope::Any,
        default_exclude: vec!["/private/".into()],
        default_max_depth: Some(3),
        default_max_pages: Some(1_000),
        default_traps: Traps::Strict,
        default_canonical: "aggressive".parse().expect("a policy"),
        definition_grace_ms: GRACE_MS,
        ..Config::default()
    }
}

/// Calls the stage at this time.
fn tick_at(life: &mut Life, world: &mut World, now: i64) {
    life.now = now - 1;
    life.call(world, NormalizerDedup::tick);
}

#[test]
fn the_default_crawl_is_created_once_nobody_else_has_and_its_seeds_go_on_then() {
    let mut world = World { settings: creating(), ..World::new(1) };
    world.seed("http://a.example/");
    world.seed("http://b.example/");
    let mut life = Life::begin(&world);
    life.deliver(&mut world, 2);
    let until = life.now + GRACE_MS;
    pass(&mut life, &mut world, 24);
    assert!(life.flying.is_empty() && world.rejected.is_empty(), "its definition may be in an unread part");
    life.now = until - 2;
    assert!(life.refresh(&mut world));
    tick_at(&mut life, &mut world, until - 1);
    assert!(life.flying.is_empty() && world.rejected.is_empty(), "its definition may be on its way");

    tick_at(&mut life, &mut world, until);
    assert_eq!(life.flying.len(), 1, "one for all seeds that wait");
    life.step(&mut world, 0);
    let written = world.records(topic::CONTROL).next().expect("a definition");
    let definition: CrawlDefinition = decode("crawl-definition", written.value.as_ref()).expect("a definition");
    assert_eq!((&*definition.name, definition.scope, definition.max_depth), ("default", Scope::Any, Some(3)));
    assert_eq!((definition.max_pages, definition.traps), (Some(1_000), Traps::Strict));
    assert_eq!((definition.pins.partitions, definition.exclude.len()), (1, 1));
    assert_eq!(definition.pins.canonical_policy, "aggressive/1");
    pass(&mut life, &mut world, 24);
    assert!(life.flying.is_empty() && world.rejected.is_empty(), "nothing before the log was read behind the first");
    life.run(&mut world, usize::MAX);
    assert_eq!(world.records(topic::CONTROL).count(), 1);
    assert!(world.is_complete() && world.rejected.is_empty());
    assert_eq!(world.passes().len(), 2);
}

#[test]
fn another_unknown_crawl_goes_to_the_dead_letters_and_so_does_any_where_none_may_be_created() {
    let typo = r#"{"url": "http://a.example/", "crawl": "typo"}"#;
    for (settings, seed) in [(creating(), typo), (Config::default(), "http://a.example/")] {
        let mut world = World { settings, ..World::new(1) };
        world.seed(seed);
        let mut life = Life::begin(&world);
        life.deliver(&mut world, 1);
        let until = life.now + GRACE_MS;
        assert!(life.refresh(&mut world));
        tick_at(&mut life, &mut world, until - 1);
        assert_eq!(world.rejected, []);
        tick_at(&mut life, &mut world, until);
        assert!(life.flying.is_empty());
        assert!(world.rejected[0].2.starts_with("there is no crawl `"), "{:?}", world.rejected);
    }
}
