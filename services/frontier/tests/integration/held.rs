//! Site queues paused by a page cap and resumed, as the stage handles them.

use std::{convert::Infallible, sync::Arc};

use orbweaver_frontier::{FrontierConfig, FrontierStage, metrics};
use orbweaver_log::{ConsumerRecord, Record, TopicPartition};
use orbweaver_messages::{
    CrawlDefinition, Dispatch, FrontierUrl, Outcome, OutcomeKind, PageCount, Topic, crawl_key, decode, encode,
    pages_key, topic,
};
use orbweaver_stage::{Actions, Origin, PartitionContext, Stage, Step};
use orbweaver_url::Fingerprint;
use prometheus::Registry;

type Wanted = Actions<Infallible, Infallible>;

const NOW: i64 = 1_000_000;

fn delivered(topic: Topic, offset: u64, key: String, value: bytes::Bytes) -> ConsumerRecord {
    let tp = TopicPartition::new(topic, 0);
    ConsumerRecord { tp, offset, timestamp_ms: 0, key: Some(key.into()), value: Some(value), headers: vec![] }
}

fn definition(version: u64, crawl: &str, max_pages: Option<u64>) -> ConsumerRecord {
    let host = include_str!("../../../../schemas/examples/crawl-definition/1/host.json");
    let host: CrawlDefinition = serde_json::from_str(host).unwrap();
    let definition = CrawlDefinition { name: crawl.to_owned(), exclude: vec![], max_pages, ..host };
    delivered(topic::CONTROL, version, crawl_key(crawl), encode(&definition))
}

/// Returns a record of a queued URL of a crawl, at a site that all crawls share.
fn waiting(offset: u64, crawl: &str) -> (Origin, ConsumerRecord) {
    let seed = include_str!("../../../../schemas/examples/waiting/2/seed.json");
    let mut waiting: FrontierUrl = serde_json::from_str(seed).unwrap();
    (waiting.context.crawl, waiting.context.key, waiting.definition) = (crawl.to_owned(), None, 0);
    waiting.context.url = format!("https://{}/{offset}", waiting.context.site);
    waiting.context.fingerprint = Fingerprint::of(crawl, &waiting.context.url);
    let record = delivered(topic::FRONTIER, offset, waiting.context.fingerprint.to_string(), encode(&waiting));
    (Origin { tp: record.tp, offset, assignment_epoch: 1 }, record)
}

fn outcome(offset: u64, dispatch: Dispatch, kind: OutcomeKind) -> (Origin, ConsumerRecord) {
    let fetched = include_str!("../../../../schemas/examples/outcome/2/fetched.json");
    let fetched: Outcome = serde_json::from_str(fetched).unwrap();
    let Dispatch { id, context, attempt, .. } = dispatch;
    let outcome = Outcome { id, context, attempt, kind, ..fetched };
    let record = delivered(topic::OUTCOMES, offset, outcome.context.site.clone(), encode(&outcome));
    (Origin { tp: record.tp, offset, assignment_epoch: 1 }, record)
}

fn stage(registry: &Registry) -> FrontierStage {
    let config = FrontierConfig { default_interval_ms: 0, ..FrontierConfig::default() };
    FrontierStage::new(config, metrics::FrontierMetrics::register(registry).unwrap(), Arc::default())
}

fn open(stage: &mut FrontierStage, partitions: u32) {
    let opening = PartitionContext { partition: 0, partitions, assignment_epoch: 1, owner_epoch: 0, commits: [0, 0] };
    stage.prepare(opening, NOW).unwrap();
    stage.open(opening, NOW);
}

fn receive(stage: &mut FrontierStage, batch: Vec<(Origin, ConsumerRecord)>) -> Wanted {
    let mut actions = Actions::default();
    stage.receive(batch, NOW, &mut actions).unwrap();
    assert_eq!(actions.rejects, vec![]);
    actions
}

fn tick(stage: &mut FrontierStage, now: i64) -> Wanted {
    let mut actions = Actions::default();
    stage.tick(now, &mut actions).unwrap();
    actions
}

