//! Site queues paused by a page cap and resumed, as the stage handles them.

use orbweaver_frontier::metrics;
use orbweaver_log::ConsumerRecord;
use orbweaver_messages::{
    Dispatch, DispatchId, FrontierUrl, Outcome, OutcomeKind, PageCount, UrlContext, encode, pages_key, topic,
};
use orbweaver_stage::{Actions, Origin, Stage};
use prometheus::Registry;

use crate::play::{NOW, Wanted, delivered, follow, open, produced, receive, stage, tick};

fn definition(version: u64, crawl: &str, max_pages: Option<u64>) -> ConsumerRecord {
    crate::play::definition(version, crawl, |definition| definition.max_pages = max_pages)
}

fn waiting(offset: u64, crawl: &str) -> (Origin, ConsumerRecord) {
    crate::play::waiting(offset, crawl, &offset.to_string(), |_| {})
}

fn outcome(offset: u64, dispatch: &Dispatch, kind: OutcomeKind) -> (Origin, ConsumerRecord) {
    let asked = Some(NOW);
    let outcome = Outcome { requested_at_ms: asked, answered_at_ms: asked, ..Outcome::of(dispatch, kind, None, NOW) };
    delivered(topic::OUTCOMES, offset, outcome.context.site.to_string(), Some(encode(&outcome)))
}

fn dispatched(actions: &Wanted) -> Vec<Dispatch> {
    produced(actions, topic::SCHEDULED, "dispatch")
}

fn counts(actions: &Wanted) -> Vec<PageCount> {
    produced(actions, topic::CONTROL, "page count")
}

/// Returns a count of no pages in partition 0.
fn count() -> PageCount {
    let crawl = "docs".parse().unwrap();
    PageCount {
        crawl,
        partition: 0,
        epoch: 0,
        pages: 0,
        bytes: 0,
        leased: 0,
        live: 0,
        asleep: 0,
        upto: 0,
        since: 0,
        held_at: None,
    }
}

#[test]
fn a_crawl_at_its_cap_waits_and_holds_up_no_other_at_the_same_site() {
    let mut stage = stage(&Registry::new(), 0);
    follow(&mut stage, &definition(3, "docs", Some(2)));
    follow(&mut stage, &definition(4, "news", None));
    open(&mut stage, 1);
    let all = (0..5).map(|n| waiting(n, "docs")).chain((5..8).map(|n| waiting(n, "news"))).collect();
    let first = dispatched(&receive(&mut stage, all));
    let of = |crawl: &str| first.iter().filter(|dispatch| dispatch.context.crawl == crawl).count();
    assert_eq!((of("docs"), of("news")), (2, 3), "URLs in flight count");
    // An outcome that is not a page leaves its share of the cap to another URL.
    let mut docs: Vec<Dispatch> = first.iter().filter(|dispatch| dispatch.context.crawl == "docs").cloned().collect();
    let again = receive(&mut stage, vec![outcome(0, &docs.remove(0), OutcomeKind::Gone)]);
    docs.extend(dispatched(&again));
    assert_eq!(docs.len(), 2);
    assert!(docs.iter().all(|dispatch| dispatch.context.crawl == "docs"));
    let ended = docs.iter().zip(1..).map(|(dispatch, at)| outcome(at, dispatch, OutcomeKind::Fetched)).collect();
    assert_eq!(dispatched(&receive(&mut stage, ended)), vec![], "two pages, and two URLs that wait");
    assert_eq!(stage.due(NOW), 0, "nothing could move: the watchdog does not mind");
    // A higher cap, a lower one, none.
    for (version, max, then) in [(5, Some(3), 1), (6, Some(1), 0), (7, None, 1)] {
        follow(&mut stage, &definition(version, "docs", max));
        assert_eq!(dispatched(&tick(&mut stage, NOW)).len(), then, "{max:?}");
    }
}

