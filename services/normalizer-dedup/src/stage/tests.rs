use orbweaver_messages::{Scope, crawl_key};

use super::*;

fn delivered(topic: Topic, offset: Offset, key: &str, value: bytes::Bytes) -> (Origin, ConsumerRecord) {
    let tp = TopicPartition::new(topic, 0);
    let key = Some(bytes::Bytes::copy_from_slice(key.as_bytes()));
    let record = ConsumerRecord { tp, offset, timestamp_ms: 0, key, value: Some(value), headers: vec![] };
    (Origin { tp, offset, assignment_epoch: 1 }, record)
}

fn links(offset: Offset, depth: u16) -> (Origin, ConsumerRecord) {
    let urls: Vec<_> = (0..100).map(|link| format!("https://example.org/{link}")).collect();
    let found = format!(
        r#"{{"crawl":"default","site":"example.org","depth":{depth},"sighting":"link","urls":{urls:?},"found_at_ms":0}}"#
    );
    delivered(topic::DISCOVERED, offset, "example.org", found.into())
}

#[test]
fn links_of_a_record_that_wait_for_the_same_plan_share_its_other_fields() {
    let directory = tempfile::tempdir().unwrap();
    let mut stage = NormalizerDedup::new(Config::new(directory.path())).unwrap();
    let crawl = Config { default_max_depth: Some(3), default_scope: Scope::Any, ..Config::default() };
    let (_, control) =
        delivered(topic::CONTROL, 0, &crawl_key(&"default".parse().unwrap()), encode(&crawl.definition(1, 0)));
    stage.receive_tailed(&control, 0, &mut Actions::default()).unwrap();
    let opening =
        PartitionContext { partition: 0, partitions: 1, assignment_epoch: 1, owner_epoch: 0, commits: [0; 3] };
    stage.prepare(opening, 0).unwrap();
    let mut actions = Actions::default();
    stage.receive(vec![links(0, 3), links(1, 2)], 0, &mut actions).unwrap();
    let token = actions.plans[0].token.unwrap();
    let settled = stage.served.get_mut(&0).unwrap().pending.settle(token).unwrap();
    let deferred: Vec<_> = settled.deferred.iter().map(|(origin, found)| (origin.offset, found.urls.len())).collect();
    assert_eq!(deferred, [(1, 100)]);
}
