//! Cost of a page of thirty links, one of them new.

#![allow(clippy::expect_used, reason = "a benchmark is a test")]

use std::convert::Infallible;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use orbweaver_log::{ConsumerRecord, Offset, TopicPartition};
use orbweaver_messages::{CrawlDefinition, Discovered, DiscoveryKind, Pins, Scope, crawl_key, encode, topic};
use orbweaver_normalizer_dedup::{Config, NormalizerDedup};
use orbweaver_stage::{Actions, Origin, PartitionContext, Stage};
use orbweaver_url::{Policy, SUFFIX_LIST_VERSION};

const LINKS: usize = 30;
const PAGES_A_POLL: usize = 100;

fn delivered(topic: orbweaver_messages::Topic, offset: Offset, key: &str, value: bytes::Bytes) -> ConsumerRecord {
    ConsumerRecord {
        tp: TopicPartition::new(topic, 0),
        offset,
        timestamp_ms: 0,
        key: Some(bytes::Bytes::copy_from_slice(key.as_bytes())),
        value: Some(value),
        headers: vec![],
    }
}

fn service(directory: &std::path::Path) -> NormalizerDedup {
    let mut service = NormalizerDedup::new(Config::new(directory)).expect("an index");
    let pins = Pins {
        partitions: 1,
        suffix_list: SUFFIX_LIST_VERSION.to_owned(),
        canonical_policy: Policy::STANDARD.to_string(),
        wide_domains: vec![],
    };
    let definition = CrawlDefinition {
        name: "default".to_owned(),
        scope: Scope::Any,
        include: vec![],
        exclude: vec!["/login".to_owned(), "[?&]sessionid=".to_owned()],
        max_depth: None,
        max_pages: None,
        traps: orbweaver_messages::Traps::default(),
        pins,
        created_at_ms: 0,
        replaces: vec![],
    };
    let record = delivered(topic::CONTROL, 0, &crawl_key("default"), encode(&definition));
    service.receive_tailed(&record, 0, &mut Actions::default()).expect("a definition");
    service
        .prepare(
            PartitionContext { partition: 0, partitions: 1, assignment_epoch: 1, owner_epoch: 0, commits: [0, 0] },
            0,
        )
        .expect("an index");
    service
}

/// Creates a poll of pages: of each thirty links the first `fresh` are new, the others lead to a thousand known pages.
fn poll(number: usize, fresh: usize) -> Vec<(Origin, ConsumerRecord)> {
    let record = |page: usize| {
        let page = number * PAGES_A_POLL + page;
        let known =
            |link: usize| format!("https://docs.example.org/library/section/page-{}.html", (page * 7 + link) % 1000);
        let new = |link: usize| format!("https://docs.example.org/library/section/new-{page}-{link}.html");
        let found = Discovered {
            crawl: "default".to_owned(),
            site: "example.org".to_owned(),
            via: Some(format!("https://docs.example.org/library/section/page-{page}.html")),
            depth: 3,
            sighting: DiscoveryKind::Link,
            chain: vec![],
            trail: orbweaver_messages::Trail::default(),
            content: None,
            urls: (0..LINKS).map(|link| if link < fresh { new(link) } else { known(link) }).collect(),
            found_at_ms: 0,
        };
        let offset = page as Offset;
        let origin = Origin { tp: TopicPartition::new(topic::DISCOVERED, 0), offset, assignment_epoch: 1 };
        (origin, delivered(topic::DISCOVERED, offset, "example.org", encode(&found)))
    };
    (0..PAGES_A_POLL).map(record).collect()
}

fn turn(service: &mut NormalizerDedup, batch: Vec<(Origin, ConsumerRecord)>) {
    let mut actions = Actions::<Infallible, Infallible>::default();
    service.receive(batch, 1, &mut actions).expect("the index");
    for plan in std::mem::take(&mut actions.plans) {
        service.plan_durable(plan.token.expect("a token"), &[], 1, &mut actions).expect("the index");
    }
    assert!(actions.rejects.is_empty());
    assert_eq!(actions.completes.len(), PAGES_A_POLL);
}

fn pages(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut service = service(directory.path());
    (0..10).for_each(|number| turn(&mut service, poll(number, 0)));
    let mut group = criterion.benchmark_group("a poll of a hundred pages of thirty links");
    group.throughput(Throughput::Elements((PAGES_A_POLL * LINKS) as u64));
    for (name, fresh) in [("all known", 0), ("one new", 1)] {
        let mut number = 10;
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || {
                    number += 1;
                    poll(number, fresh)
                },
                |batch| turn(&mut service, batch),
                criterion::BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, pages);
criterion_main!(benches);
