//! Known URLs that a sitemap or feed lists as modified.

use std::collections::BTreeMap;

use orbweaver_messages::{
    CrawlDefinition, Discovered, DiscoveryKind, Millis, RevisitPolicy, Scope, crawl_key, encode, topic,
};
use orbweaver_normalizer_dedup::LinkOutcome;

use crate::world::{World, fingerprint, links, live};

const KNOWN: &str = "https://example.org/known";
const NEW: &str = "https://example.org/new";
const OUTSIDE: &str = "https://example.org/private/x";

/// Returns a world with a crawl that has revisits, in which a URL is known.
fn with_revisits(has_revisits: bool) -> World {
    let mut world = World::defined(4, Scope::Host, None);
    if has_revisits {
        let host = include_str!("../../../../schemas/examples/crawl-definition/1/host.json");
        let host: CrawlDefinition = serde_json::from_str(host).expect("a definition");
        let revisit = Some(RevisitPolicy { interval_ms: 60_000, max_interval_ms: 120_000, types: BTreeMap::new() });
        let (name, exclude) = ("default".parse().expect("a name"), vec!["/private/".to_owned()]);
        let pins = orbweaver_messages::Pins { partitions: 4, ..host.pins };
        let definition = CrawlDefinition { name, exclude, revisit, pins, ..host };
        world.put(topic::CONTROL, 0, &crawl_key(&definition.name), encode(&definition));
    }
    world.seed("example.org");
    live(&mut world);
    world.links("example.org", 3, &[KNOWN]);
    live(&mut world);
    world
}

fn update(urls: &[&str], modified_ms: &[Millis]) -> Discovered {
    let sighting = DiscoveryKind::Update;
    Discovered { sighting, modified_ms: modified_ms.to_vec(), ..links("example.org", 1, urls) }
}

/// Returns sighting, depth and modification time of each record that queues this URL.
fn queued(world: &World, url: &str) -> Vec<(DiscoveryKind, u16, Option<Millis>)> {
    let contexts = world.waiting().into_iter().map(|waiting| waiting.context).filter(|context| context.url == url);
    contexts.map(|context| (context.sighting, context.depth, context.listed_modified_ms)).collect()
}

#[test]
fn a_known_url_that_is_listed_as_modified_is_queued_again_if_the_crawl_has_revisits() {
    for has_revisits in [true, false] {
        let mut world = with_revisits(has_revisits);
        world.discovered(&update(&[NEW, OUTSIDE, KNOWN], &[70, 80, 90]));
        let stage = live(&mut world);
        let first = (DiscoveryKind::Link, 3, None);
        let again = (DiscoveryKind::Update, 3, Some(90));
        assert_eq!(queued(&world, KNOWN), [first, again][..1 + usize::from(has_revisits)]);
        assert_eq!(queued(&world, NEW), [(DiscoveryKind::Link, 1, Some(70))], "a new one is a link");
        assert_eq!(queued(&world, OUTSIDE), []);
        assert_eq!(world.seen().iter().filter(|entry| entry.fingerprint == fingerprint(KNOWN)).count(), 1);
        let ends = [LinkOutcome::New, LinkOutcome::Updated, LinkOutcome::Excluded, LinkOutcome::Duplicate];
        let ends = ends.map(|end| stage.tally().get(end));
        assert_eq!(ends, [1, u64::from(has_revisits), 1, u64::from(!has_revisits)]);
        assert!(world.is_complete());
    }
}

#[test]
fn a_url_keeps_its_modification_time_while_it_is_deferred_and_others_have_none() {
    let mut world = with_revisits(true);
    // The plan that admits it is not durable yet.
    world.links("example.org", 3, &[NEW]);
    world.discovered(&update(&["https://example.org/undated", NEW, KNOWN], &[0, 70]));
    live(&mut world);
    assert_eq!(queued(&world, "https://example.org/undated"), [(DiscoveryKind::Link, 1, None)]);
    assert_eq!(queued(&world, NEW), [(DiscoveryKind::Link, 3, None), (DiscoveryKind::Update, 3, Some(70))]);
    assert_eq!(queued(&world, KNOWN).last(), Some(&(DiscoveryKind::Update, 3, None)));
}

#[test]
fn links_of_a_sitemap_that_are_known_are_duplicates_whatever_their_dates() {
    let mut world = with_revisits(true);
    let sighting = DiscoveryKind::Link;
    world.discovered(&Discovered { sighting, depth: 3, ..update(&[KNOWN, NEW], &[90, 70]) });
    let stage = live(&mut world);
    assert_eq!(queued(&world, KNOWN).len(), 1);
    assert_eq!(queued(&world, NEW), [(DiscoveryKind::Link, 3, Some(70))]);
    assert_eq!(stage.tally().get(LinkOutcome::Duplicate), 1);
}
