//! Links that lead out of a crawl which checks them.

use orbweaver_messages::{Discovered, DiscoveryKind, EXTERNAL_DEPTH, REQUISITE_DEPTH, Scope, Trail};
use orbweaver_normalizer_dedup::LinkOutcome;

use crate::{
    changed::write_changed,
    world::{Life, World, links, live},
};

const OUTSIDE: &str = "https://example.net/a";
const EXTERNAL: (u16, DiscoveryKind) = (EXTERNAL_DEPTH, DiscoveryKind::External);

/// Returns a crawl of `example.org` to depth 1 that checks external links.
fn checking() -> World {
    let mut world = World::defined(4, Scope::Host, Some(1));
    write_changed(&mut world, |definition| definition.check_external = true);
    world.seed("example.org");
    live(&mut world);
    world
}

/// Returns depth and sighting of each record that queues this URL.
fn queued(world: &World, url: &str) -> Vec<(u16, DiscoveryKind)> {
    let contexts = world.waiting().into_iter().map(|waiting| waiting.context);
    contexts.filter(|context| context.url == url).map(|context| (context.depth, context.sighting)).collect()
}

#[test]
fn a_link_out_of_the_crawl_is_queued_once_as_external_whatever_its_depth() {
    let mut world = checking();
    let trail: Trail = serde_json::from_str("[[1,2]]").expect("a trail");
    world.discovered(&Discovered { trail, content: Some(9), ..links("example.net", 1, &[OUTSIDE]) });
    world.links("example.net", 2, &[OUTSIDE, "https://example.net/deep", "https://example.net/private/b"]);
    world.links("example.org", 2, &["https://example.org/deep"]);
    live(&mut world);
    // Again, after a restart, in a new process without recently seen links.
    world.links("example.net", 1, &[OUTSIDE, "https://example.net/deep"]);
    let stage = live(&mut world);
    for url in [OUTSIDE, "https://example.net/deep"] {
        assert_eq!(queued(&world, url), [EXTERNAL], "{url}");
    }
    assert!(queued(&world, "https://example.net/private/b").is_empty(), "excluded");
    assert!(queued(&world, "https://example.org/deep").is_empty(), "in scope and too deep");
    assert_eq!(stage.tally().get(LinkOutcome::Duplicate), 2);
    let waiting = world.waiting().into_iter().find(|waiting| waiting.context.url == OUTSIDE).expect("it is queued");
    assert!(waiting.context.trail.is_empty() && waiting.content.is_none(), "{waiting:?}");
    assert!(world.is_complete());
}

#[test]
fn repeated_external_links_are_duplicates() {
    let mut world = checking();
    for _ in 0..3 {
        world.links("example.net", 1, &[OUTSIDE, OUTSIDE]);
    }
    let stage = live(&mut world);
    let ends = [LinkOutcome::New, LinkOutcome::Duplicate, LinkOutcome::OutOfScope].map(|end| stage.tally().get(end));
    assert_eq!((ends, queued(&world, OUTSIDE)), ([1, 5, 0], vec![EXTERNAL]));
}

#[test]
fn a_redirect_out_of_the_crawl_is_external_and_what_a_user_or_a_sitemap_names_there_is_out_of_scope() {
    let mut world = checking();
    let chain = vec!["https://example.org/moved".to_owned()];
    world.discovered(&Discovered {
        sighting: DiscoveryKind::Redirect,
        chain: chain.clone(),
        ..links("example.net", 1, &[OUTSIDE])
    });
    // A redirect of an external URL, also back into the crawl.
    let moved = ["https://example.net/b", "https://example.org/back"];
    for (site, url) in ["example.net", "example.org"].into_iter().zip(moved) {
        let of_external = links(site, EXTERNAL_DEPTH, &[url]);
        world.discovered(&Discovered { sighting: DiscoveryKind::External, chain: chain.clone(), ..of_external });
    }
    for sighting in [DiscoveryKind::Recrawl, DiscoveryKind::Sitemap] {
        world.discovered(&Discovered { sighting, ..links("example.net", 1, &["https://example.net/c"]) });
    }
    let stage = live(&mut world);
    for url in [OUTSIDE].into_iter().chain(moved) {
        assert_eq!(queued(&world, url), [EXTERNAL], "{url}");
    }
    assert_eq!(stage.tally().get(LinkOutcome::OutOfScope), 2);
}

#[test]
fn an_external_url_becomes_a_requisite_or_a_page_and_neither_becomes_external() {
    let mut world = checking();
    world.links("example.net", 1, &[OUTSIDE]);
    live(&mut world);
    let requisite =
        Discovered { sighting: DiscoveryKind::Requisite, ..links("example.net", REQUISITE_DEPTH, &[OUTSIDE]) };
    // In the process that remembers it as a requisite, and in the next one.
    let mut life = Life::begin(&world);
    world.discovered(&requisite);
    life.run(&mut world, usize::MAX);
    world.links("example.net", 1, &[OUTSIDE]);
    life.run(&mut world, usize::MAX);
    drop(life);
    world.links("example.net", 1, &[OUTSIDE]);
    live(&mut world);
    assert_eq!(queued(&world, OUTSIDE), [EXTERNAL, (REQUISITE_DEPTH, DiscoveryKind::Requisite)]);
    world.seed("example.net");
    live(&mut world);
    world.links("example.net", 1, &[OUTSIDE]);
    live(&mut world);
    write_changed(&mut world, |definition| definition.include = vec!["org".to_owned()]);
    world.links("example.net", 1, &[OUTSIDE]);
    live(&mut world);
    assert_eq!(queued(&world, OUTSIDE)[2..], [(1, DiscoveryKind::Link)]);
    assert!(world.is_complete());
}

#[test]
fn a_link_that_no_include_pattern_matches_is_external_too_and_none_is_once_the_crawl_checks_none() {
    let mut world = checking();
    write_changed(&mut world, |definition| definition.include = vec!["/docs/".to_owned()]);
    world.links("example.org", 1, &["https://example.org/blog", "https://example.org/docs/1"]);
    live(&mut world);
    assert_eq!(queued(&world, "https://example.org/blog"), [EXTERNAL]);
    assert_eq!(queued(&world, "https://example.org/docs/1"), [(1, DiscoveryKind::Link)]);
    write_changed(&mut world, |definition| definition.check_external = false);
    world.links("example.net", 1, &["https://example.net/late"]);
    world.links("example.org", 1, &["https://example.org/late"]);
    let stage = live(&mut world);
    let ends = [LinkOutcome::OutOfScope, LinkOutcome::NotIncluded].map(|end| stage.tally().get(end));
    assert_eq!(ends, [1, 1]);
}
