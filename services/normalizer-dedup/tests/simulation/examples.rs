//! The examples in `schemas/` as inputs of this service.

use std::path::{Path, PathBuf};

use orbweaver_messages::{CrawlDefinition, Scope, crawl_key, encode, topic};

use crate::world::{World, live};

fn examples(message: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new("../../schemas/examples").join(message).join("1");
    let mut examples = std::fs::read_dir(&directory)
        .expect("examples")
        .map(|entry| entry.expect("an example").path())
        .map(|path| (path.clone(), std::fs::read(path).expect("an example")))
        .collect::<Vec<_>>();
    examples.sort();
    assert!(!examples.is_empty());
    examples
}

/// Creates a world in which the crawls of all examples are defined.
fn world() -> World {
    let mut world = World::new(16);
    world.define("default", Scope::Any, None);
    for (path, example) in examples("crawl-definition") {
        let mut definition: CrawlDefinition = serde_json::from_slice(&example).expect("a definition");
        // The examples belong to different pipelines.
        definition.pins.partitions = world.partitions;
        definition.pins.wide_domains = vec![];
        let crawl = crawl_key(&definition.name);
        assert!(!crawl.is_empty(), "{}", path.display());
        world.put(topic::CONTROL, 0, &crawl, encode(&definition));
    }
    for (_, example) in examples("scope-entry") {
        let entry: orbweaver_messages::ScopeEntry = serde_json::from_slice(&example).expect("an entry");
        world.put(topic::CONTROL, 0, &orbweaver_messages::scope_key(&entry.crawl, &entry.entry), example);
    }
    world
}

#[test]
fn every_example_of_a_seed_and_of_what_is_discovered_flows() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut world = world();
    let seeds = examples("seed");
    for (_, example) in &seeds {
        world.put(topic::SEEDS, 3, "any", example.clone());
    }
    for (_, example) in examples("discovered") {
        let found = serde_json::from_slice(&example).expect("a discovered message");
        world.discovered(&found);
    }
    let tally = live(&mut world, directory.path()).tally().snapshot();
    assert_eq!(world.rejected, []);
    assert!(world.is_complete());
    assert_eq!(tally.seeds, seeds.len() as u64);
    assert!(tally.new >= seeds.len() as u64, "{tally:?}");
    assert_eq!((tally.malformed, tally.misplaced, tally.scheme), (0, 0, 0), "{tally:?}");
    let seeds = ["https://m\u{fc}sli.example/stra\u{df}e?q=s\u{fc}\u{df}", "https://www.rust-lang.org/learn"];
    for seed in seeds {
        let url = orbweaver_url::parse(seed).expect("a url");
        assert!(world.waiting().iter().any(|waiting| waiting.context.url == url.as_str()), "{seed}");
    }
}

#[test]
fn every_example_of_seen_is_restored() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut world = world();
    for (_, example) in examples("seen") {
        let digits = example.iter().filter(|byte| byte.is_ascii_hexdigit()).copied().collect::<Vec<_>>();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16).expect("a byte");
        world.put(topic::SEEN, 0, "0", digits.chunks(2).map(byte).collect::<Vec<_>>());
    }
    assert_eq!(world.seen().len(), 4);
    live(&mut world, directory.path());
}
