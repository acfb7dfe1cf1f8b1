//! A stage whose calls the tests make, and the records of its topics.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use orbweaver_frontier::{FrontierConfig, FrontierStage, metrics::FrontierMetrics};
use orbweaver_log::{ConsumerRecord, Record, TopicPartition};
use orbweaver_messages::{CrawlDefinition, FrontierUrl, Topic, UrlContext, crawl_key, decode, encode, topic};
use orbweaver_stage::{Actions, Origin, PartitionContext, Stage, Step};
use prometheus::Registry;
use serde::de::DeserializeOwned;

pub(crate) type Wanted = Actions<Infallible, Infallible>;

pub(crate) const NOW: i64 = 1_000_000;

pub(crate) fn delivered(topic: Topic, offset: u64, key: String, value: Option<Bytes>) -> (Origin, ConsumerRecord) {
    let tp = TopicPartition::new(topic, 0);
    let record = ConsumerRecord { tp, offset, timestamp_ms: 0, key: Some(key.into()), value, headers: vec![] };
    (Origin { tp, offset, assignment_epoch: 1 }, record)
}

/// Returns a version of the definition of a crawl, which excludes nothing unless `change` adds a pattern.
pub(crate) fn definition(version: u64, crawl: &str, change: impl FnOnce(&mut CrawlDefinition)) -> ConsumerRecord {
    let host = include_str!("../../../../schemas/examples/crawl-definition/1/host.json");
    let host: CrawlDefinition = serde_json::from_str(host).unwrap();
    let mut definition = CrawlDefinition { name: crawl.parse().unwrap(), exclude: vec![], ..host };
    change(&mut definition);
    delivered(topic::CONTROL, version, crawl_key(&crawl.parse().unwrap()), Some(encode(&definition))).1
}

/// Returns the record of a queued URL of a crawl, at a site that all crawls share.
pub(crate) fn waiting(
    offset: u64,
    crawl: &str,
    path: &str,
    change: impl FnOnce(&mut FrontierUrl),
) -> (Origin, ConsumerRecord) {
    let context =
        UrlContext::of_seed(crawl.parse().unwrap(), format!("https://example.org/{path}"), "example.org".into());
    let mut waiting = FrontierUrl::admitted(context, 0);
    change(&mut waiting);
    delivered(topic::FRONTIER, offset, waiting.context.fingerprint.to_string(), Some(encode(&waiting)))
}

/// Returns a stage without partitions, for sites with this interval.
pub(crate) fn stage(registry: &Registry, default_interval_ms: u64) -> FrontierStage {
    let config = FrontierConfig { default_interval_ms, ..FrontierConfig::default() };
    FrontierStage::new(config, FrontierMetrics::register(registry).unwrap(), Arc::default())
}

/// Opens partition 0.
pub(crate) fn open(stage: &mut FrontierStage, partitions: u32) {
    let opening = PartitionContext { partition: 0, partitions, assignment_epoch: 1, owner_epoch: 0, commits: [0; 3] };
    stage.prepare(opening, NOW).unwrap();
    stage.open(opening, NOW);
}

pub(crate) fn receive(stage: &mut FrontierStage, batch: Vec<(Origin, ConsumerRecord)>) -> Wanted {
    let mut actions = Actions::default();
    stage.receive(batch, NOW, &mut actions).unwrap();
    assert_eq!(actions.rejects, vec![]);
    actions
}

pub(crate) fn follow(stage: &mut FrontierStage, record: &ConsumerRecord) {
    stage.receive_tailed(record, NOW, &mut Actions::default()).unwrap();
}

pub(crate) fn tick(stage: &mut FrontierStage, now: i64) -> Wanted {
    let mut actions = Actions::default();
    stage.tick(now, &mut actions).unwrap();
    actions
}

/// Returns the records that a step of a plan appends.
pub(crate) fn records(step: &Step<Infallible>) -> &[Record] {
    match step {
        Step::Produce(records) => records,
        Step::Perform(_) => panic!("no effects"),
    }
}

/// Returns the messages of this kind that plans append to a topic.
pub(crate) fn produced<T: DeserializeOwned>(actions: &Wanted, to: Topic, message: &'static str) -> Vec<T> {
    let all = actions.plans.iter().flat_map(|plan| &plan.steps).flat_map(records);
    all.filter(|record| record.tp.topic == to).map(|record| decode(message, record.value.as_ref()).unwrap()).collect()
}
