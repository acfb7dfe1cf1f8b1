//! The examples in `schemas/` as inputs of this service.

use std::{collections::BTreeSet, path::Path};

use orbweaver_messages::{CrawlDefinition, Scope, crawl_key, encode, topic};
use orbweaver_normalizer_dedup::LinkOutcome;

use crate::world::{World, live};

fn examples(message: &str) -> Vec<Vec<u8>> {
    let directory = Path::new("../../schemas/examples").join(message).join("1");
    let files = std::fs::read_dir(&directory).expect("examples").map(|entry| entry.expect("an example").path());
    let files: BTreeSet<_> = files.collect();
    assert!(!files.is_empty());
    files.iter().map(|file| std::fs::read(file).expect("an example")).collect()
}

/// Creates a world in which the crawls of all examples are defined.
fn world() -> World {
    let mut world = World::defined(16, Scope::Any, None);
    for example in examples("crawl-definition") {
        let mut definition: CrawlDefinition = serde_json::from_slice(&example).expect("a definition");
        // The examples belong to different pipelines.
        definition.pins.partitions = world.partitions;
        definition.pins.wide_domains = vec![];
        world.put(topic::CONTROL, 0, &crawl_key(&definition.name), encode(&definition));
    }
    for example in examples("scope-entry") {
        let entry: orbweaver_messages::ScopeEntry = serde_json::from_slice(&example).expect("an entry");
        world.put(topic::CONTROL, 0, &orbweaver_messages::scope_key(&entry.crawl, &entry.entry), example);
    }
    world
}

#[test]
fn every_example_of_a_seed_and_of_what_is_discovered_flows() {
    let mut world = world();
    let seeds = examples("seed");
    for example in &seeds {
        world.put(topic::SEEDS, 3, "any", example.clone());
    }
    let discovered = examples("discovered");
    for example in &discovered {
        let found = serde_json::from_slice(example).expect("a discovered message");
        world.discovered(&found);
    }
    let tally = live(&mut world).tally();
    assert_eq!(world.rejected, []);
    assert!(world.is_complete());
    assert_eq!(world.records(topic::DISCOVERED).count(), seeds.len() + discovered.len());
    assert!(tally.get(LinkOutcome::New) >= seeds.len() as u64, "{tally:?}");
    let wrong = [LinkOutcome::Malformed, LinkOutcome::Misplaced, LinkOutcome::Scheme];
    assert_eq!(wrong.map(|end| tally.get(end)), [0; 3], "{tally:?}");
    let seeds = ["https://m\u{fc}sli.example/stra\u{df}e?q=s\u{fc}\u{df}", "https://www.rust-lang.org/learn"];
    for seed in seeds {
        let url = orbweaver_url::parse(seed).expect("a url");
        assert!(world.waiting().iter().any(|waiting| waiting.context.url == url.as_str()), "{seed}");
    }
}
