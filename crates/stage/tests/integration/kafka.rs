//! The runtime on real brokers: two runners of one group, moving partitions, correct commits.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use orbweaver_log::{
    Cleanup, ConsumerRecord, Log, Record, TopicPartition, TopicSpec,
    kafka::{KafkaConfig, KafkaLog, topics},
};
use orbweaver_messages::{Millis, Topic, topic};
use orbweaver_stage::{
    Actions, NoEffects, NoJobs, Origin, PartitionContext, Runner, RunnerConfig, Stage, StageError,
    completion::{GroupTopic, OffsetSnapshot},
    metrics::Metrics,
};
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

const PARTITIONS: u32 = 8;
const TOPICS: [Topic; 2] = [topic::DISCOVERED, topic::OUTCOMES];
/// Records per partition appended at a time, and the number of rounds.
const AT_ONCE: usize = 10;
const ROUNDS: [usize; 3] = [10, 30, 5];
const RECORDS: usize = AT_ONCE * (ROUNDS[0] + ROUNDS[1] + ROUNDS[2]);
const PATIENCE: Duration = Duration::from_secs(90);

/// A stage that copies each record to `crawl.documents`; the copy contains the record's topic-partition and offset.
struct Copy;

impl Stage for Copy {
    type Job = Infallible;
    type Done = ();
    type Effect = Infallible;

    fn service(&self) -> &'static str {
        "copy"
    }

    fn topics(&self) -> &'static [Topic] {
        &TOPICS
    }

    fn claimed_topics(&self) -> &'static [Topic] {
        &[topic::SITES]
    }

    fn receive(
        &mut self,
        batch: Vec<(Origin, ConsumerRecord)>,
        _: Millis,
        actions: &mut Actions<Infallible, Infallible>,
    ) -> Result<(), StageError> {
        for (origin, record) in batch {
            let tp = TopicPartition::new(topic::DOCUMENTS, record.tp.partition);
            let value = Some(Bytes::from(format!("{} {}", record.tp, record.offset)));
            let copy = Record { tp, key: None, value, headers: vec![], timestamp_ms: 1 };
            actions.produce(vec![copy], vec![origin]);
        }
        Ok(())
    }

    fn due(&self, _: Millis) -> usize {
        0
    }
}

fn all(topic: Topic) -> Vec<TopicPartition> {
    (0..PARTITIONS).map(|partition| TopicPartition::new(topic, partition)).collect()
}

/// Starts a runner on its own connection, as in a separate process.
async fn run(config: &KafkaConfig, shutdown: &CancellationToken) -> JoinHandle<()> {
    let log = Arc::new(KafkaLog::connect(config.clone()).await.unwrap());
    let settings = RunnerConfig { commit_interval: Duration::from_millis(500), ..RunnerConfig::default() };
    let metrics = Metrics::register(&prometheus::Registry::new()).unwrap();
    let runner = Runner::new(Copy, log, NoJobs, NoEffects, settings).with_metrics(&metrics);
    let shutdown = shutdown.clone();
    tokio::spawn(async move { runner.run(shutdown).await.unwrap() })
}