#[test]
fn what_others_have_fetched_counts_and_a_share_of_what_is_left_may_be_asked_for() {
    let mut stage = stage(&Registry::new(), 0);
    follow(&mut stage, &definition(3, "docs", Some(100)));
    let others = |offset, pages, leased| {
        let count = PageCount { partition: 1, epoch: 5, pages, leased, upto: 200, since: 100, ..count() };
        let (_, mut record) =
            delivered(topic::CONTROL, offset, pages_key(&"docs".parse().unwrap(), 1), Some(encode(&count)));
        record.tp.partition = 1;
        record
    };
    follow(&mut stage, &others(0, 80, 10));
    open(&mut stage, 2);
    let all = (0..50).map(|n| waiting(n, "docs")).collect();
    assert_eq!(dispatched(&receive(&mut stage, all)).len(), 5, "half of the ten that are left, until it has said so");
    let said = tick(&mut stage, NOW);
    assert_eq!((counts(&said)[0].leased, counts(&said)[0].pages), (5, 0));
    assert_eq!(dispatched(&tick(&mut stage, NOW)).len(), 3, "half of the five that are left then");
    follow(&mut stage, &others(1, 92, 0));
    assert_eq!(dispatched(&tick(&mut stage, NOW)).len(), 0, "92 and 8 on their way");
    follow(&mut stage, &others(0, 0, 0));
    assert_eq!(dispatched(&tick(&mut stage, NOW)).len(), 0, "read again, and known");
}

#[test]
fn that_nothing_is_left_but_what_is_held_is_written_down_and_taken_back() {
    let registry = Registry::new();
    let mut stage = stage(&registry, 0);
    follow(&mut stage, &definition(3, "docs", Some(1)));
    open(&mut stage, 1);
    let first = dispatched(&receive(&mut stage, (0..3).map(|n| waiting(n, "docs")).collect())).remove(0);
    let said = tick(&mut stage, NOW);
    assert_eq!(counts(&said)[0].held_at, None, "one is on its way");
    assert_eq!(said.plans.last().unwrap().token, Some(0));
    stage.plan_durable(0, &[0], NOW, &mut Actions::default()).unwrap();
    receive(&mut stage, vec![outcome(0, &first, OutcomeKind::Fetched)]);
    let tombstone = delivered(topic::FRONTIER, 3, first.context.fingerprint.to_string(), None);
    receive(&mut stage, vec![tombstone]);
    assert_eq!(counts(&tick(&mut stage, NOW + 500)), vec![], "at most once per second");
    let held = counts(&tick(&mut stage, NOW + 1_000)).remove(0);
    assert_eq!((held.pages, held.leased, held.held_at), (1, 0, Some(4)));
    let gauge = |name: &str| {
        let families = registry.gather();
        let family = families.iter().find(|family| family.name() == name).unwrap();
        family.get_metric()[0].get_gauge().get_value() as u64
    };
    assert_eq!((gauge(metrics::HELD), gauge(metrics::PAGES)), (2, 1));
    stage.plan_durable(0, &[1], NOW, &mut Actions::default()).unwrap();
    follow(&mut stage, &definition(4, "docs", Some(9)));
    let raised = tick(&mut stage, NOW + 2_000);
    assert_eq!(dispatched(&raised).len(), 2);
    let demoted = counts(&raised).remove(0);
    assert_eq!((demoted.pages, demoted.leased, demoted.held_at), (1, 2, None));
}

#[test]
fn a_restart_counts_on_where_the_records_end() {
    let mut stage = stage(&Registry::new(), 0);
    let count = PageCount { pages: 7, leased: 3, upto: 20, since: 18, ..count() };
    follow(&mut stage, &definition(3, "docs", Some(9)));
    follow(&mut stage, &delivered(topic::CONTROL, 4, pages_key(&"docs".parse().unwrap(), 0), Some(encode(&count))).1);
    assert_eq!(stage.look_back_offset(0, topic::OUTCOMES), Some(18));
    assert_eq!(stage.look_back_offset(0, topic::SCHEDULED), None);
    let context = UrlContext::of_seed("docs".parse().unwrap(), "https://example.org/".to_owned(), "example.org".into());
    let id = DispatchId { epoch: 0, sequence: 0 };
    let dispatch = Dispatch::of(&FrontierUrl::admitted(context, 0), id, false, NOW);
    let ended = |offset: u64| outcome(offset, &dispatch, OutcomeKind::Fetched);
    // Outcomes 18 and 19 are in the record; 20 is not, and is delivered again after the opening.
    (18..21).for_each(|offset| stage.restore(0, &ended(offset).1).unwrap());
    open(&mut stage, 1);
    let again = receive(&mut stage, vec![ended(20)]);
    assert_eq!(dispatched(&again), vec![]);
    let all = (0..5).map(|n| waiting(n, "docs")).collect();
    assert_eq!(dispatched(&receive(&mut stage, all)).len(), 1, "8 pages of 9");
}
