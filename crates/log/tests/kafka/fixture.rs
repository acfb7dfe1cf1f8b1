//! Logs on the shared broker, each with its own prefix, whose topics are deleted afterwards.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

pub(crate) use orbweaver_log::contract::{number, record};
use orbweaver_log::{
    Cleanup, Commit, Consumer, ConsumerRecord, Event, Log, Offset, Reader, TopicPartition, TopicSpec,
    kafka::{KafkaConfig, KafkaLog, topics},
};
use orbweaver_messages::Topic;
use tokio::time::Instant;

/// Timeout for expected events.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const ONE: Topic = Topic("crawl.one");
pub(crate) const TWO: Topic = Topic("crawl.two");

/// Returns a partition of [`ONE`].
pub(crate) fn at(partition: u32) -> TopicPartition {
    TopicPartition::new(ONE, partition)
}

pub(crate) fn commit(offset: Offset) -> Commit {
    Commit { offset, metadata: format!("at {offset}") }
}

/// Returns a configuration with a unique prefix.
pub(crate) fn config() -> KafkaConfig {
    KafkaConfig { prefix: orbweaver_testkit::unique("log"), ..KafkaConfig::new(orbweaver_testkit::brokers()) }
}

/// Returns the specifications of a test's topics.
pub(crate) fn specs(topics: &[Topic], partitions: u32) -> Vec<TopicSpec> {
    topics.iter().map(|topic| TopicSpec::new(*topic, partitions, Cleanup::Delete)).collect()
}

/// Runs `test` on a log with these topics, then deletes them, whatever the result.
pub(crate) async fn with<F>(config: KafkaConfig, specs: &[TopicSpec], test: impl FnOnce(Arc<KafkaLog>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let log = Arc::new(KafkaLog::connect(config).await.unwrap());
    topics::create_topics(&log, specs, None).await.unwrap();
    let ended = tokio::spawn(test(log.clone())).await;
    topics::delete(&log).await.unwrap();
    if let Err(failure) = ended {
        std::panic::resume_unwind(failure.into_panic());
    }
}

pub(crate) async fn append(log: &KafkaLog, tp: TopicPartition, numbers: std::ops::Range<usize>) -> Vec<Offset> {
    log.append(numbers.map(|number| record(tp, number)).collect()).await.unwrap()
}

/// Reads until `end`; returns offsets and numbers.
pub(crate) async fn read_to(reader: &mut dyn Reader, end: Offset) -> Vec<(Offset, usize)> {
    let (deadline, mut read) = (Instant::now() + PATIENCE, vec![]);
    while reader.position() < end {
        assert!(Instant::now() < deadline, "it is at {}, the end is {end}", reader.position());
        let batch = reader.read(Duration::from_secs(1)).await.unwrap();
        read.extend(batch.iter().map(|record| (record.offset, number(record))));
    }
    read
}

/// A member that records its events, and releases revoked partitions immediately unless `keeps` is set.
pub(crate) struct Member {
    pub(crate) consumer: Box<dyn Consumer>,
    pub(crate) held: BTreeSet<TopicPartition>,
    pub(crate) revoked: BTreeSet<TopicPartition>,
    pub(crate) lost: BTreeSet<TopicPartition>,
    pub(crate) records: Vec<ConsumerRecord>,
    pub(crate) keeps: bool,
}

impl Member {
    pub(crate) fn join(log: &KafkaLog, group: &str, topics: &[Topic]) -> Self {
        let consumer = log.consumer(group, topics).unwrap();
        let (held, revoked, lost) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Self { consumer, held, revoked, lost, records: vec![], keeps: false }
    }

    /// Joins, and polls until `count` partitions are assigned.
    pub(crate) async fn holding(log: &KafkaLog, group: &str, topics: &[Topic], count: usize) -> Self {
        let mut member = Self::join(log, group, topics);
        member.until("all partitions", |member| member.held.len() == count).await;
        member
    }

    /// Starts all assigned partitions.
    pub(crate) fn start_all(&mut self, from: Offset) {
        for tp in &self.held {
            self.consumer.start(*tp, from).unwrap();
        }
    }

    /// Polls once.
    pub(crate) async fn step(&mut self) {
        match self.consumer.poll(Duration::from_millis(50)).await.unwrap() {
            None => {}
            Some(Event::Records(records)) => {
                assert!(
                    records.iter().all(|record| self.held.contains(&record.tp)),
                    "records of a partition of another member"
                );
                self.records.extend(records);
            }
            Some(Event::Assigned(tps)) => {
                assert!(tps.iter().all(|tp| self.held.insert(*tp)), "assigned twice: {tps:?}");
            }
            Some(Event::Revoked(tps)) => {
                self.revoked.extend(tps.iter().copied());
                if !self.keeps {
                    self.release(&tps);
                }
            }
            Some(Event::Lost(tps)) => {
                self.held.retain(|tp| !tps.contains(tp));
                self.lost.extend(tps);
            }
        }
    }

    pub(crate) fn release(&mut self, tps: &[TopicPartition]) {
        self.consumer.release(tps).unwrap();
        self.held.retain(|tp| !tps.contains(tp));
    }

    /// Polls until `enough` holds.
    pub(crate) async fn until(&mut self, what: &str, enough: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !enough(self) {
            assert!(Instant::now() < deadline, "{what}: never came; held {:?}", self.held);
            self.step().await;
        }
    }

    /// Returns the assigned partitions of a topic.
    pub(crate) fn of(&self, topic: Topic) -> Vec<u32> {
        self.held.iter().filter(|tp| tp.topic == topic).map(|tp| tp.partition).collect()
    }
}

/// Polls two members until `enough` holds.
pub(crate) async fn both_until(
    one: &mut Member,
    two: &mut Member,
    what: &str,
    enough: impl Fn(&Member, &Member) -> bool,
) {
    let deadline = Instant::now() + PATIENCE;
    while !enough(one, two) {
        assert!(Instant::now() < deadline, "{what}: never came; held {:?} and {:?}", one.held, two.held);
        futures::future::join(one.step(), two.step()).await;
    }
}
