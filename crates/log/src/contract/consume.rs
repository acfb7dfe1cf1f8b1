//! Guarantees of consumers.

use std::{collections::HashSet, time::Duration};

use futures::future::join as both;
use tokio::time::{Instant, timeout};

use super::{
    ALONE, COMMIT, DELIVER, DROPPED, JOIN, OTHER, PARTITIONS, PATIENCE, PAUSE, QUIET, TURNS, WAKE, append, join,
    number, quiet, record, take, tp, tps,
};
use crate::{Commit, Event, Log, LogError};

pub(super) async fn partitions_come_first_and_deliver_nothing_before_they_are_started(log: &dyn Log) {
    append(log, tps(JOIN).into_iter().map(|tp| record(tp, 1)).collect()).await;
    let mut consumer = join(log, "contract-join", &[JOIN]).await;
    quiet(&mut *consumer).await;
    consumer.start(tp(JOIN, 2), 0).expect("it is assigned");
    assert_eq!(take(&mut *consumer, 1).await[0].tp, tp(JOIN, 2));
    quiet(&mut *consumer).await;
    assert!(matches!(consumer.start(tp(OTHER, 0), 0), Err(LogError::NotAssigned(_))));
    consumer.close().await.expect("it leaves");
}

pub(super) async fn records_come_once_and_in_order_and_again_after_a_new_start(log: &dyn Log) {
    let count = 5_000;
    let partition = |n: usize| u32::try_from(n).expect("small") % PARTITIONS;
    append(log, (0..count).map(|n| record(tp(DELIVER, partition(n)), n)).collect()).await;
    let mut consumer = join(log, "contract-deliver", &[DELIVER]).await;
    for tp in tps(DELIVER) {
        consumer.start(tp, 0).expect("it is assigned");
    }
    let records = take(&mut *consumer, count).await;
    for at in tps(DELIVER) {
        let there: Vec<_> = records.iter().filter(|record| record.tp == at).collect();
        assert!(there.iter().zip(0..).all(|(record, offset)| record.offset == offset), "each once and in order");
        assert!(there.windows(2).all(|pair| number(pair[0]) < number(pair[1])), "in the order of the appends");
    }
    quiet(&mut *consumer).await;

    let at = tp(DELIVER, 1);
    consumer.start(at, 1_240).expect("it is assigned");
    let again = take(&mut *consumer, 10).await;
    assert!(again.iter().zip(1_240..).all(|(record, offset)| record.tp == at && record.offset == offset));
    consumer.start(at, 1_250).expect("a consumer may start at the end");
    quiet(&mut *consumer).await;
    consumer.close().await.expect("it leaves");
}

pub(super) async fn a_paused_partition_delivers_nothing_until_it_is_resumed(log: &dyn Log) {
    append(log, tps(PAUSE).into_iter().map(|tp| record(tp, 1)).collect()).await;
    let mut consumer = join(log, "contract-pause", &[PAUSE]).await;
    for tp in tps(PAUSE) {
        consumer.start(tp, 0).expect("it is assigned");
    }
    consumer.pause(&tps(PAUSE)[1..]).expect("they are assigned");
    assert_eq!(take(&mut *consumer, 1).await[0].tp, tp(PAUSE, 0));
    quiet(&mut *consumer).await;
    append(log, vec![record(tp(PAUSE, 1), 2)]).await;
    quiet(&mut *consumer).await;

    consumer.resume(&tps(PAUSE)).expect("one that is not paused may be resumed too");
    let records = take(&mut *consumer, 4).await;
    assert!(records.iter().all(|record| record.tp.partition != 0));
    assert!(matches!(consumer.pause(&[tp(OTHER, 0)]), Err(LogError::NotAssigned(_))));
    assert!(matches!(consumer.resume(&[tp(OTHER, 0)]), Err(LogError::NotAssigned(_))));
    consumer.close().await.expect("it leaves");
}

pub(super) async fn a_dropped_poll_loses_nothing(log: &dyn Log) {
    let count = 3_000;
    let at = tp(DROPPED, 0);
    append(log, (0..count).map(|n| record(at, n)).collect()).await;
    let mut consumer = join(log, "contract-dropped", &[DROPPED]).await;
    consumer.start(at, 0).expect("it is assigned");
    let mut numbers = vec![];
    let deadline = Instant::now() + PATIENCE;
    while numbers.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} came", numbers.len());
        // Dropped after the first poll, and again after 2 ms: work that was started must not be lost.
        for patience in [Duration::ZERO, Duration::from_millis(2)] {
            if let Ok(Ok(Some(Event::Records(batch)))) = timeout(patience, consumer.poll(PATIENCE)).await {
                numbers.extend(batch.iter().map(number));
            }
        }
    }
    assert!(numbers.into_iter().eq(0..count), "each once and in order");
    consumer.close().await.expect("it leaves");
}