fn produced(actions: &Wanted, to: Topic) -> Vec<Record> {
    let steps = actions.plans.iter().flat_map(|plan| &plan.steps);
    let records = steps.flat_map(|step| match step {
        Step::Produce(records) => records.clone(),
        Step::Perform(_) => panic!("no effects"),
    });
    records.filter(|record| record.tp.topic == to).collect()
}

fn dispatched(actions: &Wanted) -> Vec<Dispatch> {
    produced(actions, topic::SCHEDULED)
        .iter()
        .map(|record| decode("dispatch", record.value.as_ref()).unwrap())
        .collect()
}

fn counts(actions: &Wanted) -> Vec<PageCount> {
    produced(actions, topic::CONTROL)
        .iter()
        .map(|record| decode("page count", record.value.as_ref()).unwrap())
        .collect()
}

fn crawls(dispatches: &[Dispatch]) -> Vec<&str> {
    dispatches.iter().map(|dispatch| &*dispatch.context.crawl).collect()
}

/// Delivers the tombstone of a URL.
fn buried(stage: &mut FrontierStage, offset: u64, dispatch: &Dispatch) {
    let mut record = delivered(topic::FRONTIER, offset, dispatch.context.fingerprint.to_string(), bytes::Bytes::new());
    record.value = None;
    let origin = Origin { tp: record.tp, offset, assignment_epoch: 1 };
    receive(stage, vec![(origin, record)]);
}

#[test]
fn a_crawl_at_its_cap_waits_and_holds_up_no_other_at_the_same_site() {
    let mut stage = stage(&Registry::new());
    stage.receive_tailed(&definition(3, "docs", Some(2)), NOW, &mut Actions::default()).unwrap();
    stage.receive_tailed(&definition(4, "news", None), NOW, &mut Actions::default()).unwrap();
    open(&mut stage, 1);
    let all = (0..5).map(|n| waiting(n, "docs")).chain((5..8).map(|n| waiting(n, "news"))).collect();
    let first = dispatched(&receive(&mut stage, all));
    let of = |crawl: &str| first.iter().filter(|dispatch| dispatch.context.crawl == crawl).count();
    assert_eq!((of("docs"), of("news")), (2, 3), "URLs in flight count");
    // An outcome that is not a page leaves its share of the cap to another URL.
    let mut docs: Vec<Dispatch> = first.iter().filter(|dispatch| dispatch.context.crawl == "docs").cloned().collect();
    let again = receive(&mut stage, vec![outcome(0, docs.remove(0), OutcomeKind::Gone)]);
    assert_eq!(crawls(&dispatched(&again)), ["docs"]);
    docs.extend(dispatched(&again));
    let ended = docs.into_iter().zip(1..).map(|(dispatch, at)| outcome(at, dispatch, OutcomeKind::Fetched)).collect();
    assert_eq!(dispatched(&receive(&mut stage, ended)), vec![], "two pages, and two URLs that wait");
    assert_eq!(stage.due(NOW), 0, "nothing could move: the watchdog does not mind");
    // A higher cap, a lower one, none.
    for (version, max, then) in [(5, Some(3), 1), (6, Some(1), 0), (7, None, 1)] {
        stage.receive_tailed(&definition(version, "docs", max), NOW, &mut Actions::default()).unwrap();
        assert_eq!(dispatched(&tick(&mut stage, NOW)).len(), then, "{max:?}");
    }
}

