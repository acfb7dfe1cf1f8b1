//! Flow of seeds and links.

use futures::FutureExt;
use orbweaver_log::{Cleanup, ConsumerRecord, Log, MemoryLog, Record, TopicPartition, TopicSpec};
use orbweaver_messages::{
    CrawlDefinition, Discovered, DiscoveryKind, Priority, REQUISITE_DEPTH, Scope, ScopeEntry, SeenBatch, Trail, Traps,
    decode, encode, topic,
};
use orbweaver_normalizer_dedup::{Config, LinkOutcome, NormalizerDedup};
use orbweaver_scope::rank_of_depth;
use orbweaver_stage::{RestoreFrom, Stage, StageError, Step};
use orbweaver_url::CrawlName;

use crate::world::{End, Life, World, fingerprint, links, live};

#[test]
fn a_seed_goes_to_the_partition_of_its_site_and_extends_the_scope_before_it_waits() {
    let mut world = World::defined(4, Scope::Host, None);
    world.seed("Example.org/docs#top");
    let mut life = Life::begin(&world);
    life.deliver(&mut world, 1);
    assert!(world.completed.is_empty(), "not before it is durable");
    life.step(&mut world, 0);
    assert_eq!(world.completed.len(), 1);
    let passed_on = world.records(topic::DISCOVERED).next().expect("a record").clone();
    assert_eq!(passed_on.tp.partition, world.partition("example.org"));
    assert_eq!(passed_on.key.as_deref(), Some(&b"example.org"[..]));
    life.deliver(&mut world, 1);
    let topic_of = |step: &Step<_>| if let Step::Produce(records) = step { Some(records[0].tp.topic) } else { None };
    let topics: Vec<_> = life.flying[0].0.steps.iter().filter_map(topic_of).collect();
    assert_eq!(topics, [topic::CONTROL, topic::FRONTIER, topic::SEEN]);
    life.run(&mut world, usize::MAX);
    let waiting = &world.waiting()[0];
    assert_eq!((waiting.context.url.as_str(), waiting.context.depth), ("https://example.org/docs", 0));
    assert_eq!((waiting.context.sighting, &*waiting.context.site), (DiscoveryKind::Seed, "example.org"));
    let entry: ScopeEntry = world
        .records(topic::CONTROL)
        .find(|record| record.key.as_deref() == Some(b"scope/default/example.org"))
        .map(|record| decode("scope-entry", record.value.as_ref()).expect("an entry"))
        .expect("a scope entry");
    assert_eq!(entry, ScopeEntry { crawl: CrawlName::default(), entry: "example.org".into() });
}