pub(super) async fn an_append_wakes_who_waits(log: &dyn Log) {
    let mut consumer = join(log, "contract-wake", &[WAKE]).await;
    for tp in tps(WAKE) {
        consumer.start(tp, 0).expect("it is assigned");
    }
    let mut reader = log.reader(tp(WAKE, 3), 0).await.expect("a reader");
    let later = async {
        tokio::time::sleep(QUIET).await;
        append(log, vec![record(tp(WAKE, 3), 1)]).await
    };
    let waiting = both(take(&mut *consumer, 1), reader.read(PATIENCE));
    let ((records, read), _) = both(waiting, later).await;
    assert_eq!((records.len(), read.expect("a read").len()), (1, 1));
    assert!(consumer.poll(Duration::ZERO).await.expect("a poll").is_none());
    consumer.close().await.expect("it leaves");
}

pub(super) async fn commits_outlive_their_member(log: &dyn Log) {
    let (group, at) = ("contract-commit", tps(COMMIT));
    append(log, (0..10).map(|n| record(at[0], n)).collect()).await;
    assert_eq!(log.committed(group, &at).await.expect("nothing yet"), vec![None; 4]);
    let mut consumer = join(log, group, &[COMMIT]).await;
    let commit = |offset, metadata: &str| Commit { offset, metadata: metadata.to_owned() };
    consumer.commit(vec![(at[0], commit(3, "")), (at[1], commit(0, "starts 1"))]).await.expect("a commit");
    consumer.commit(vec![(at[0], commit(7, &"x".repeat(4_096)))]).await.expect("a commit");
    let refused = consumer.commit(vec![(tp(OTHER, 0), commit(1, ""))]).await;
    assert!(matches!(refused, Err(LogError::NotAssigned(_))), "{refused:?}");
    let refused = consumer.commit(vec![(at[0], commit(8, &"x".repeat(4_097)))]).await;
    assert!(matches!(refused, Err(LogError::MetadataTooLarge { .. })), "{refused:?}");
    consumer.close().await.expect("it leaves");

    let wanted = vec![Some(commit(7, &"x".repeat(4_096))), Some(commit(0, "starts 1")), None, None];
    assert_eq!(log.committed(group, &at).await.expect("commits"), wanted, "the last commit wins");
    assert_eq!(log.committed("contract-stranger", &at).await.expect("none"), vec![None; 4]);
    let mut successor = join(log, group, &[COMMIT]).await;
    successor.start(at[0], 7).expect("it is assigned");
    assert_eq!(take(&mut *successor, 3).await[0].offset, 7);
    successor.close().await.expect("it leaves");
}

pub(super) async fn a_second_consumer_of_a_live_group_is_refused(log: &dyn Log) {
    let first = join(log, "contract-alone", &[ALONE]).await;
    let second = log.consumer("contract-alone", &[OTHER]);
    assert!(matches!(second, Err(LogError::GroupTaken(name)) if name == "contract-alone"));
    drop(join(log, "contract-another", &[ALONE]).await);
    first.close().await.expect("it leaves");
    let next = join(log, "contract-alone", &[ALONE]).await;
    drop(next);
    drop(join(log, "contract-alone", &[ALONE]).await);
}

pub(super) async fn every_partition_of_every_topic_has_its_turn(log: &dyn Log) {
    let all: Vec<_> = tps(TURNS).into_iter().chain(tps(OTHER)).collect();
    for at in &all {
        append(log, (0..5_000).map(|n| record(*at, n)).collect()).await;
    }
    let mut consumer = join(log, "contract-turns", &[TURNS, OTHER]).await;
    for at in &all {
        consumer.start(*at, 0).expect("it is assigned");
    }
    let mut served = HashSet::new();
    for _ in &all {
        let Some(Event::Records(batch)) = consumer.poll(PATIENCE).await.expect("a poll") else { continue };
        served.extend(batch.iter().map(|record| record.tp));
    }
    assert_eq!(served.len(), all.len(), "a backlog in one partition must not hold up another");
    consumer.close().await.expect("it leaves");
}
