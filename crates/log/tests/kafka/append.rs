//! Appends: record size, back-pressure, unavailable brokers.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::join_all;
use orbweaver_log::{
    Log, LogError, RECORD_LIMIT, Record, Refusal,
    kafka::{KafkaConfig, KafkaLog, topics},
};
use orbweaver_testkit::Stack;
use tokio::time::Instant;

use crate::fixture::{ONE, PATIENCE, append, at, config, number, read_to, record, specs, with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn the_largest_record_is_taken_though_no_compression_makes_it_smaller() {
    with(config(), &specs(&[ONE], 1), |log| async move {
        let of = |bytes: usize| Record { key: None, value: Some(noise(bytes).into()), ..record(at(0), 0) };
        let largest = log.record_limit();
        assert_eq!(largest, RECORD_LIMIT);
        assert_eq!(log.append(vec![of(largest), record(at(0), 1)]).await.unwrap(), [0, 1]);
        let mut reader = log.reader(at(0), 0).await.unwrap();
        assert_eq!(reader.read(PATIENCE).await.unwrap()[0].bytes(), largest);
    })
    .await;
}

/// Brokers that accept less than the record limit, as after a topic's setting was lowered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn what_the_brokers_refuse_is_refused_by_itself_and_the_producer_goes_on() {
    let large = config();
    let small = KafkaConfig { record_limit: 600_000, ..large.clone() };
    // The topic is created for smaller records than the producer accepts.
    with(small, &specs(&[ONE], 2), |_| async move {
        let log = KafkaLog::connect(large).await.unwrap();
        let of = |partition, bytes: usize| Record { value: Some(noise(bytes).into()), ..record(at(partition), 0) };
        for round in 0..3_u64 {
            let batch = vec![record(at(0), 1), of(0, 900_000), record(at(0), 3), of(1, 500_000), record(at(0), 4)];
            let Err(LogError::Refused(refused)) = log.append(batch).await else { panic!("the brokers take it") };
            let [(1, Refusal::Invalid { reason, .. })] = &*refused.refusals else { panic!("{refused:?}") };
            assert!(reason.contains("a record of 900005 bytes, although the record limit is 16777216"), "{reason}");
            assert_eq!((refused.offsets[1], refused.offsets[3]), (None, Some(round)));
            let mut small: Vec<_> = [0, 2, 4].iter().filter_map(|index| refused.offsets[*index]).collect();
            small.sort_unstable();
            assert_eq!(small, (round * 3..round * 3 + 3).collect::<Vec<_>>(), "each neighbour is appended once");
        }
    })
    .await;
}

/// Returns bytes that do not compress.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let mut random = 1_u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 56) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn appends_wait_while_the_producer_is_full() {
    let config = KafkaConfig { producer_bytes: 4 << 20, record_limit: 1 << 20, ..config() };
    with(config, &specs(&[ONE], 4), |log| async move {
        let mut appending = vec![];
        for partition in 0..4 {
            let log = &log;
            appending.push(async move {
                let large = |n: usize| Record { value: Some(vec![7; 20_000].into()), ..record(at(partition), n) };
                for round in 0..5_u64 {
                    let offsets = log.append((0..300).map(large).collect()).await.unwrap();
                    let first = round * 300;
                    assert_eq!(offsets, (first..first + 300).collect::<Vec<_>>(), "in the order of the input");
                }
            });
        }
        join_all(appending).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn a_log_that_is_dropped_without_a_flush_loses_nothing_that_was_acknowledged() {
    let config = config();
    let again = config.clone();
    with(config, &specs(&[ONE], 1), |_| async move {
        let log = Arc::new(KafkaLog::connect(again.clone()).await.unwrap());
        append(&log, at(0), 0..1_000).await;
        let given_up = {
            let log = log.clone();
            tokio::spawn(async move { append(&log, at(0), 1_000..20_000).await })
        };
        tokio::task::yield_now().await;
        given_up.abort();
        let _ = given_up.await;
        drop(log);
        let log = KafkaLog::connect(again).await.unwrap();
        let mut reader = log.reader(at(0), 0).await.unwrap();
        let mut read = vec![];
        while read.len() < 1_000 {
            read.extend(reader.read(PATIENCE).await.unwrap().iter().map(number));
        }
        assert!(read.iter().copied().eq(0..read.len()));
        append(&log, at(0), 0..1).await;
        log.close(PATIENCE).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_that_are_away_are_named_when_the_patience_is_over() {
    // No process listens on port 1 of this machine.
    let config = KafkaConfig {
        connect_patience: Duration::from_secs(2),
        request_timeout: Duration::from_secs(1),
        ..KafkaConfig::new("127.0.0.1:1")
    };
    let begun = Instant::now();
    let Err(error) = KafkaLog::connect(config).await else { panic!("there is a broker at port 1") };
    assert!(begun.elapsed() >= Duration::from_secs(2), "it waited");
    assert!(error.to_string().contains("no broker of `127.0.0.1:1` answered within 2s"), "{error}");
}

/// Kills and restarts the brokers of a cluster of three, one after the other, while records are appended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn every_append_is_acknowledged_once_while_brokers_are_killed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    let stack =
        tokio::task::spawn_blocking(move || Stack::up(&path, 27_092, &["--brokers", "3", "--only", "kafka"]).unwrap());
    let stack = Arc::new(stack.await.unwrap());
    let config = KafkaConfig { prefix: "chaos".to_owned(), ..KafkaConfig::new(stack.brokers.clone()) };
    let log = Arc::new(KafkaLog::connect(config).await.unwrap());
    topics::create_topics(&log, &specs(&[ONE], 4), Some(3)).await.unwrap();

    let ends = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let appending: Vec<_> = (0..4_u32)
        .map(|partition| {
            let (log, ends) = (log.clone(), ends.clone());
            tokio::spawn(async move {
                let (mut acknowledged, mut number, mut longest) = (BTreeMap::new(), 0, Duration::ZERO);
                while !ends.load(std::sync::atomic::Ordering::Acquire) {
                    let begun = Instant::now();
                    let offsets = append(&log, at(partition), number..number + 100).await;
                    longest = longest.max(begun.elapsed());
                    acknowledged.extend(offsets.into_iter().zip(number..));
                    number += 100;
                }
                (acknowledged, longest)
            })
        })
        .collect();
    for node in ["1", "2", "3"] {
        let killed = stack.clone();
        tokio::task::spawn_blocking(move || {
            killed.stop(node, "KILL").unwrap();
            killed.start(node).unwrap();
        })
        .await
        .unwrap();
        tokio::time::sleep(Duration::from_secs(6)).await;
    }
    ends.store(true, std::sync::atomic::Ordering::Release);
    for (partition, task) in (0..).zip(appending) {
        let (acknowledged, longest) = task.await.unwrap();
        println!("{}: {} records, longest silence {longest:?}", at(partition), acknowledged.len());
        let end = log.bounds(at(partition)).await.unwrap().end;
        assert_eq!(acknowledged.len() as u64, end, "each once: an idempotent producer writes nothing twice");
        let mut reader = log.reader(at(partition), 0).await.unwrap();
        let found = BTreeMap::from_iter(read_to(&mut *reader, end).await);
        assert!(found == acknowledged, "{}: acknowledged and stored records differ", at(partition));
    }
}
