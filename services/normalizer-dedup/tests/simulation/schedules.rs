//! Random schedules: records, deliveries, steps of several concurrent plans, read-backs, kills.

use std::collections::BTreeMap;

use orbweaver_messages::{Discovered, Scope, decode, topic};
use orbweaver_normalizer_dedup::{Config, IndexKind};
use proptest::prelude::*;

use crate::{
    changed::write_changed,
    world::{Life, World, fingerprint},
};

#[derive(Debug, Clone)]
enum Act {
    Links { site: usize, depth: u16, urls: Vec<u8> },
    Deliver { records: usize },
    Step { which: usize },
    Follow,
    Kill { keep_index: bool },
    Stop,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..3usize, 0u16..4, proptest::collection::vec(0u8..12, 1..5))
            .prop_map(|(site, depth, urls)| Act::Links { site, depth, urls }),
        3 => (1..5usize).prop_map(|records| Act::Deliver { records }),
        5 => (0..8usize).prop_map(|which| Act::Step { which }),
        3 => Just(Act::Follow),
        1 => any::<bool>().prop_map(|keep_index| Act::Kill { keep_index }),
        1 => proptest::bool::weighted(0.1).prop_map(|stops| if stops { Act::Stop } else { Act::Follow }),
    ]
}

const SITES: [&str; 3] = ["example.org", "example.net", "example.com"];

/// Checks that the log has everything that a completed record caused. Of a stopped crawl, that is an entry for each link.
fn check(world: &World, is_stopped: bool) {
    let seen = world.seen();
    let least = |url: &str| seen.iter().filter(|e| e.fingerprint == fingerprint(url)).map(|e| e.depth).min();
    let waiting = world.passes();
    for (tp, offset) in world.completed.iter().filter(|(tp, _)| tp.topic == topic::DISCOVERED) {
        let record = &world.log[tp][*offset as usize];
        let found: Discovered = decode("discovered", record.value.as_ref()).expect("a message");
        if found.depth > 2 {
            continue;
        }
        for url in &found.urls {
            let depth = least(url);
            let is_entered = depth.is_some_and(|depth| depth <= found.depth || is_stopped);
            assert!(is_entered, "{url} at {}: seen {depth:?}", found.depth);
            assert!(is_stopped || waiting.contains_key(url.as_str()), "{url} is seen and does not wait");
        }
    }
}

/// A Bloom filter does not detect lesser depths: with it, all links have the same one.
fn run(acts: Vec<Act>, index: IndexKind) {
    let mut world = World { settings: Config { index, ..Config::default() }, ..World::new(2) };
    world.define("default", Scope::Any, Some(2));
    let mut life = Life::begin(&world);
    let (mut kills, mut is_stopped, mut sighted) = (0, false, BTreeMap::<String, Vec<u16>>::new());
    for act in acts {
        match act {
            Act::Links { site, depth, urls } => {
                let depth = if index == IndexKind::Exact { depth } else { 1 };
                let urls = urls.iter().map(|url| format!("https://{}/{url}", SITES[site])).collect::<Vec<_>>();
                world.links(SITES[site], depth, &urls.iter().map(String::as_str).collect::<Vec<_>>());
                if depth <= 2 {
                    urls.into_iter().for_each(|url| sighted.entry(url).or_default().push(depth));
                }
            }
            Act::Deliver { records } => {
                life.deliver(&mut world, records);
            }
            Act::Step { which } if !life.flying.is_empty() => {
                let index = which % life.flying.len();
                life.step(&mut world, index);
            }
            Act::Step { .. } => {}
            Act::Follow => {
                life.receive_tailed(&mut world);
            }
            Act::Kill { keep_index } => {
                drop(life);
                kills += 1;
                if !keep_index {
                    world.delete_index();
                }
                life = Life::begin(&world);
            }
            Act::Stop => {
                write_changed(&mut world, |definition| definition.stopped = true);
                is_stopped = true;
            }
        }
        assert_eq!(life.halted, None);
        check(&world, is_stopped);
    }
    life.run(&mut world, usize::MAX);
    assert_eq!(world.config().index_dir.exists(), index == IndexKind::Exact);
    assert!(world.is_complete(), "every origin completes");
    check(&world, is_stopped);
    let (passes, seen) = (world.passes(), world.seen());
    for url in passes.keys() {
        let is_entered = seen.iter().any(|entry| entry.fingerprint == fingerprint(url));
        assert!(is_entered, "{url} was queued, and has no entry: nothing would find it when its crawl is deleted");
    }
    let all = passes.keys().eq(sighted.keys());
    assert!(all || is_stopped, "each URL passes: {passes:?}");
    sighted.retain(|url, _| passes.contains_key(url));
    for (url, depths) in &sighted {
        // Once per new minimum depth; each kill may repeat the work in flight.
        let mut least = u16::MAX;
        let mut falls = 0;
        for depth in depths {
            falls += usize::from(*depth < least);
            least = least.min(*depth);
        }
        assert!(passes[url] <= falls * (kills + 1), "{url} passed {} times", passes[url]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn nothing_is_lost_and_nothing_completes_early_in_any_schedule(acts in proptest::collection::vec(act(), 1..80)) {
        run(acts.clone(), IndexKind::Exact);
        run(acts, IndexKind::Bloom);
    }
}
