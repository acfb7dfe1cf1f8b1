//! The runtime on real brokers: two runners of one group, moving partitions, correct commits.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::play::{Play, Scripted, at, record, runner, text};
use orbweaver_log::{
    Cleanup, Log, TopicPartition, TopicSpec,
    kafka::{KafkaConfig, KafkaLog, topics},
};
use orbweaver_messages::{Topic, topic};
use orbweaver_stage::{
    RunnerConfig,
    completion::{GroupTopic, OffsetSnapshot},
};
use tokio::time::Instant;

const PARTITIONS: u32 = 8;
const TOPICS: [Topic; 2] = [topic::DISCOVERED, topic::OUTCOMES];
/// Records per partition appended at a time, and the number of rounds.
const AT_ONCE: usize = 10;
const ROUNDS: [usize; 3] = [10, 30, 5];
const RECORDS: usize = AT_ONCE * (ROUNDS[0] + ROUNDS[1] + ROUNDS[2]);
const PATIENCE: Duration = Duration::from_secs(90);

fn all(topic: Topic) -> Vec<TopicPartition> {
    (0..PARTITIONS).map(|partition| at(topic, partition)).collect()
}

/// Starts a runner on its own connection, as in a separate process. Its stage copies each record to `crawl.documents`;
/// the copy contains the record's topic-partition and offset.
async fn run(config: &KafkaConfig) -> Play {
    let (mut stage, _) = Scripted::new(&TOPICS, |origin, _, actions| {
        let copy = record(at(topic::DOCUMENTS, origin.tp.partition), &format!("{} {}", origin.tp, origin.offset));
        actions.produce(vec![copy], vec![*origin]);
    });
    stage.claims = &[topic::SITES];
    let log = Arc::new(KafkaLog::connect(config.clone()).await.unwrap());
    let settings = RunnerConfig { commit_interval: Duration::from_millis(500), ..RunnerConfig::default() };
    Play::of(runner(stage, log, settings))
}

async fn feed(log: &KafkaLog, rounds: usize) {
    for _ in 0..rounds {
        let tps = TOPICS.into_iter().flat_map(all).flat_map(|tp| [tp; AT_ONCE]);
        log.append(tps.map(|tp| record(tp, "")).collect()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
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
            log.append((0..1024).map(|partition| record(at(topic::CONTROL, partition), "")).collect()).await.unwrap();
            let (mut stage, seen) = Scripted::new(&[topic::SEEDS], |_, _, _| {});
            stage.tails = &[topic::CONTROL];
            let begun = Instant::now();
            let running = Play::of(runner(stage, log, RunnerConfig::default()));
            while seen.lock().unwrap().opened.len() < 64 {
                assert!(begun.elapsed() < PATIENCE && !running.task.is_finished(), "{:?}", seen.lock().unwrap().opened);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            println!("64 partitions, 1,024 of settings: open {:?} after the start", begun.elapsed());
            assert_eq!(seen.lock().unwrap().followed_before, Some(1024), "all, before the first partition opens");
            running.end().await.unwrap();
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
                *copies.entry(text(&record)).or_default() += 1;
            }
        }
    }
    copies
}

async fn await_completion(log: &KafkaLog) {
    let declared: Vec<_> =
        TOPICS.iter().map(|topic| GroupTopic { group: "scripted".to_owned(), topic: *topic }).collect();
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
            let begun = Instant::now();
            let passed = |what: &str| println!("{:6.2} s: {what}", begun.elapsed().as_secs_f64());
            let one = run(&config).await;
            feed(&log, ROUNDS[0]).await;
            opened(&log, u64::from(PARTITIONS)).await;
            passed("the first serves all");
            let two = run(&config).await;
            feed(&log, ROUNDS[1]).await;
            opened(&log, u64::from(PARTITIONS) + 4).await;
            passed("the second serves a half");
            two.end().await.unwrap();
            passed("the second has left");
            feed(&log, ROUNDS[2]).await;
            opened(&log, u64::from(PARTITIONS) + 8).await;
            await_completion(&log).await;
            passed("complete");
            one.end().await.unwrap();
            passed("the first has left");

            for topic in TOPICS {
                for (tp, commit) in all(topic).into_iter().zip(log.committed("scripted", &all(topic)).await.unwrap()) {
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