#[test]
fn what_others_have_fetched_counts_and_a_share_of_what_is_left_may_be_asked_for() {
    let mut stage = stage(&Registry::new());
    stage.receive_tailed(&definition(3, "docs", Some(100)), NOW, &mut Actions::default()).unwrap();
    let others = |offset, pages, leased| {
        let count = PageCount {
            crawl: "docs".to_owned(),
            partition: 1,
            epoch: 5,
            pages,
            leased,
            upto: 200,
            since: 100,
            held_at: None,
        };
        let mut record = delivered(topic::CONTROL, offset, pages_key("docs", 1), encode(&count));
        record.tp.partition = 1;
        record
    };
    stage.receive_tailed(&others(0, 80, 10), NOW, &mut Actions::default()).unwrap();
    open(&mut stage, 2);
    let all = (0..50).map(|n| waiting(n, "docs")).collect();
    assert_eq!(dispatched(&receive(&mut stage, all)).len(), 5, "half of the ten that are left, until it has said so");
    let said = tick(&mut stage, NOW);
    assert_eq!((counts(&said)[0].leased, counts(&said)[0].pages), (5, 0));
    assert_eq!(dispatched(&tick(&mut stage, NOW)).len(), 3, "half of the five that are left then");
    stage.receive_tailed(&others(1, 92, 0), NOW, &mut Actions::default()).unwrap();
    assert_eq!(dispatched(&tick(&mut stage, NOW)).len(), 0, "92 and 8 on their way");
    stage.receive_tailed(&others(0, 0, 0), NOW, &mut Actions::default()).unwrap();
    assert_eq!(dispatched(&tick(&mut stage, NOW)).len(), 0, "read again, and known");
}

#[test]
fn that_nothing_is_left_but_what_is_held_is_written_down_and_taken_back() {
    let registry = Registry::new();
    let mut stage = stage(&registry);
    stage.receive_tailed(&definition(3, "docs", Some(1)), NOW, &mut Actions::default()).unwrap();
    open(&mut stage, 1);
    let first = dispatched(&receive(&mut stage, (0..3).map(|n| waiting(n, "docs")).collect())).remove(0);
    let said = tick(&mut stage, NOW);
    assert_eq!(counts(&said)[0].held_at, None, "one is on its way");
    assert_eq!(said.plans.last().unwrap().token, Some(0));
    stage.plan_durable(0, &[0], NOW, &mut Actions::default()).unwrap();
    receive(&mut stage, vec![outcome(0, first.clone(), OutcomeKind::Fetched)]);
    buried(&mut stage, 3, &first);
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
    stage.receive_tailed(&definition(4, "docs", Some(9)), NOW, &mut Actions::default()).unwrap();
    let raised = tick(&mut stage, NOW + 2_000);
    assert_eq!(dispatched(&raised).len(), 2);
    let back = counts(&raised).remove(0);
    assert_eq!((back.pages, back.leased, back.held_at), (1, 2, None));
}

#[test]
fn a_restart_counts_on_where_the_records_end() {
    let mut stage = stage(&Registry::new());
    let count = PageCount {
        crawl: "docs".to_owned(),
        partition: 0,
        epoch: 0,
        pages: 7,
        leased: 3,
        upto: 20,
        since: 18,
        held_at: None,
    };
    stage.receive_tailed(&definition(3, "docs", Some(9)), NOW, &mut Actions::default()).unwrap();
    stage
        .receive_tailed(
            &delivered(topic::CONTROL, 4, pages_key("docs", 0), encode(&count)),
            NOW,
            &mut Actions::default(),
        )
        .unwrap();
    assert_eq!(stage.look_back_offset(0, topic::OUTCOMES), Some(18));
    assert_eq!(stage.look_back_offset(0, topic::SCHEDULED), None);
    let ended = |offset: u64| {
        let dispatch = include_str!("../../../../schemas/examples/dispatch/2/first-attempt.json");
        let mut dispatch: Dispatch = serde_json::from_str(dispatch).unwrap();
        dispatch.context.crawl = "docs".to_owned();
        outcome(offset, dispatch, OutcomeKind::Fetched)
    };
    // Outcomes 18 and 19 are in the record; 20 is not, and is delivered again after the opening.
    (18..21).for_each(|offset| stage.restore(0, &ended(offset).1).unwrap());
    open(&mut stage, 1);
    let again = receive(&mut stage, vec![ended(20)]);
    assert_eq!(dispatched(&again), vec![]);
    let all = (0..5).map(|n| waiting(n, "docs")).collect();
    assert_eq!(dispatched(&receive(&mut stage, all)).len(), 1, "8 pages of 9");
}
