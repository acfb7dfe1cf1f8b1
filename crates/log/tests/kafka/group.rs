//! Members of one group: assignment, revocation, loss.

use std::{collections::BTreeMap, time::Duration};

use orbweaver_log::{
    Log, LogError,
    kafka::{GroupProtocol, KafkaConfig, KafkaLog, Session},
};
use tokio::time::Instant;

use crate::fixture::{Member, ONE, TWO, append, at, both_until, commit, config, number, specs, with};

const PARTITIONS: u32 = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn partition_n_of_all_topics_is_in_one_place_and_a_join_moves_only_what_moves() {
    with(config(), &specs(&[ONE, TWO], PARTITIONS), |log| async move {
        let mut one = Member::holding(&log, "group", &[ONE, TWO], 16).await;
        let mut two = Member::join(&log, "group", &[ONE, TWO]);
        both_until(&mut one, &mut two, "a half each", |one, two| two.held.len() == 8 && one.held.len() == 8).await;
        assert_eq!((one.of(ONE), two.of(ONE)), (one.of(TWO), two.of(TWO)), "partition N of both topics");
        assert_eq!(one.revoked.len(), 8, "only moved partitions were revoked: {:?}", one.revoked);
        assert_eq!(one.lost.len(), 0);
        two.consumer.close().await.unwrap();
        one.until("all partitions again", |one| one.held.len() == 16).await;
        assert_eq!(one.revoked.len(), 8, "a leave takes nothing from who stays");
        one.consumer.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn the_classic_protocol_keeps_partition_n_of_all_topics_in_one_place_too() {
    let session_timeout = Duration::from_secs(6);
    let config = KafkaConfig { protocol: GroupProtocol::Classic, session_timeout, ..config() };
    with(config, &specs(&[ONE, TWO], PARTITIONS), |log| async move {
        append(&log, at(0), 0..10).await;
        let mut one = Member::holding(&log, "group", &[ONE, TWO], 16).await;
        one.consumer.start(at(0), 0).unwrap();
        one.until("records", |one| one.records.len() == 10).await;
        let mut two = Member::join(&log, "group", &[ONE, TWO]);
        one.keeps = true;
        both_until(&mut one, &mut two, "a call for all", |one, _| one.revoked.len() == 16).await;
        one.consumer.commit(vec![(at(0), commit(10))]).await.unwrap();
        // One by one, as they drain.
        for tp in one.revoked.clone() {
            one.release(&[tp]);
        }
        one.keeps = false;
        both_until(&mut one, &mut two, "a half each", |one, two| two.held.len() == 8 && one.held.len() == 8).await;
        assert_eq!((one.of(ONE), two.of(ONE)), (one.of(TWO), two.of(TWO)), "partition N of both topics");
        assert_eq!(log.committed("group", &[at(0)]).await.unwrap(), [Some(commit(10))]);
        one.consumer.close().await.unwrap();
        two.consumer.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn what_is_wanted_back_is_drained_committed_and_handed_back_and_its_successor_starts_there() {
    with(config(), &specs(&[ONE], PARTITIONS), |log| async move {
        for partition in 0..PARTITIONS {
            append(&log, at(partition), 0..100).await;
        }
        let mut one = Member::holding(&log, "group", &[ONE], 8).await;
        one.start_all(0);
        one.until("all records", |one| one.records.len() == 800).await;

        one.keeps = true;
        let mut two = Member::join(&log, "group", &[ONE]);
        both_until(&mut one, &mut two, "a call for half", |one, _| one.revoked.len() == 4).await;
        let going: Vec<_> = one.revoked.iter().copied().collect();
        let staying = one.held.iter().copied().find(|tp| !going.contains(tp)).unwrap();
        // While the member drains, revoked partitions deliver nothing. (Nor do the others: librdkafka stops all
        // partitions of a member until it has answered.)
        append(&log, staying, 100..110).await;
        append(&log, going[0], 100..110).await;
        one.records.clear();
        let until = Instant::now() + Duration::from_secs(1);
        both_until(&mut one, &mut two, "a second", |_, _| Instant::now() >= until).await;
        assert!(one.records.iter().all(|record| record.tp == staying), "revoked partitions deliver nothing");
        println!("of what stays came {} of 10 records while it drained", one.records.len());
        assert_eq!(two.held.len(), 0, "nothing was reassigned before its release");

        one.consumer.commit(going.iter().map(|tp| (*tp, commit(57))).collect()).await.unwrap();
        let handed = Instant::now();
        for tp in &going {
            one.release(&[*tp]);
        }
        let refused = one.consumer.commit(vec![(going[0], commit(58))]).await;
        assert!(matches!(refused, Err(LogError::NotAssigned(tp)) if tp == going[0]), "{refused:?}");
        both_until(&mut one, &mut two, "the half", |_, two| two.held.len() == 4).await;
        println!("released -> assigned: {:?}", handed.elapsed());
        both_until(&mut one, &mut two, "what stays", |one, _| one.records.len() == 10).await;
        assert_eq!(log.committed("group", &going).await.unwrap(), vec![Some(commit(57)); 4]);
        for tp in &going {
            two.consumer.start(*tp, 57).unwrap();
        }
        both_until(&mut one, &mut two, "the rest", |_, two| two.records.len() == 4 * 43 + 10).await;
        for tp in &going {
            let first = two.records.iter().find(|record| record.tp == *tp).unwrap();
            assert_eq!(first.offset, 57, "the successor starts at the commit");
        }
        assert_eq!((one.lost.len(), two.lost.len(), two.revoked.len()), (0, 0, 0));
        one.consumer.close().await.unwrap();
        two.consumer.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn the_first_record_after_a_start_is_the_one_that_was_named() {
    const RECORDS: usize = 2_000;
    with(config(), &specs(&[ONE], PARTITIONS), |log| async move {
        for partition in 0..PARTITIONS {
            append(&log, at(partition), 0..RECORDS).await;
        }
        let mut member = Member::holding(&log, "group", &[ONE], 8).await;
        let mut random = 7_u64;
        for round in 0..60 {
            let mut starts = BTreeMap::new();
            for partition in 0..PARTITIONS {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let from = (random >> 33) % (RECORDS as u64 - 300);
                // In the first round all start; later some continue undisturbed.
                if round == 0 || random.is_multiple_of(3) {
                    member.consumer.start(at(partition), from).unwrap();
                    starts.insert(at(partition), from);
                }
            }
            // From the start on, no other records may arrive.
            member.records.clear();
            let all = |member: &Member| starts.keys().all(|tp| member.records.iter().any(|record| record.tp == *tp));
            member.until("a record of each", all).await;
            for (tp, from) in &starts {
                let there = member.records.iter().filter(|record| record.tp == *tp);
                assert!(there.clone().zip(*from..).all(|(record, offset)| record.offset == offset), "{tp}: {from}");
                assert!(there.into_iter().all(|record| number(record) as u64 == record.offset));
            }
        }
        member.consumer.close().await.unwrap();
    })
    .await;
}

/// librdkafka requires a position when it accepts a partition. Neither a position that is no longer in the log nor one
/// that is looked up late may interfere with a start right after the assignment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn a_start_at_once_after_the_assignment_counts_whatever_the_log_begins_with() {
    const PARTITIONS: u32 = 16;
    with(config(), &specs(&[ONE], PARTITIONS), |log| async move {
        for partition in 0..PARTITIONS {
            append(&log, at(partition), 0..100).await;
            log.delete_below(at(partition), 50).await.unwrap();
        }
        for round in 0..10_usize {
            let from = 50 + round as u64;
            let mut member = Member::join(&log, "group", &[ONE]);
            let mut started = std::collections::BTreeSet::new();
            let wanted = PARTITIONS as usize * (100 + round - from as usize);
            let deadline = Instant::now() + crate::fixture::PATIENCE;
            while member.records.len() < wanted {
                assert!(Instant::now() < deadline, "round {round}: {} of {wanted} records", member.records.len());
                member.step().await;
                for tp in member.held.difference(&started.clone()) {
                    member.consumer.start(*tp, from).unwrap();
                    started.insert(*tp);
                }
            }
            // Long enough for queries that librdkafka repeats after half a second.
            let until = Instant::now() + Duration::from_secs(1);
            member.until("a second", |_| Instant::now() >= until).await;
            for partition in 0..PARTITIONS {
                append(&log, at(partition), 100 + round..101 + round).await;
            }
            member.until("the later records", |member| member.records.len() >= wanted + PARTITIONS as usize).await;
            for partition in 0..PARTITIONS {
                let there = member.records.iter().filter(|record| record.tp == at(partition));
                let offsets: Vec<_> = there.map(|record| record.offset).collect();
                assert_eq!(offsets, (from..=100 + round as u64).collect::<Vec<_>>(), "round {round}");
            }
            member.consumer.close().await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn what_is_paused_waits_in_bounds_and_goes_on_where_it_stood() {
    const RECORDS: usize = 300;
    let config = KafkaConfig { fetch_bytes: 4 << 20, ..config() };
    with(config, &specs(&[ONE], 2), |log| async move {
        let large = |partition: u32, n: usize| orbweaver_log::Record {
            value: Some(vec![b'x'; 100_000].into()),
            key: Some(n.to_string().into()),
            ..crate::fixture::record(at(partition), n)
        };
        for partition in 0..2 {
            log.append((0..RECORDS).map(|n| large(partition, n)).collect()).await.unwrap();
        }
        let mut member = Member::holding(&log, "group", &[ONE], 2).await;
        member.consumer.start(at(0), 0).unwrap();
        member.consumer.start(at(1), 0).unwrap();
        for round in 0..6 {
            let before = member.records.len();
            let wanted = (before + 40).min(2 * RECORDS);
            member.until("some records", |member| member.records.len() >= wanted).await;
            let paused = [at(0), at(1)];
            member.consumer.pause(&paused[..1 + round % 2]).unwrap();
            let (count, until) = (member.records.len(), Instant::now() + Duration::from_secs(1));
            let of_first = member.records.iter().filter(|record| record.tp == at(0)).count();
            member.until("a second", |_| Instant::now() >= until).await;
            let still = member.records.iter().filter(|record| record.tp == at(0)).count();
            assert_eq!(of_first, still, "paused partitions deliver nothing");
            assert!(round % 2 == 0 || member.records.len() == count, "nothing comes when all is paused");
            member.consumer.resume(&paused[..1 + round % 2]).unwrap();
        }
        member.until("all records", |member| member.records.len() == 2 * RECORDS).await;
        for partition in 0..2 {
            let there = member.records.iter().filter(|record| record.tp == at(partition));
            assert!(there.map(|record| record.offset).eq(0..RECORDS as u64), "each once and in order");
        }
        member.consumer.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn a_member_that_did_not_poll_for_too_long_has_lost_all_and_its_commit_is_refused() {
    let (protocol, session_timeout) = (GroupProtocol::Classic, Duration::from_secs(6));
    let properties = BTreeMap::from([("max.poll.interval.ms".to_owned(), "6000".to_owned())]);
    let config = KafkaConfig { protocol, session_timeout, properties, ..config() };
    with(config, &specs(&[ONE], PARTITIONS), |log| async move {
        let mut one = Member::holding(&log, "group", &[ONE], 8).await;
        one.start_all(0);
        one.step().await;
        let mut two = Member::join(&log, "group", &[ONE]);
        // The first member is no longer polled, so the second is assigned everything.
        two.until("all partitions", |two| two.held.len() == 8).await;
        two.consumer.commit(vec![(at(3), commit(2))]).await.unwrap();
        let refused = one.consumer.commit(vec![(at(3), commit(1))]).await;
        assert!(matches!(refused, Err(LogError::NotAssigned(_))), "{refused:?}");
        assert_eq!(log.committed("group", &[at(3)]).await.unwrap(), [Some(commit(2))]);
        // A revocation may have arrived first, in place of the loss.
        both_until(&mut one, &mut two, "the loss", |one, _| one.lost.len() + one.revoked.len() >= 8).await;
        both_until(&mut one, &mut two, "a half each", |one, two| two.held.len() == 4 && one.held.len() == 4).await;
        assert_eq!(log.committed("group", &[at(3)]).await.unwrap(), [Some(commit(2))]);
        one.consumer.close().await.unwrap();
        two.consumer.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn a_member_that_leaves_while_it_drains_does_not_hang() {
    with(config(), &specs(&[ONE], PARTITIONS), |log| async move {
        let mut one = Member::holding(&log, "group", &[ONE], 8).await;
        one.keeps = true;
        let mut two = Member::join(&log, "group", &[ONE]);
        both_until(&mut one, &mut two, "a call for half", |one, _| one.revoked.len() == 4).await;
        tokio::time::timeout(Duration::from_secs(20), one.consumer.close()).await.expect("it leaves").unwrap();
        two.until("all partitions", |two| two.held.len() == 8).await;
        // A dropped member leaves the group too, on another thread.
        drop(two);
        let three = Member::holding(&log, "group", &[ONE], 8).await;
        three.consumer.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn a_member_with_a_name_that_comes_back_disturbs_nobody() {
    let named = KafkaConfig { instance_id: Some("first".to_owned()), ..config() };
    with(named.clone(), &specs(&[ONE], PARTITIONS), |log| async move {
        let other = KafkaLog::connect(KafkaConfig { instance_id: Some("second".to_owned()), ..named }).await.unwrap();
        let mut one = Member::holding(&log, "group", &[ONE], 8).await;
        let mut two = Member::join(&other, "group", &[ONE]);
        both_until(&mut one, &mut two, "a half each", |one, two| two.held.len() == 4 && one.held.len() == 4).await;
        let (had, kept) = (two.held.clone(), one.held.clone());
        two.consumer.close().await.unwrap();
        let mut two = Member::join(&other, "group", &[ONE]);
        both_until(&mut one, &mut two, "what it had", |_, two| two.held.len() == 4).await;
        assert_eq!((&two.held, &one.held), (&had, &kept));
        one.consumer.close().await.unwrap();
        two.consumer.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn the_session_of_a_group_is_what_the_brokers_say_and_with_the_classic_protocol_what_was_asked_for() {
    with(config(), &specs(&[ONE], 1), |log| async move {
        // Defaults of the brokers of tests/stack.
        let session = Session { timeout: Duration::from_secs(6), heartbeat: Duration::from_millis(500) };
        assert_eq!(log.session("group").await.unwrap(), Some(session));
    })
    .await;
    let classic = KafkaConfig { protocol: GroupProtocol::Classic, session_timeout: Duration::from_secs(9), ..config() };
    with(classic, &specs(&[ONE], 1), |log| async move {
        let session = Session { timeout: Duration::from_secs(9), heartbeat: Duration::ZERO };
        assert_eq!(log.session("group").await.unwrap(), Some(session));
    })
    .await;
}
