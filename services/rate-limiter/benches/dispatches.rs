//! The cost of a dispatch, from its record to the plan.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use orbweaver_log::{ConsumerRecord, TopicPartition};
use orbweaver_messages::{DiscoveryKind, Dispatch, DispatchId, FrontierUrl, UrlContext, encode, topic::SCHEDULED};
use orbweaver_rate_limiter::{RateLimiterConfig, RateLimiterMetrics, RateLimiterStage};
use orbweaver_stage::{Actions, Origin, PartitionContext, Stage};
use orbweaver_url::CrawlName;
use prometheus::Registry;

const BATCH: u64 = 1000;

fn batch(now: i64) -> Vec<(Origin, ConsumerRecord)> {
    let tp = TopicPartition::new(SCHEDULED, 0);
    let record = |sequence: u64| {
        let site = format!("site-{}.example", sequence % 500);
        let url = format!("https://www.{site}/catalogue/section-{sequence}/a-page-with-a-name.html?page={sequence}");
        let context = UrlContext {
            via: Some(format!("https://www.{site}/catalogue/")),
            depth: 2,
            sighting: DiscoveryKind::Link,
            ..UrlContext::of_seed(CrawlName::default(), url, site.into())
        };
        let dispatch =
            Dispatch::of(&FrontierUrl::admitted(context, now), DispatchId { epoch: 4, sequence }, false, now);
        let key = Some(dispatch.context.site.to_string().into());
        let value = Some(encode(&dispatch));
        let delivered = ConsumerRecord { tp, offset: sequence, timestamp_ms: now, key, value, headers: vec![] };
        (Origin { tp, offset: sequence, assignment_epoch: 1 }, delivered)
    };
    (0..BATCH).map(record).collect()
}

fn dispatches(c: &mut Criterion) {
    let mut group = c.benchmark_group("dispatches");
    group.throughput(Throughput::Elements(BATCH));
    for (name, interval_ms, step_ms) in [("pass", 1000, 2000), ("pass_unlimited", 0, 1), ("defer", 60_000, 0)] {
        let config =
            RateLimiterConfig { rate: orbweaver_settings::Rate { interval_ms }, ..RateLimiterConfig::default() };
        let mut stage = RateLimiterStage::new(config, RateLimiterMetrics::register(&Registry::new()).unwrap());
        stage.open(
            PartitionContext { partition: 0, partitions: 1, assignment_epoch: 1, owner_epoch: 0, commits: [0; 3] },
            1_000_000,
        );
        let mut now = 1_000_000;
        let records = batch(i64::MAX / 2);
        group.bench_function(name, |b| {
            b.iter_batched(
                || records.clone(),
                |records| {
                    now += step_ms;
                    let mut actions = Actions::default();
                    stage.receive(records, now, &mut actions).unwrap();
                    black_box(actions)
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, dispatches);
criterion_main!(benches);
