//! Records whose crawl is not yet defined.

use orbweaver_messages::{Scope, topic};
use orbweaver_normalizer_dedup::NormalizerDedup;
use orbweaver_stage::Stage;

use crate::world::{Life, World};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn a_record_waits_for_a_definition_that_is_on_its_way() {
    let directory = directory();
    let mut world = World::new(4);
    world.seed("https://example.org/");
    world.links("example.org", 1, &["https://example.org/a"]);
    let mut life = Life::begin(&world, directory.path());
    life.run(&mut world, usize::MAX);
    assert!(world.completed.is_empty());
    world.define("default", Scope::Any, None);
    life.run(&mut world, usize::MAX);
    assert!(world.is_complete() && world.rejected.is_empty());
    assert_eq!(world.passes().len(), 2);
}

/// Advances time, with ticks, without reading.
fn pass(life: &mut Life, world: &mut World, hours: usize) {
    for _ in 0..hours {
        life.now += 3_600_000;
        life.call(world, NormalizerDedup::tick);
    }
}

#[test]
fn an_unknown_crawl_is_rejected_behind_an_end_of_control_requested_after_the_record_came_and_never_by_time() {
    let directory = directory();
    let mut world = World::new(4);
    let mut life = Life::begin(&world, directory.path());
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
        let directory = directory();
        let mut world = World::new(4);
        let mut life = Life::begin(&world, directory.path());
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