#[test]
fn a_seed_is_queued_with_its_depth_and_its_metadata() {
    let mut world = World::defined(4, Scope::Host, None);
    world.seed(r#"{"url": "example.org", "depth": 3, "metadata": {"customer": "42"}}"#);
    live(&mut world);
    let context = &world.waiting()[0].context;
    assert_eq!((context.depth, context.metadata.iter().collect::<Vec<_>>()), (3, vec![("customer", "42")]));
}

/// Returns depth and sighting of each record that queues this URL.
fn queued(world: &World, url: &str) -> Vec<(u16, DiscoveryKind)> {
    let contexts = world.waiting().into_iter().map(|waiting| waiting.context);
    contexts.filter(|context| context.url == url).map(|context| (context.depth, context.sighting)).collect()
}

#[test]
fn a_known_url_that_is_requested_again_is_queued_at_its_depth_without_another_entry_in_seen() {
    let mut world = World::defined(4, Scope::Host, Some(5));
    world.seed("example.org");
    live(&mut world);
    let url = "https://example.org/a";
    // Also while the plan that admits it is not durable yet.
    world.links("example.org", 3, &[url]);
    let again = links("example.org", 0, &[url]);
    world.discovered(&Discovered { sighting: DiscoveryKind::Recrawl, via: None, ..again });
    live(&mut world);
    world.seed(&format!(r#"{{"url": "{url}", "recrawl": true}}"#));
    let stage = live(&mut world);
    let again = (3, DiscoveryKind::Recrawl);
    assert_eq!(queued(&world, url), [(3, DiscoveryKind::Link), again, again]);
    assert_eq!(world.seen().iter().filter(|entry| entry.fingerprint == fingerprint(url)).count(), 1);
    assert_eq!(stage.tally().get(LinkOutcome::Recrawled), 1);
    assert!(world.is_complete());
}

#[test]
fn a_url_that_is_requested_again_must_be_in_scope_and_is_admitted_if_it_is_new() {
    let mut world = World::defined(4, Scope::Host, None);
    world.seed("example.org");
    live(&mut world);
    for url in ["https://example.com/", "https://example.org/new"] {
        world.seed(&format!(r#"{{"url": "{url}", "recrawl": true}}"#));
    }
    let stage = live(&mut world);
    let ends = [LinkOutcome::OutOfScope, LinkOutcome::New, LinkOutcome::Recrawled].map(|end| stage.tally().get(end));
    assert_eq!(ends, [1, 1, 0]);
    assert_eq!(queued(&world, "https://example.org/new"), [(0, DiscoveryKind::Recrawl)]);
    assert_eq!(world.seen().len(), 2);
}

/// Returns requisites of a page of another site.
fn requisites(site: &str, urls: &[&str]) -> Discovered {
    Discovered { sighting: DiscoveryKind::Requisite, ..links(site, REQUISITE_DEPTH, urls) }
}

#[test]
fn a_requisite_is_admitted_wherever_it_is_and_however_deep_unless_it_is_excluded() {
    let mut world = World::defined(4, Scope::Host, Some(1));
    world.seed("example.org");
    live(&mut world);
    let (picture, excluded) = ("https://cdn.example.net/a.png", "https://cdn.example.net/private/b.png");
    world.links("example.net", 1, &[picture]);
    world.discovered(&requisites("example.net", &[picture, excluded, picture]));
    world.links("example.org", 2, &["https://example.org/deep"]);
    world.discovered(&requisites("example.org", &["https://example.org/a.css"]));
    let stage = live(&mut world);
    let ends = [LinkOutcome::OutOfScope, LinkOutcome::Excluded, LinkOutcome::TooDeep, LinkOutcome::Duplicate];
    assert_eq!(ends.map(|end| stage.tally().get(end)), [1; 4]);
    for url in [picture, "https://example.org/a.css"] {
        assert_eq!(queued(&world, url), [(REQUISITE_DEPTH, DiscoveryKind::Requisite)]);
    }
    let rank = world.waiting().into_iter().find(|waiting| waiting.context.url == picture).and_then(|found| found.rank);
    assert_eq!((rank, world.waiting().len()), (Some(rank_of_depth(0)), 3));
}

#[test]
fn a_requisite_that_is_linked_too_becomes_a_page_and_a_page_no_requisite() {
    for max_depth in [None, Some(5)] {
        let mut world = World::defined(4, Scope::Host, max_depth);
        world.seed("example.org");
        live(&mut world);
        let (first, second) = ("https://example.org/1", "https://example.org/2");
        world.discovered(&requisites("example.org", &[first]));
        world.links("example.org", 2, &[second]);
        live(&mut world);
        world.links("example.org", 3, &[first]);
        world.discovered(&requisites("example.org", &[second]));
        live(&mut world);
        world.links("example.org", 3, &[first]);
        world.discovered(&Discovered { depth: u16::MAX, ..requisites("example.org", &[first, second]) });
        live(&mut world);
        assert_eq!(queued(&world, first), [(REQUISITE_DEPTH, DiscoveryKind::Requisite), (3, DiscoveryKind::Link)]);
        assert_eq!(queued(&world, second), [(2, DiscoveryKind::Link)]);
        assert!(world.is_complete());
    }
}

#[test]
fn a_requisite_that_a_user_requests_again_becomes_a_page_at_the_depth_of_a_seed() {
    let mut world = World::defined(4, Scope::Host, None);
    world.seed("example.org");
    let url = "https://example.org/a";
    world.discovered(&requisites("example.org", &[url]));
    live(&mut world);
    world.seed(&format!(r#"{{"url": "{url}", "recrawl": true}}"#));
    live(&mut world);
    assert_eq!(queued(&world, url)[1..], [(0, DiscoveryKind::Recrawl)]);
    world.links("example.org", 1, &[url]);
    live(&mut world);
    assert_eq!(queued(&world, url).len(), 2, "it is known as a page");
}

#[test]
fn redirects_in_a_circle_from_a_url_that_is_requested_again_end() {
    let mut world = World::defined(4, Scope::Any, None);
    let (one, two) = ("https://example.org/1", "https://example.org/2");
    world.links("example.org", 1, &[one, two]);
    live(&mut world);
    let back = Discovered { sighting: DiscoveryKind::Recrawl, ..links("example.org", 1, &[one]) };
    world.discovered(&Discovered { chain: vec![one.to_owned(), two.to_owned()], ..back });
    let stage = live(&mut world);
    assert_eq!((stage.tally().get(LinkOutcome::Duplicate), stage.tally().get(LinkOutcome::Recrawled)), (1, 0));
    assert_eq!(queued(&world, one).len(), 1);
}

#[test]
fn the_rank_of_a_url_is_determined_by_the_order_of_the_crawl_its_depth_and_the_priority_of_its_seed() {
    let mut world = World::defined(4, Scope::Any, None);
    world.seed(r#"{"url": "example.org", "priority": 2}"#);
    let priority = 2.try_into().expect("permitted");
    world.discovered(&Discovered { priority, ..links("example.org", 2, &["https://example.org/2"]) });
    world.links("example.org", 2, &["https://example.org/plain"]);
    live(&mut world);
    let ranks = world.waiting().into_iter().map(|url| (url.context.depth, url.context.priority, url.rank));
    let mut ranks: Vec<_> = ranks.collect();
    ranks.sort_unstable();
    let of = |depth| Some(rank_of_depth(depth));
    let expected = [(0, priority, of(0).map(|rank| rank - 2048)), (2, Priority::default(), None), (2, priority, of(0))];
    assert_eq!(ranks, expected);
}

#[test]
fn a_link_is_requested_as_found_and_known_by_its_canonical_form() {
    let mut world = World::defined(4, Scope::Any, None);
    world.discovered(&Discovered {
        via: Some("https://example.com/".into()),
        sighting: DiscoveryKind::Redirect,
        chain: vec!["https://example.com/r".into()],
        trail: trail(),
        content: Some(9),
        ..links("example.org", 3, &["https://www.example.org/%7euser?"])
    });
    world.links("example.org", 1, &["https://www.example.org/~user", "https://www.example.org/%7Euser"]);
    let stage = live(&mut world);
    let waiting = world.waiting();
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].context.url, "https://www.example.org/%7euser?");
    assert_eq!(waiting[0].context.key.as_deref(), Some("https://www.example.org/~user"));
    assert_eq!((waiting[0].context.depth, waiting[0].context.sighting), (3, DiscoveryKind::Redirect));
    assert_eq!(waiting[0].context.via.as_deref(), Some("https://example.com/"));
    assert_eq!(waiting[0].context.chain, ["https://example.com/r"]);
    assert_eq!((waiting[0].traps, &waiting[0].context.trail, waiting[0].content), (Traps::Learn, &trail(), Some(9)));
    assert_eq!(waiting[0].context.fingerprint, fingerprint("https://www.example.org/~user"));
    assert_eq!((stage.tally().get(LinkOutcome::New), stage.tally().get(LinkOutcome::Duplicate)), (1, 2));
}

fn trail() -> Trail {
    Trail::default().through(orbweaver_messages::Pattern(7))
}

#[test]
fn what_waits_says_what_its_crawl_does_about_traps_and_carries_nothing_of_them_where_that_is_nothing() {
    for (traps, carried) in [(Traps::Strict, (trail(), Some(9))), (Traps::Off, (Trail::default(), None))] {
        let mut world = World::defined(4, Scope::Any, None);
        let defined = world.records(topic::CONTROL).next().expect("a definition").value.clone();
        let definition: CrawlDefinition = decode("crawl-definition", defined.as_ref()).expect("a definition");
        world.put(topic::CONTROL, 0, "crawl/default", encode(&CrawlDefinition { traps, ..definition }));
        let found = links("example.org", 1, &["https://example.org/"]);
        world.discovered(&Discovered { trail: trail(), content: Some(9), ..found });
        drop(live(&mut world));
        let waiting = world.waiting().remove(0);
        assert_eq!((waiting.traps, (waiting.context.trail, waiting.content)), (traps, carried));
    }
}

#[test]
fn one_poll_makes_one_seen_record_a_partition() {
    let mut world = World::defined(1, Scope::Any, None);
    for page in 0..3 {
        let urls = (0..100).map(|link| format!("https://example.org/{page}/{link}")).collect::<Vec<_>>();
        world.links("example.org", 1, &urls.iter().map(String::as_str).collect::<Vec<_>>());
    }
    live(&mut world);
    assert_eq!(world.records(topic::SEEN).count(), 1);
    assert_eq!((world.seen().len(), world.waiting().len()), (300, 300));
    assert!(world.seen().iter().all(|entry| entry.slot == orbweaver_url::slot_of("example.org")));
}

#[test]
fn a_poll_that_lets_very_many_through_makes_several_plans_and_loses_none() {
    let mut world = World::defined(1, Scope::Any, None);
    let urls = (0..20_000).map(|link| format!("https://example.org/{link}")).collect::<Vec<_>>();
    world.links("example.org", 1, &urls.iter().map(String::as_str).collect::<Vec<_>>());
    let mut life = Life::begin(&world);
    life.deliver(&mut world, 1);
    assert_eq!(life.flying.len(), 3);
    for _ in 0..2 {
        life.step(&mut world, 0);
        life.step(&mut world, 0);
        assert!(world.completed.is_empty(), "the record waits for all three");
    }
    life.run(&mut world, usize::MAX);
    assert!(world.is_complete());
    assert_eq!(world.passes().len(), 20_000);
    assert!(world.passes().values().all(|count| *count == 1));
}

#[test]
fn every_link_that_is_dropped_is_counted_by_its_reason() {
    let mut world = World::defined(4, Scope::Host, Some(4));
    world.seed("https://example.org/");
    live(&mut world);
    let far = format!("https://example.org/{}", "x".repeat(9000));
    world.links(
        "example.org",
        1,
        &[
            "https://example.org/ok",
            "https://www.example.org/",
            "https://example.org/private/x",
            "https://exa mple.org/",
            "ftp://example.org/",
            "https://example.net/",
            "https://example.org/ok",
            &far,
        ],
    );
    world.links("example.org", 5, &["https://example.org/deep"]);
    let chain = vec!["https://example.org/r".to_owned(); 21];
    let end = links("example.org", 1, &["https://example.org/end"]);
    world.discovered(&Discovered { sighting: DiscoveryKind::Redirect, chain, ..end });
    let tally = live(&mut world).tally();
    for end in LinkOutcome::ALL {
        let repeated = [LinkOutcome::Shallower, LinkOutcome::Recrawled, LinkOutcome::Updated];
        let never = [&repeated[..], &[LinkOutcome::NotIncluded, LinkOutcome::Stopped]].concat();
        let expected = u64::from(!never.contains(&end));
        assert_eq!(tally.get(end), expected, "{end:?}");
    }
    assert!(world.is_complete());
}

#[test]
fn what_cannot_be_processed_is_rejected_with_its_reason() {
    let mut world = World::defined(4, Scope::Host, None);
    world.seed("ftp://example.org/");
    world.put(topic::SEEDS, 0, "", &b"\xff"[..]);
    world.put(topic::SEEDS, 0, "", "{\"url\":\"https://example.org/\",\"crawl\":\"nowhere\"}");
    world.put(topic::DISCOVERED, 0, "", "{}");
    let other = (world.partition("example.org") + 1) % 4;
    let found = links("example.org", 0, &[]);
    world.put(topic::DISCOVERED, other, "", encode(&found));
    world.discovered(&Discovered { crawl: "nowhere".parse().unwrap(), ..found });
    let mut life = Life::begin(&world);
    life.run(&mut world, usize::MAX);
    assert_eq!(world.rejected.len(), 4, "the unknown crawl may still be defined: {:?}", world.rejected);
    assert!(life.stage.next_tick().is_some_and(|at| (life.now..=life.now + 5_000).contains(&at)));
    life.now += 5_000;
    life.call(&mut world, NormalizerDedup::tick);
    let reasons = world.rejected.iter().map(|(_, _, reason)| reason.as_str()).collect::<Vec<_>>();
    for expected in [
        "scheme `ftp` is not crawled; allowed: http and https",
        "the seed is not UTF-8 from byte 0 on",
        "not a valid discovered message: missing field",
        "records of the site `example.org` belong to partition",
        "there is no crawl `nowhere`; create it first",
    ] {
        assert!(reasons.iter().any(|reason| reason.contains(expected)), "{expected}: {reasons:?}");
    }
    assert_eq!(reasons.len(), 6);
    assert!(world.is_complete());
    assert_eq!(life.stage.tally().rejected(), 6);
}

#[test]
fn an_origin_whose_url_is_pending_waits_for_the_plan_that_lets_it_through() {
    let mut world = World::defined(1, Scope::Any, None);
    world.links("example.org", 1, &["https://example.org/a"]);
    world.links("example.org", 1, &["https://example.org/a", "https://example.org/b"]);
    world.links("example.org", 1, &["https://example.org/b"]);
    let mut life = Life::begin(&world);
    assert!((0..3).all(|_| life.deliver(&mut world, 1)));
    assert_eq!(life.flying.len(), 2, "one plan lets `a` through, the other `b`");
    life.step(&mut world, 1);
    life.step(&mut world, 1);
    let tp = TopicPartition::new(topic::DISCOVERED, 0);
    assert_eq!(world.completed.iter().copied().collect::<Vec<_>>(), [(tp, 2)], "the second waits for both");
    life.step(&mut world, 0);
    assert_eq!(world.completed.len(), 1, "frontier is not enough");
    life.step(&mut world, 0);
    assert!(world.is_complete());
    assert!(world.passes().values().all(|count| *count == 1));
}

#[test]
fn a_nearer_sighting_passes_again_where_depth_is_limited_and_never_beside_a_write_under_way() {
    let mut world = World::defined(1, Scope::Any, Some(3));
    let url = "https://example.org/a";
    for depth in [3, 3, 2, 1, 2] {
        world.links("example.org", depth, &[url]);
    }
    let mut life = Life::begin(&world);
    life.deliver(&mut world, 5);
    assert_eq!(life.flying.len(), 1, "one outstanding write per key");
    life.run(&mut world, usize::MAX);
    assert!(world.is_complete());
    assert_eq!(world.seen().iter().map(|entry| entry.depth).collect::<Vec<_>>(), [3, 2, 1]);
    let tally = life.stage.tally();
    assert_eq!(
        (tally.get(LinkOutcome::New), tally.get(LinkOutcome::Shallower), tally.get(LinkOutcome::Duplicate)),
        (1, 2, 2)
    );
}

#[test]
fn the_redirect_of_a_seed_brings_its_target_into_scope_and_that_of_a_link_does_not() {
    let mut world = World::defined(4, Scope::Host, None);
    world.seed("https://example.org/");
    let redirect = |site: &str, sighting| Discovered {
        sighting,
        chain: vec!["https://example.org/".into()],
        ..links(site, 0, &[&format!("https://www.{site}/")])
    };
    world.discovered(&redirect("example.net", DiscoveryKind::Seed));
    world.discovered(&redirect("example.com", DiscoveryKind::Redirect));
    live(&mut world);
    world.links("example.net", 1, &["https://www.example.net/a", "https://example.net/b"]);
    live(&mut world);
    let passes = world.passes();
    let expected = ["https://example.org/", "https://www.example.net/", "https://www.example.net/a"];
    assert_eq!(passes.keys().collect::<Vec<_>>(), expected);
    let keys =
        world.records(topic::CONTROL).filter(|record| record.key.as_deref().is_some_and(|k| k.starts_with(b"scope/")));
    assert_eq!(keys.count(), 2, "each entry once");
}

#[test]
fn a_record_of_another_owner_counts_once_it_is_read_back() {
    let mut world = World::defined(1, Scope::Any, None);
    let mut life = Life::begin(&world);
    let entry = orbweaver_messages::SeenEntry { slot: 0, depth: 1, fingerprint: fingerprint("https://example.org/a") };
    world.put(topic::SEEN, 0, "0", SeenBatch { entries: vec![entry] }.encode());
    world.put(topic::SEEN, 0, "0", &b"damaged"[..]);
    assert!(life.receive_tailed(&mut world) && life.receive_tailed(&mut world));
    world.links("example.org", 1, &["https://example.org/a", "https://example.org/b"]);
    assert_eq!(life.run(&mut world, usize::MAX), End::Idle);
    assert_eq!(world.passes().keys().collect::<Vec<_>>(), ["https://example.org/b"]);
}

#[test]
fn a_closed_partition_is_forgotten_and_served_again_from_its_index() {
    let mut world = World::defined(1, Scope::Any, None);
    world.links("example.org", 1, &["https://example.org/a"]);
    let mut life = Life::begin(&world);
    life.deliver(&mut world, 1);
    life.stage.close(0);
    assert_eq!(life.stage.due(life.now), 0);
    life.step(&mut world, 0);
    life.step(&mut world, 0);
    assert!(world.completed.is_empty(), "what settles after the close completes nothing");
    drop(life);
    live(&mut world);
    assert!(world.is_complete());
    assert_eq!(world.passes()["https://example.org/a"], 1, "it had reached `seen`");
}

/// Returns a log with the records of a world in `crawl.seen`.
fn log_of(world: &World) -> MemoryLog {
    let log = MemoryLog::new(&[TopicSpec::new(topic::SEEN, world.partitions, Cleanup::Keep)]);
    let record =
        |record: &ConsumerRecord| Record::new(record.tp, record.key.clone(), record.value.clone(), record.timestamp_ms);
    let appended = log.append(world.records(topic::SEEN).map(record).collect()).now_or_never();
    appended.expect("nothing waits").expect("it is appended");
    log
}

#[test]
fn an_index_is_proven_against_the_log_before_the_start() {
    let mut world = World::defined(1, Scope::Any, None);
    world.links("example.org", 1, &["https://example.org/a"]);
    drop(live(&mut world));
    let mut life = Life::begin(&world);
    life.run(&mut world, usize::MAX);
    life.stage.close(0);
    drop(life);

    let config = world.config();
    let restores = |world: &World| {
        let log = log_of(world);
        let stage = NormalizerDedup::open(config.clone(), &log).now_or_never().expect("nothing waits");
        let stage = stage.expect("it opens");
        stage.restore_specs(0)[0].from
    };
    assert_eq!(restores(&world), RestoreFrom::Offset(0), "the same log");
    assert_eq!(restores(&World::new(1)), RestoreFrom::Start, "another log");
}

#[test]
fn a_crawl_of_another_build_ends_the_service_with_what_differs() {
    let mut world = World::defined(1, Scope::Any, None);
    let mut life = Life::begin(&world);
    world.partitions = 2;
    world.define("wider", Scope::Any, None);
    life.receive_tailed(&mut world);
    let reason = life.halted.expect("a halt");
    assert!(reason.contains("`wider` was created with a number of partitions of 2, and this is 1"), "{reason}");
}

#[test]
fn a_wrong_setting_is_refused() {
    let config = Config { default_include: vec!["(".to_owned()], ..World::new(1).config() };
    let error = NormalizerDedup::new(config).expect_err("out of range");
    assert!(matches!(&error, StageError::Halted { service: "normalizer-dedup", .. }));
    assert!(error.to_string().contains("default_include"), "{error}");
}
