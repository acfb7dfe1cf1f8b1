//! The guarantees of [`Log`], [`Consumer`] and [`Reader`](crate::Reader), as tests that every implementation passes.
//!
//! Create the topics of [`specs`], empty, and run [`every_log`]; for a single-process log also run [`one_process`].
//! Each check uses its own topics and groups, and panics with the violated guarantee.

#![allow(
    clippy::expect_used,
    reason = "these are tests, compiled into the library so that every implementation can run them"
)]

mod append;
mod bounds;
mod consume;

use std::time::Duration;

use bytes::Bytes;
use orbweaver_messages::Topic;
use tokio::time::{Instant, timeout_at};

use crate::{Cleanup, Consumer, ConsumerRecord, Event, Log, Offset, Partition, Record, TopicPartition, TopicSpec};

/// Number of partitions of each topic.
pub const PARTITIONS: Partition = 4;

/// Timeout for expected events. A broker may take seconds to assign partitions.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time for which a check watches for events that must not occur.
const QUIET: Duration = Duration::from_millis(150);

const APPEND: Topic = Topic("contract.append");
const REFUSE: Topic = Topic("contract.refuse");
const JOIN: Topic = Topic("contract.join");
const DELIVER: Topic = Topic("contract.deliver");
const PAUSE: Topic = Topic("contract.pause");
const DROPPED: Topic = Topic("contract.dropped");
const WAKE: Topic = Topic("contract.wake");
const COMMIT: Topic = Topic("contract.commit");
const READ: Topic = Topic("contract.read");
const BOUNDS: Topic = Topic("contract.bounds");
const DELETE: Topic = Topic("contract.delete");
const TIME: Topic = Topic("contract.time");
const TURNS: Topic = Topic("contract.turns");
const OTHER: Topic = Topic("contract.other");
const ALONE: Topic = Topic("contract.alone");

/// Returns the topics that the checks use.
#[must_use]
pub fn specs() -> Vec<TopicSpec> {
    [APPEND, REFUSE, JOIN, DELIVER, PAUSE, DROPPED, WAKE, COMMIT, READ, BOUNDS, DELETE, TIME, TURNS, OTHER, ALONE]
        .map(|topic| TopicSpec::new(topic, PARTITIONS, Cleanup::Delete))
        .to_vec()
}

/// Checks the guarantees of every log.
pub async fn every_log(log: &dyn Log) {
    append::offsets_come_in_the_order_of_the_input(log).await;
    append::a_record_is_read_as_it_was_appended(log).await;
    append::what_is_not_there_is_named(log).await;
    append::a_record_that_is_too_large_is_refused_by_itself(log).await;
    consume::partitions_come_first_and_deliver_nothing_before_they_are_started(log).await;
    consume::records_come_once_and_in_order_and_again_after_a_new_start(log).await;
    consume::a_paused_partition_delivers_nothing_until_it_is_resumed(log).await;
    consume::a_dropped_poll_loses_nothing(log).await;
    consume::an_append_wakes_who_waits(log).await;
    consume::commits_outlive_their_member(log).await;
    bounds::a_reader_reads_on_and_waits_at_the_end(log).await;
    bounds::bounds_tell_first_and_next_offset(log).await;
    bounds::what_was_given_up_is_out_of_range(log).await;
    bounds::a_time_finds_the_first_record_made_since(log).await;
}

/// Checks the additional guarantees of a single-process log.
pub async fn one_process(log: &dyn Log) {
    consume::a_second_consumer_of_a_live_group_is_refused(log).await;
    consume::every_partition_of_every_topic_has_its_turn(log).await;
}

fn tp(topic: Topic, partition: Partition) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

fn tps(topic: Topic) -> Vec<TopicPartition> {
    (0..PARTITIONS).map(|partition| tp(topic, partition)).collect()
}

/// Creates a record from a number.
#[must_use]
pub fn record(tp: TopicPartition, number: usize) -> Record {
    Record {
        tp,
        key: Some(Bytes::from(format!("key {number}"))),
        value: Some(Bytes::from(number.to_string())),
        headers: vec![],
        timestamp_ms: 1_700_000_000_000,
    }
}

/// Returns the number of a record.
#[must_use]
pub fn number(record: &ConsumerRecord) -> usize {
    let value = record.value.as_ref().expect("a value");
    std::str::from_utf8(value).expect("text").parse().expect("a number")
}

async fn append(log: &dyn Log, records: Vec<Record>) -> Vec<Offset> {
    log.append(records).await.expect("an append to a healthy log")
}

/// Joins the group and waits until all partitions of `topics` are assigned.
async fn join(log: &dyn Log, group: &str, topics: &[Topic]) -> Box<dyn Consumer> {
    let mut consumer = log.consumer(group, topics).expect("a free group");
    let mut missing: Vec<_> = topics.iter().flat_map(|topic| tps(*topic)).collect();
    let deadline = Instant::now() + PATIENCE;
    while !missing.is_empty() {
        assert!(Instant::now() < deadline, "{missing:?} are never assigned");
        match consumer.poll(PATIENCE).await.expect("a poll of a healthy log") {
            Some(Event::Assigned(came)) => missing.retain(|tp| !came.contains(tp)),
            None => {}
            Some(other) => panic!("before all partitions are assigned came {other:?}"),
        }
    }
    consumer
}

/// Polls until `count` records have arrived.
async fn take(consumer: &mut dyn Consumer, count: usize) -> Vec<ConsumerRecord> {
    let mut records = vec![];
    let deadline = Instant::now() + PATIENCE;
    while records.len() < count {
        let event = timeout_at(deadline, consumer.poll(PATIENCE)).await;
        match event.unwrap_or_else(|_| panic!("{} of {count} records came", records.len())) {
            Ok(Some(Event::Records(batch))) => {
                assert!(!batch.is_empty(), "an empty batch");
                records.extend(batch);
            }
            Ok(None) => {}
            other => panic!("instead of records came {other:?}"),
        }
    }
    assert_eq!(records.len(), count, "more records than were appended");
    records
}

/// Asserts that no event arrives.
async fn quiet(consumer: &mut dyn Consumer) {
    let event = consumer.poll(QUIET).await.expect("a poll of a healthy log");
    assert!(event.is_none(), "what must not be delivered came: {event:?}");
}
