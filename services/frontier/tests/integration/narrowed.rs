//! Queued URLs that are out of scope by now, as the stage ends them.

use std::{convert::Infallible, sync::Arc};

use orbweaver_frontier::{FrontierConfig, FrontierStage, metrics};
use orbweaver_log::{ConsumerRecord, Record, TopicPartition};
use orbweaver_messages::{
    CrawlDefinition, DiscoveryKind, Dispatch, FrontierUrl, Outcome, OutcomeKind, Topic, crawl_key, decode, encode,
    topic,
};
use orbweaver_stage::{Actions, Origin, PartitionContext, Plan, Stage, Step};
use orbweaver_url::Fingerprint;
use prometheus::Registry;

type Wanted = Actions<Infallible, Infallible>;

const NOW: i64 = 1_000_000;

fn delivered(topic: Topic, offset: u64, key: String, value: bytes::Bytes) -> ConsumerRecord {
    let tp = TopicPartition::new(topic, 0);
    ConsumerRecord { tp, offset, timestamp_ms: 0, key: Some(key.into()), value: Some(value), headers: vec![] }
}

/// Returns a version of the crawl `docs` with this exclude pattern.
fn definition(version: u64, exclude: &str, max_depth: Option<u16>) -> ConsumerRecord {
    let host = include_str!("../../../../schemas/examples/crawl-definition/1/host.json");
    let host: CrawlDefinition = serde_json::from_str(host).unwrap();
    let definition = CrawlDefinition { exclude: vec![exclude.to_owned()], max_depth, ..host };
    delivered(topic::CONTROL, version, crawl_key("docs"), encode(&definition))
}

fn waiting(offset: u64, path: &str, change: impl FnOnce(&mut FrontierUrl)) -> (Origin, ConsumerRecord) {
    let seed = include_str!("../../../../schemas/examples/waiting/2/seed.json");
    let mut waiting: FrontierUrl = serde_json::from_str(seed).unwrap();
    (waiting.context.crawl, waiting.context.sighting, waiting.context.depth) =
        ("docs".to_owned(), DiscoveryKind::Link, 1);
    waiting.context.url = format!("https://{}/{path}", waiting.context.site);
    waiting.context.key = None;
    waiting.context.fingerprint = Fingerprint::of("docs", &waiting.context.url);
    change(&mut waiting);
    let record = delivered(topic::FRONTIER, offset, waiting.context.fingerprint.to_string(), encode(&waiting));
    (Origin { tp: record.tp, offset, assignment_epoch: 1 }, record)
}

/// Returns a stage that has read version 3 of the crawl and has opened partition 0.
fn stage(registry: &Registry) -> FrontierStage {
    let config = FrontierConfig { default_interval_ms: 0, ..FrontierConfig::default() };
    let mut stage = FrontierStage::new(config, metrics::FrontierMetrics::register(registry).unwrap(), Arc::default());
    let opening =
        PartitionContext { partition: 0, partitions: 1, assignment_epoch: 1, owner_epoch: 0, commits: [0, 0] };
    assert_eq!(stage.tails(), [topic::CONTROL]);
    stage.receive_tailed(&definition(3, "/never", Some(5)), NOW, &mut Actions::default()).unwrap();
    stage.prepare(opening, NOW).unwrap();
    stage.open(opening, NOW);
    stage
}

fn receive(stage: &mut FrontierStage, batch: Vec<(Origin, ConsumerRecord)>) -> Wanted {
    let mut actions = Actions::default();
    stage.receive(batch, NOW, &mut actions).unwrap();
    assert_eq!(actions.rejects, vec![]);
    actions
}

fn follow(stage: &mut FrontierStage, record: &ConsumerRecord) {
    stage.receive_tailed(record, NOW, &mut Actions::default()).unwrap();
}

fn produced(plan: &Plan<Infallible>, step: usize) -> &[Record] {
    match &plan.steps[step] {
        Step::Produce(records) => records,
        Step::Perform(_) => panic!("no effects"),
    }
}

/// Returns the paths that were dispatched, and those that were refused, each with its reason.
fn ends(actions: &Wanted) -> (Vec<String>, Vec<(String, String)>) {
    let (mut dispatched, mut refused) = (vec![], vec![]);
    let path = |url: &str| url.rsplit('/').next().unwrap().to_owned();
    for record in actions.plans.iter().flat_map(|plan| produced(plan, 0)) {
        if record.tp.topic == topic::SCHEDULED {
            dispatched.push(path(&decode::<Dispatch>("dispatch", record.value.as_ref()).unwrap().context.url));
        } else if record.tp.topic == topic::OUTCOMES {
            let outcome: Outcome = decode("outcome", record.value.as_ref()).unwrap();
            assert_eq!((outcome.kind, outcome.requested_at_ms), (OutcomeKind::Refused, None));
            refused.push((path(&outcome.context.url), outcome.reason.unwrap()));
        }
    }
    (dispatched, refused)
}

fn pair(path: &str, reason: &str) -> (String, String) {
    (path.to_owned(), reason.to_owned())
}

