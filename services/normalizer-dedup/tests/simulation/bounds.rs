//! Bounds of the records that are planned at one time, and links that wait for plans.

use orbweaver_log::Record;
use orbweaver_messages::{Discovered, Scope};
use orbweaver_normalizer_dedup::LinkOutcome;
use orbweaver_stage::{Stage, Step};

use crate::world::{Life, World, links};

const SITES: [&str; 3] = ["example.org", "example.net", "example.com"];
const PAGES: usize = 6;
const LINKS: usize = 500;
/// Maximum bytes of the records in plans that are not durable: 8 MiB of URLs, one more per partition, and `seen`.
const MOST: usize = (8 << 20) + (128 << 10);

fn planned(life: &Life) -> usize {
    let records = |step: &Step<_>| match step {
        Step::Produce(records) => records.iter().map(Record::bytes).sum::<usize>(),
        Step::Perform(_) => 0,
    };
    life.flying.iter().flat_map(|(plan, ..)| &plan.steps).map(records).sum()
}

/// Appends records of many short links, on pages with long URLs: 25 MB for the frontier.
fn pages_with_long_urls(world: &mut World) {
    for page in 0..PAGES {
        let site = SITES[page % SITES.len()];
        let via = Some(format!("https://{site}/{}", "v".repeat(8000)));
        let urls = (0..LINKS).map(|link| format!("https://{site}/{page}/{link}")).collect();
        world.discovered(&Discovered { via, urls, ..links(site, 1, &[]) });
    }
}

/// Delivers all pages to a process that knows their crawl.
fn delivered() -> (World, Life) {
    let mut world = World::defined(4, Scope::Any, None);
    pages_with_long_urls(&mut world);
    let mut life = Life::begin(&world);
    life.deliver(&mut world, PAGES);
    (world, life)
}

/// Executes all plans, and checks that everything was admitted once within the bound.
fn finish(life: &mut Life, world: &mut World) {
    assert!((1..=MOST).contains(&planned(life)), "{} bytes", planned(life));
    while !life.flying.is_empty() {
        life.step(world, 0);
        assert!(planned(life) <= MOST, "{} bytes", planned(life));
    }
    assert!(world.is_complete() && world.rejected.is_empty());
    let passes = world.passes();
    assert_eq!(passes.len(), PAGES * LINKS);
    assert!(passes.values().all(|count| *count == 1));
    assert_eq!(life.stage.tally().get(LinkOutcome::New), (PAGES * LINKS) as u64);
    assert_eq!(life.stage.due(life.now), 0);
}

#[test]
fn records_that_few_links_cause_are_bounded_in_bytes_and_none_of_the_links_is_lost() {
    let (mut world, mut life) = delivered();
    finish(&mut life, &mut world);
}

#[test]
fn records_that_waited_for_the_definition_of_their_crawl_cause_bounded_bytes_when_it_arrives() {
    let mut world = World::new(4);
    pages_with_long_urls(&mut world);
    let mut life = Life::begin(&world);
    life.deliver(&mut world, PAGES);
    assert_eq!(planned(&life), 0);
    world.define("default", Scope::Any, None);
    assert!(life.receive_tailed(&mut world));
    finish(&mut life, &mut world);
}

#[test]
fn records_that_wait_for_a_plan_are_decided_when_the_log_refuses_it() {
    let (mut world, mut life) = delivered();
    while !life.flying.is_empty() {
        life.refuse(&mut world, 0);
        assert!(planned(&life) <= MOST, "{} bytes", planned(&life));
    }
    assert_eq!(world.rejected.len(), PAGES, "each once");
    assert!(world.is_complete());
}

#[test]
fn an_origin_that_was_rejected_with_one_plan_is_not_decided_again_with_another() {
    let mut world = World::defined(1, Scope::Any, Some(3));
    world.links("example.org", 3, &["https://example.org/a"]);
    world.links("example.org", 2, &["https://example.org/a", "https://example.org/b"]);
    let mut life = Life::begin(&world);
    assert!((0..2).all(|_| life.deliver(&mut world, 1)));
    assert_eq!(life.flying.len(), 2, "`a` waits for the first plan, `b` is in the second");
    life.refuse(&mut world, 1);
    assert_eq!(world.rejected.len(), 1);
    life.run(&mut world, usize::MAX);
    assert!(world.is_complete());
    assert_eq!(world.passes().into_iter().collect::<Vec<_>>(), [("https://example.org/a".to_owned(), 1)]);
}

#[test]
fn links_that_wait_for_a_plan_while_their_crawl_is_deleted_are_counted() {
    let mut world = World::defined(1, Scope::Any, Some(3));
    world.links("example.org", 3, &["https://example.org/a"]);
    world.links("example.org", 2, &["https://example.org/a"]);
    let mut life = Life::begin(&world);
    life.deliver(&mut world, 2);
    world.delete("default");
    assert!(life.receive_tailed(&mut world));
    life.run(&mut world, usize::MAX);
    assert!(world.is_complete());
    let tally = life.stage.tally();
    assert_eq!((tally.get(LinkOutcome::New), tally.get(LinkOutcome::OutOfScope)), (1, 1));
}
