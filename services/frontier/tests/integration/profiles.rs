//! Crawls with intervals of their own, as the stage dispatches them.

use orbweaver_log::ConsumerRecord;
use orbweaver_messages::{Dispatch, Outcome, OutcomeKind, encode, topic};
use orbweaver_stage::Origin;
use prometheus::Registry;

use crate::play::{self, NOW, Wanted, delivered, follow, open, produced, receive, stage, tick};

/// Default interval of sites, in milliseconds.
const DEFAULT_MS: u64 = 1000;

fn definition(version: u64, crawl: &str, interval_ms: Option<u64>) -> ConsumerRecord {
    play::definition(version, crawl, |definition| definition.profile.interval_ms = interval_ms)
}

/// Returns the records of twenty queued URLs of a crawl, at a site that all crawls share.
fn waiting(from: u64, crawl: &str) -> Vec<(Origin, ConsumerRecord)> {
    (from..from + 20).map(|offset| play::waiting(offset, crawl, &offset.to_string(), |_| {})).collect()
}

/// Returns the dispatches of a crawl.
fn of(actions: &Wanted, crawl: &str) -> Vec<Dispatch> {
    let all: Vec<Dispatch> = produced(actions, topic::SCHEDULED, "dispatch");
    all.into_iter().filter(|dispatch| dispatch.context.crawl == crawl).collect()
}

#[test]
fn a_fast_crawl_has_as_many_dispatches_in_flight_as_a_fast_site_and_others_keep_their_number() {
    let mut stage = stage(&Registry::new(), DEFAULT_MS);
    follow(&mut stage, &definition(3, "fast", Some(100)));
    follow(&mut stage, &definition(4, "slow", Some(60_000)));
    open(&mut stage, 1);
    let actions = receive(&mut stage, [waiting(0, "fast"), waiting(20, "slow"), waiting(40, "docs")].concat());
    let (fast, slow, docs) = (of(&actions, "fast"), of(&actions, "slow"), of(&actions, "docs"));
    assert_eq!((fast.len(), slow.len(), docs.len()), (10, 1, 1));
    let versions = [&fast[0], &slow[0], &docs[0]].map(|dispatch| dispatch.definition);
    assert_eq!(versions, [3, 4, 0], "the last crawl has no definition");
}

#[test]
fn a_changed_interval_applies_to_urls_that_are_queued() {
    let mut stage = stage(&Registry::new(), DEFAULT_MS);
    open(&mut stage, 1);
    assert_eq!(of(&receive(&mut stage, waiting(0, "docs")), "docs").len(), 1);
    // Faster, slower, faster, deleted.
    for (version, interval_ms, then) in [(3, Some(200), 4), (4, Some(500), 0), (5, Some(100), 5)] {
        follow(&mut stage, &definition(version, "docs", interval_ms));
        let dispatched = of(&tick(&mut stage, NOW), "docs");
        assert_eq!(dispatched.len(), then, "{interval_ms:?}");
        assert!(dispatched.iter().all(|dispatch| dispatch.definition == version), "{version}");
    }
    let (_, deleted) = delivered(topic::CONTROL, 6, "crawl/docs".to_owned(), None);
    follow(&mut stage, &deleted);
    assert_eq!(of(&tick(&mut stage, NOW), "docs"), vec![]);
}

#[test]
fn a_pause_as_long_as_the_former_interval_ends_when_the_interval_changes() {
    let mut stage = stage(&Registry::new(), DEFAULT_MS);
    follow(&mut stage, &definition(3, "docs", Some(86_400_000)));
    open(&mut stage, 1);
    let first = of(&receive(&mut stage, waiting(0, "docs")), "docs").remove(0);
    let deferred = Outcome::of(&first, OutcomeKind::Deferred, Some("interval"), NOW);
    let deferred = Outcome { retry_at_ms: Some(NOW + 86_400_000), ..deferred };
    let outcome = delivered(topic::OUTCOMES, 0, "example.org".to_owned(), Some(encode(&deferred)));
    assert_eq!(of(&receive(&mut stage, vec![outcome]), "docs"), vec![]);
    for (version, interval_ms, then) in [(4, 86_400_000, 0), (5, 500, 2)] {
        follow(&mut stage, &definition(version, "docs", Some(interval_ms)));
        assert_eq!(of(&tick(&mut stage, NOW + 1000), "docs").len(), then, "{interval_ms} ms");
    }
}