#[test]
fn its_outcome_is_durable_before_its_tombstone_and_that_before_its_origin_completes() {
    let mut stage = stage(&Registry::new());
    follow(&mut stage, &definition(4, "/a", Some(5)));
    let (a, b) = (waiting(0, "a", |_| {}), waiting(1, "b", |_| {}));
    let origin = a.0;
    let actions = receive(&mut stage, vec![a, b]);
    assert_eq!(ends(&actions), (vec!["b".to_owned()], vec![pair("a", "excluded")]));
    let plan = actions.plans.iter().find(|plan| plan.steps.len() == 2).unwrap();
    let (outcome, tombstone) = (&produced(plan, 0)[0], &produced(plan, 1)[0]);
    assert_eq!((outcome.tp.topic, tombstone.tp.topic), (topic::OUTCOMES, topic::FRONTIER));
    assert_eq!((&tombstone.value, &plan.completes), (&None, &vec![origin]));
    // The outcome is read back and changes nothing.
    let back = Origin { tp: TopicPartition::new(topic::OUTCOMES, 0), offset: 0, assignment_epoch: 1 };
    let value = outcome.value.clone().unwrap();
    let back = (back, delivered(topic::OUTCOMES, 0, "site".to_owned(), value));
    let actions = receive(&mut stage, vec![back.clone()]);
    assert_eq!(actions.completes, [back.0]);
    assert!(actions.plans.is_empty(), "{:?}", actions.plans);
}

#[test]
fn depth_and_patterns_refuse_and_a_seed_is_always_in_scope() {
    let mut stage = stage(&Registry::new());
    follow(&mut stage, &definition(4, "/a", Some(2)));
    let batch = vec![
        waiting(0, "a", |waiting| waiting.context.sighting = DiscoveryKind::Seed),
        waiting(1, "b", |waiting| waiting.context.depth = 3),
        waiting(2, "c", |waiting| waiting.context.depth = 2),
        waiting(3, "ab", |waiting| waiting.context.sighting = DiscoveryKind::Redirect),
    ];
    let (dispatched, refused) = ends(&receive(&mut stage, batch));
    assert_eq!(dispatched, ["a", "c"]);
    assert_eq!(refused, [pair("ab", "excluded"), pair("b", "too_deep")]);
}

#[test]
fn nothing_is_refused_by_an_older_definition_than_the_one_that_let_something_through() {
    let mut stage = stage(&Registry::new());
    follow(&mut stage, &definition(4, "/a", None));
    // Version 6 has admitted the URL, and has not been read here yet.
    let newer = receive(&mut stage, vec![waiting(0, "a6", |waiting| waiting.definition = 6), waiting(1, "a3", |_| {})]);
    assert_eq!(ends(&newer), (vec!["a6".to_owned(), "a3".to_owned()], vec![]));
    follow(&mut stage, &definition(6, "/a[0-4]", None));
    let batch =
        vec![waiting(2, "a2", |_| {}), waiting(3, "a7", |waiting| waiting.definition = 6), waiting(4, "a5", |_| {})];
    assert_eq!(
        ends(&receive(&mut stage, batch)),
        (vec!["a7".to_owned(), "a5".to_owned()], vec![pair("a2", "excluded")])
    );
}

#[test]
fn a_definition_that_cannot_be_used_is_counted_and_what_applied_goes_on_to_apply() {
    let registry = Registry::new();
    let mut stage = stage(&registry);
    follow(&mut stage, &definition(4, "/a", None));
    follow(&mut stage, &definition(5, "(", None));
    let batch = vec![waiting(0, "a", |_| {}), waiting(1, "b", |_| {})];
    assert_eq!(ends(&receive(&mut stage, batch)), (vec!["b".to_owned()], vec![pair("a", "excluded")]));
    let families = registry.gather();
    let metric = |name: &str| families.iter().find(|family| family.name() == name).unwrap().get_metric()[0].clone();
    assert_eq!(metric(metrics::REFUSED_DEFINITIONS).get_counter().get_value() as u64, 1);
    assert_eq!(metric(metrics::DEFINITION_VERSION).get_gauge().get_value() as u64, 4);
    assert_eq!(metric(metrics::REFUSED).get_counter().get_value() as u64, 1);
}

#[test]
fn what_is_outside_ends_in_turns_of_bounded_size_whatever_the_rate_of_its_site() {
    let config = FrontierConfig { default_interval_ms: 1_000, ..FrontierConfig::default() };
    let mut stage =
        FrontierStage::new(config, metrics::FrontierMetrics::register(&Registry::new()).unwrap(), Arc::default());
    let opening =
        PartitionContext { partition: 0, partitions: 1, assignment_epoch: 1, owner_epoch: 0, commits: [0, 0] };
    stage.receive_tailed(&definition(3, "/a", None), NOW, &mut Actions::default()).unwrap();
    for number in 0..2_000 {
        // Admitted under the previous version.
        let (_, record) = waiting(number, &format!("a{number}"), |waiting| waiting.definition = 2);
        stage.restore(0, &record).unwrap();
    }
    stage.prepare(opening, NOW).unwrap();
    stage.open(opening, NOW);
    let sizes: Vec<usize> = (0..5)
        .map(|_| {
            let mut actions = Actions::default();
            stage.tick(NOW, &mut actions).unwrap();
            ends(&actions).1.len()
        })
        .collect();
    assert_eq!(sizes, [512, 512, 512, 464, 0]);
}