async fn feed(log: &KafkaLog, rounds: usize) {
    for _ in 0..rounds {
        let tps = TOPICS.into_iter().flat_map(all).flat_map(|tp| [tp; AT_ONCE]);
        let record = |tp| Record { tp, key: None, value: Some(Bytes::new()), headers: vec![], timestamp_ms: 1 };
        log.append(tps.map(record).collect()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A stage of one topic that reads another completely, and counts its calls.
#[derive(Clone, Default)]
struct Settings {
    opened: Arc<AtomicUsize>,
    followed: Arc<AtomicUsize>,
}

impl Stage for Settings {
    type Job = Infallible;
    type Done = ();
    type Effect = Infallible;

    fn service(&self) -> &'static str {
        "settings"
    }

    fn topics(&self) -> &'static [Topic] {
        &[topic::SEEDS]
    }

    fn tails(&self) -> &'static [Topic] {
        &[topic::CONTROL]
    }

    fn receive_tailed(
        &mut self,
        _: &ConsumerRecord,
        _: Millis,
        _: &mut Actions<Infallible, Infallible>,
    ) -> Result<(), StageError> {
        self.followed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn open(&mut self, _: PartitionContext, _: Millis) {
        assert_eq!(self.followed.load(Ordering::Relaxed), 1024, "all settings, before the first partition opens");
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    fn receive(
        &mut self,
        _: Vec<(Origin, ConsumerRecord)>,
        _: Millis,
        _: &mut Actions<Infallible, Infallible>,
    ) -> Result<(), StageError> {
        Ok(())
    }

    fn due(&self, _: Millis) -> usize {
        0
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn sixty_four_partitions_open_behind_a_thousand_partitions_of_settings() {
    let config =
        KafkaConfig { prefix: orbweaver_testkit::unique("tails"), ..KafkaConfig::new(orbweaver_testkit::brokers()) };
    let log = Arc::new(KafkaLog::connect(config.clone()).await.unwrap());
    let spec = |topic, partitions| TopicSpec::new(topic, partitions, Cleanup::Delete);
    let specs = [spec(topic::SEEDS, 64), spec(topic::DEAD_LETTERS, 64), spec(topic::CONTROL, 1024)];
    topics::create_topics(&log, &specs, None).await.unwrap();
    let test = tokio::spawn({
        let log = log.clone();
        async move {
            let tp = |partition| TopicPartition::new(topic::CONTROL, partition);
            let record = |tp| Record { tp, key: None, value: Some(Bytes::new()), headers: vec![], timestamp_ms: 1 };
            log.append((0..1024).map(tp).map(record).collect()).await.unwrap();
            let (stage, shutdown) = (Settings::default(), CancellationToken::new());
            let metrics = Metrics::register(&prometheus::Registry::new()).unwrap();
            let opened = stage.opened.clone();
            let runner = Runner::new(stage, log, NoJobs, NoEffects, RunnerConfig::default()).with_metrics(&metrics);
            let begun = Instant::now();
            let running = tokio::spawn(runner.run(shutdown.clone()));
            while opened.load(Ordering::Relaxed) < 64 {
                assert!(begun.elapsed() < PATIENCE && !running.is_finished(), "{opened:?} are open");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            println!("64 partitions, 1,024 of settings: open {:?} after the start", begun.elapsed());
            shutdown.cancel();
            running.await.unwrap().unwrap();
        }
    });
    let ended = test.await;
    topics::delete(&log).await.unwrap();
    ended.unwrap();
}

/// Waits until partitions were opened `times` times: each opening appends a claim.
async fn opened(log: &KafkaLog, times: u64) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let claims: u64 = log.all_bounds(&all(topic::SITES)).await.unwrap().iter().map(|bounds| bounds.end).sum();
        if claims >= times {
            return;
        }
        assert!(Instant::now() < deadline, "{claims} of {times} openings");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the number of copies of each record.
async fn copies(log: &KafkaLog) -> BTreeMap<String, usize> {
    let mut copies = BTreeMap::new();
    for tp in all(topic::DOCUMENTS) {
        let end = log.bounds(tp).await.unwrap().end;
        let mut reader = log.reader(tp, 0).await.unwrap();
        while reader.position() < end {
            for record in reader.read(PATIENCE).await.unwrap() {
                *copies.entry(String::from_utf8(record.value.unwrap().to_vec()).unwrap()).or_default() += 1;
            }
        }
    }
    copies
}

async fn await_completion(log: &KafkaLog) {
    let declared: Vec<_> = TOPICS.iter().map(|topic| GroupTopic { group: "copy".to_owned(), topic: *topic }).collect();
    let deadline = Instant::now() + PATIENCE;
    let mut first = OffsetSnapshot::take(log, &declared).await.unwrap();
    loop {
        assert!(Instant::now() < deadline, "never complete: {first:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
        let second = OffsetSnapshot::take(log, &declared).await.unwrap();
        if second.confirms_completion(&first) {
            return;
        }
        first = second;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn every_record_is_completed_while_partitions_move_between_two_runners() {
    let config =
        KafkaConfig { prefix: orbweaver_testkit::unique("stage"), ..KafkaConfig::new(orbweaver_testkit::brokers()) };
    let log = Arc::new(KafkaLog::connect(config.clone()).await.unwrap());
    topics::create(&log, PARTITIONS, None).await.unwrap();
    let test = tokio::spawn({
        let log = log.clone();
        async move {
            let (ends_one, ends_two) = (CancellationToken::new(), CancellationToken::new());
            let begun = Instant::now();
            let passed = |what: &str| println!("{:6.2} s: {what}", begun.elapsed().as_secs_f64());
            let one = run(&config, &ends_one).await;
            feed(&log, ROUNDS[0]).await;
            opened(&log, u64::from(PARTITIONS)).await;
            passed("the first serves all");
            let two = run(&config, &ends_two).await;
            feed(&log, ROUNDS[1]).await;
            opened(&log, u64::from(PARTITIONS) + 4).await;
            passed("the second serves a half");
            ends_two.cancel();
            two.await.unwrap();
            passed("the second has left");
            feed(&log, ROUNDS[2]).await;
            opened(&log, u64::from(PARTITIONS) + 8).await;
            await_completion(&log).await;
            passed("complete");
            ends_one.cancel();
            one.await.unwrap();
            passed("the first has left");

            for topic in TOPICS {
                for (tp, commit) in all(topic).into_iter().zip(log.committed("copy", &all(topic)).await.unwrap()) {
                    let end = log.bounds(tp).await.unwrap().end;
                    let records = RECORDS as u64;
                    assert_eq!((end, commit.map(|commit| commit.offset)), (records, Some(records)), "{tp}");
                }
            }
            let copies = copies(&log).await;
            assert_eq!(copies.len(), RECORDS * TOPICS.len() * PARTITIONS as usize, "every record was copied");
            let twice = copies.values().filter(|&&times| times > 1).count();
            assert_eq!(twice, 0, "an orderly move repeats nothing");
        }
    });
    let ended = test.await;
    topics::delete(&log).await.unwrap();
    ended.unwrap();
}
