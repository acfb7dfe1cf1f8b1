//! Creation of the default crawl by seeds alone.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use bytes::Bytes;
use orbweaver_log::{ConsumerRecord, Record, TopicPartition};
use orbweaver_messages::{CrawlDefinition, Scope, Traps, decode, topic};
use orbweaver_normalizer_dedup::{Config, NormalizerDedup};
use orbweaver_stage::{Actions, Origin, PartitionContext, Stage, Step};

type Wanted = Actions<std::convert::Infallible, std::convert::Infallible>;

const GRACE_MS: i64 = 5_000;

fn stage(dir: &std::path::Path, default: Config) -> NormalizerDedup {
    let config = Config { definition_grace_ms: GRACE_MS, index_dir: dir.into(), ..default };
    let mut stage = NormalizerDedup::new(config).unwrap();
    stage
        .prepare(
            PartitionContext { partition: 0, partitions: 1, assignment_epoch: 1, owner_epoch: 0, commits: [0, 0] },
            0,
        )
        .unwrap();
    stage
}

fn any() -> Config {
    Config {
        creates_default_crawl: true,
        default_scope: Scope::Any,
        default_exclude: vec!["/private/".into()],
        default_max_depth: Some(3),
        default_max_pages: Some(1_000),
        default_traps: Traps::Strict,
        default_canonical: "aggressive".parse().unwrap(),
        ..Config::default()
    }
}

fn seed(offset: u64, text: &'static str) -> (Origin, ConsumerRecord) {
    let tp = TopicPartition::new(topic::SEEDS, 0);
    let value = Some(Bytes::from_static(text.as_bytes()));
    let record = ConsumerRecord { tp, offset, timestamp_ms: 0, key: None, value, headers: vec![] };
    (Origin { tp, offset, assignment_epoch: 1 }, record)
}

fn produced(actions: &Wanted, to: topic::Topic) -> Vec<Record> {
    let steps = actions.plans.iter().flat_map(|plan| &plan.steps);
    let records = steps.filter_map(|step| if let Step::Produce(records) = step { Some(records) } else { None });
    records.flatten().filter(|record| record.tp.topic == to).cloned().collect()
}

/// Takes the single requested refresh.
fn refresh_of(actions: &mut Wanted) -> u64 {
    let [refresh] = std::mem::take(&mut actions.refreshes)[..] else { panic!("not one refresh") };
    refresh
}

#[test]
fn the_default_crawl_is_created_once_nobody_else_has_and_its_seeds_go_on_then() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = stage(dir.path(), any());
    let mut actions = Wanted::default();
    stage.receive(vec![seed(0, "http://a.example/"), seed(1, "http://b.example/")], 0, &mut actions).unwrap();
    let refresh = refresh_of(&mut actions);
    stage.tick(24 * 3_600_000, &mut actions).unwrap();
    assert!(actions.plans.is_empty() && actions.rejects.is_empty(), "its definition may be in an unread part");
    stage.refreshed(refresh, GRACE_MS - 1, &mut actions).unwrap();
    stage.tick(GRACE_MS - 1, &mut actions).unwrap();
    assert!(actions.plans.is_empty() && actions.rejects.is_empty(), "its definition may be on its way");

    stage.tick(GRACE_MS, &mut actions).unwrap();
    let written = produced(&actions, topic::CONTROL);
    assert_eq!(written.len(), 1, "one for all seeds that wait");
    let definition: CrawlDefinition = decode("crawl-definition", written[0].value.as_ref()).unwrap();
    assert_eq!((definition.name.as_str(), definition.scope, definition.max_depth), ("default", Scope::Any, Some(3)));
    assert_eq!((definition.max_pages, definition.traps), (Some(1_000), Traps::Strict));
    assert_eq!((definition.pins.partitions, definition.exclude.len()), (1, 1));
    assert_eq!(definition.pins.canonical_policy, "aggressive/1");
    assert!(
        produced(&actions, topic::DISCOVERED).is_empty() && actions.rejects.is_empty(),
        "not before it is read back"
    );
    let again = refresh_of(&mut actions);
    stage.tick(24 * 3_600_000, &mut actions).unwrap();
    assert_eq!(produced(&actions, topic::CONTROL).len(), 1, "no second one before the log was read behind the first");
    assert!(again > refresh);

    let mut actions = Wanted::default();
    let Record { tp, key, value, .. } = written[0].clone();
    let record = ConsumerRecord { tp, offset: 7, timestamp_ms: 0, key, value, headers: vec![] };
    stage.receive_tailed(&record, GRACE_MS + 1, &mut actions).unwrap();
    assert_eq!(produced(&actions, topic::DISCOVERED).len(), 2);
    assert!(produced(&actions, topic::CONTROL).is_empty() && actions.rejects.is_empty());
}

#[test]
fn another_unknown_crawl_goes_to_the_dead_letters_and_so_does_any_where_none_may_be_created() {
    for (default, text) in
        [(any(), r#"{"url": "http://a.example/", "crawl": "typo"}"#), (Config::default(), "http://a.example/")]
    {
        let dir = tempfile::tempdir().unwrap();
        let mut stage = stage(dir.path(), default);
        let mut actions = Wanted::default();
        stage.receive(vec![seed(0, text)], 0, &mut actions).unwrap();
        let refresh = refresh_of(&mut actions);
        stage.refreshed(refresh, 1, &mut actions).unwrap();
        stage.tick(GRACE_MS - 1, &mut actions).unwrap();
        assert_eq!(actions.rejects, []);
        stage.tick(GRACE_MS, &mut actions).unwrap();
        assert!(produced(&actions, topic::CONTROL).is_empty());
        assert!(actions.rejects[0].1.starts_with("there is no crawl `"), "{:?}", actions.rejects);
    }
}
