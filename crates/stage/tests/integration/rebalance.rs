//! Partitions come and go: drained, committed, released, in this order; a lost partition is not committed.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::play::{
    watched::{Call, Watched},
    *,
};
use orbweaver_log::{ConsumerRecord, Log, LogError, MemoryLog, TopicPartition, memory::ScriptedResult};
use orbweaver_messages::topic;
use orbweaver_stage::{Origin, ScriptedClock};

const SEEDS: &[topic::Topic] = &[topic::SEEDS];
const BOTH: &[topic::Topic] = &[topic::FRONTIER, topic::OUTCOMES];
const GROUP: &str = "scripted";

/// Waits until the only member has joined the group, and assigns `tps` to it.
async fn joined(log: &MemoryLog, tps: &[TopicPartition]) {
    until("the member", || async { log.assign(GROUP, 0, tps).is_ok() }).await;
}

/// Runs a stage that has received ten records of `tp`.
async fn with_ten_records(
    log: &MemoryLog,
    tp: TopicPartition,
    react: impl FnMut(&Origin, &ConsumerRecord, &mut TestActions) + Send + 'static,
) -> (Play, Arc<Mutex<Seen>>, Vec<Origin>) {
    fill(log, tp, "seed", 10).await;
    let (play, seen) = started(SEEDS, log, react);
    joined(log, &[tp]).await;
    until_seen(&seen, "ten records", |seen| seen.received.len() == 10).await;
    let origins = seen.lock().unwrap().received.iter().map(|(origin, _)| *origin).collect();
    (play, seen, origins)
}

#[tokio::test(start_paused = true)]
async fn a_revoked_partition_is_drained_then_committed_then_handed_back_and_others_go_on() {
    let log = MemoryLog::scripted(&specs());
    let (one, two) = (at(topic::SEEDS, 0), at(topic::SEEDS, 1));
    let (play, seen, origins) = with_ten_records(&log, one, |origin, _, actions| {
        if origin.tp.partition == 1 {
            actions.completes.push(*origin);
        }
    })
    .await;
    joined(&log, &[two]).await;
    log.revoke(GROUP, 0, &[one]).unwrap();
    until_seen(&seen, "the drain", |seen| seen.drained == [0]).await;
    fill(&log, two, "seed", 3).await;
    until_committed(&log, two, 3).await;
    assert_eq!(log.held(GROUP, 0), [one, two], "not released while work is in flight");
    seen.lock().unwrap().release.extend(&origins);
    until("the hand-back", || async { log.held(GROUP, 0) == [two] }).await;
    assert_eq!(committed(&log, one).await, Some(10), "committed before its release");
    assert_eq!(seen.lock().unwrap().closed, [0]);
    play.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_does_not_end_is_cut_off_at_its_deadline_with_what_is_complete_committed() {
    let log = MemoryLog::scripted(&specs());
    let tp = at(topic::SEEDS, 0);
    let (play, ..) = with_ten_records(&log, tp, |origin, _, actions| {
        if origin.offset != 6 {
            actions.completes.push(*origin);
        }
    })
    .await;
    log.revoke(GROUP, 0, &[tp]).unwrap();
    until("the hand-back", || async { log.held(GROUP, 0).is_empty() }).await;
    assert_eq!(committed(&log, tp).await, Some(6));
    play.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_is_not_committed_and_its_late_completions_complete_nothing() {
    let log = MemoryLog::scripted(&specs());
    let tp = at(topic::SEEDS, 0);
    let (play, seen, old) = with_ten_records(&log, tp, |_, _, _| {}).await;
    log.lose(GROUP, 0, &[tp]).unwrap();
    until_seen(&seen, "the close", |seen| seen.closed == [0]).await;
    log.assign(GROUP, 0, &[tp]).unwrap();
    until_seen(&seen, "all again", |seen| seen.received.len() == 20).await;
    seen.lock().unwrap().release.extend(&old);
    a_while().await;
    assert_eq!(committed(&log, tp).await, Some(0));
    let new: Vec<_> = seen.lock().unwrap().received[10..].iter().map(|(origin, _)| *origin).collect();
    assert!(new[0].assignment_epoch > old[0].assignment_epoch);
    seen.lock().unwrap().release.extend(&new);
    until_committed(&log, tp, 10).await;
    play.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_partition_is_served_while_it_is_held_of_both_topics() {
    let log = MemoryLog::scripted(&specs());
    let (waiting, outcomes) = (at(topic::FRONTIER, 2), at(topic::OUTCOMES, 2));
    fill(&log, waiting, "url", 5).await;
    fill(&log, outcomes, "outcome", 5).await;
    let (play, seen) = started(BOTH, &log, |origin, _, actions| actions.completes.push(*origin));
    joined(&log, &[waiting]).await;
    a_while().await;
    assert!(seen.lock().unwrap().opened.is_empty(), "one is not both");
    log.assign(GROUP, 0, &[outcomes]).unwrap();
    until_committed(&log, waiting, 5).await;
    until_committed(&log, outcomes, 5).await;
    log.revoke(GROUP, 0, &[outcomes]).unwrap();
    until("the hand-back", || async { log.held(GROUP, 0) == [waiting] }).await;
    assert_eq!(seen.lock().unwrap().closed, [2]);
    fill(&log, waiting, "more", 5).await;
    a_while().await;
    assert_eq!(seen.lock().unwrap().received.len(), 10, "neither is served");
    log.assign(GROUP, 0, &[outcomes]).unwrap();
    until_committed(&log, waiting, 10).await;
    assert_eq!(seen.lock().unwrap().opened.len(), 2);
    play.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_what_is_in_flight_commits_it_and_leaves() {
    let log = MemoryLog::scripted(&specs());
    let tp = at(topic::SEEDS, 0);
    fill(&log, tp, "seed", 10).await;
    let (stage, seen) = Scripted::new(SEEDS, |origin, seed, actions| {
        actions.produce(vec![record(at(topic::DISCOVERED, 0), &text(seed))], vec![*origin]);
    });
    log.hold_appends(true);
    let play = play(stage, &log, config());
    joined(&log, &[tp]).await;
    until("the appends", || async { log.records(at(topic::DISCOVERED, 0)).len() == 10 }).await;
    play.shutdown.cancel();
    a_while().await;
    // The acknowledgement is withheld; the record is in the log nevertheless.
    drop(log.append(vec![record(tp, "late")]));
    assert!(!play.task.is_finished());
    log.hold_appends(false);
    play.ended().await.unwrap();
    assert_eq!(committed(&log, tp).await, Some(10), "records after the shutdown belong to the successor");
    assert_eq!(seen.lock().unwrap().received.len(), 10);
    assert_eq!(seen.lock().unwrap().closed, [0]);
    assert!(log.assign(GROUP, 0, &[tp]).is_err(), "it has left");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_within_its_budget_with_what_is_complete_committed() {
    let log = MemoryLog::scripted(&specs());
    let tp = at(topic::SEEDS, 0);
    let (play, ..) = with_ten_records(&log, tp, |origin, _, actions| {
        if origin.offset < 4 {
            actions.completes.push(*origin);
        }
    })
    .await;
    let begun = tokio::time::Instant::now();
    play.end().await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(6));
    assert_eq!(committed(&log, tp).await, Some(4));
}

#[tokio::test(start_paused = true)]
async fn a_refused_commit_is_tried_again_and_one_refused_for_too_long_ends_the_stage() {
    let log = MemoryLog::scripted(&specs());
    let tp = at(topic::SEEDS, 0);
    let (play, seen, origins) = with_ten_records(&log, tp, |_, _, _| {}).await;
    refuse_commits(&log, 5);
    seen.lock().unwrap().release.extend(&origins);
    until_committed(&log, tp, 10).await;

    refuse_commits(&log, 100_000);
    fill(&log, tp, "seed", 1).await;
    until_seen(&seen, "one more", |seen| seen.received.len() == 11).await;
    let last = seen.lock().unwrap().received[10].0;
    seen.lock().unwrap().release.push_back(last);
    let error = play.ended().await.unwrap_err();
    assert!(error.to_string().contains("busy"), "{error}");
    assert_eq!(committed(&log, tp).await, Some(10));
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_no_longer_ours_does_not_hold_up_the_commits_of_others() {
    let log = MemoryLog::scripted(&specs());
    let (gone, kept) = (at(topic::SEEDS, 0), at(topic::SEEDS, 1));
    let (stage, seen) = Scripted::new(SEEDS, |origin, _, actions| actions.completes.push(*origin));
    let (other, _) = Scripted::new(SEEDS, |_, _, _| {});
    let first = play(stage, &log, config());
    joined(&log, &[gone, kept]).await;
    until_seen(&seen, "both", |seen| seen.opened.len() == 2).await;
    let second = play(other, &log, config());
    until("the other member", || async { log.assign(GROUP, 1, &[gone]).is_ok() }).await;
    fill(&log, gone, "seed", 5).await;
    fill(&log, kept, "seed", 5).await;
    until_committed(&log, kept, 5).await;
    assert_eq!(committed(&log, gone).await, Some(0), "its new owner has completed nothing");
    first.kill().await;
    second.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_frozen_member_does_nothing_before_a_commit_proves_that_it_still_owns() {
    let log = MemoryLog::scripted(&specs());
    let (gone, kept) = (at(topic::SEEDS, 0), at(topic::SEEDS, 1));
    let (stage, seen) = Scripted::new(SEEDS, |_, _, _| {});
    let clock = Arc::new(ScriptedClock::at(1_000_000));
    let first = play_by(clock.clone(), stage, Arc::new(log.clone()));
    joined(&log, &[gone, kept]).await;
    until_seen(&seen, "both", |seen| seen.opened.len() == 2).await;
    let (second, _) = started(SEEDS, &log, |_, _, _| {});
    until("the other member", || async { log.assign(GROUP, 1, &[gone]).is_ok() }).await;
    a_while().await;
    assert!(seen.lock().unwrap().closed.is_empty(), "it was not notified");
    // A transient refusal is not a loss.
    refuse_commits(&log, 3);
    clock.advance(30_000);
    until_seen(&seen, "what it lost", |seen| seen.closed == [0]).await;
    fill(&log, kept, "seed", 1).await;
    until_seen(&seen, "what it kept", |seen| seen.received.len() == 1).await;
    first.kill().await;
    second.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_frozen_member_that_is_shut_down_ends_although_its_commits_are_refused() {
    let log = MemoryLog::scripted(&specs());
    let (stage, seen) = Scripted::new(SEEDS, |_, _, _| {});
    let clock = Arc::new(ScriptedClock::at(1_000_000));
    let play = play_by(clock.clone(), stage, Arc::new(log.clone()));
    joined(&log, &[at(topic::SEEDS, 0)]).await;
    until_seen(&seen, "the opening", |seen| seen.opened.len() == 1).await;
    refuse_commits(&log, 100_000);
    clock.advance(30_000);
    a_while().await;
    let error = play.end().await.unwrap_err().to_string();
    assert_eq!(error, "scripted: shut down before the suspended process could verify its ownership");
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_lost_before_its_start_is_counted_does_not_open() {
    let log = MemoryLog::scripted(&specs());
    let tp = at(topic::SEEDS, 0);
    log.script_commit(ScriptedResult::Fail { after: 0, error: LogError::NotAssigned(tp) });
    let (play, seen) = started(SEEDS, &log, |_, _, _| {});
    joined(&log, &[tp]).await;
    until_seen(&seen, "the end of the restore", |seen| seen.closed == [0]).await;
    a_while().await;
    assert!(seen.lock().unwrap().opened.is_empty());
    play.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_begins_requests_is_told_how_long_it_owns_also_while_nothing_is_to_be_committed() {
    let log = MemoryLog::scripted(&specs());
    let tp = at(topic::SEEDS, 0);
    let (mut stage, seen) = Scripted::new(SEEDS, |_, _, _| {});
    stage.needs_proof = true;
    let clock = Arc::new(ScriptedClock::at(1_000_000));
    let play = play_by(clock.clone(), stage, Arc::new(log.clone()));
    joined(&log, &[tp]).await;
    until_seen(&seen, "the first proof", |seen| seen.owned_until == [1_020_000]).await;
    clock.advance(3_000);
    until_seen(&seen, "the next, although nothing moved", |seen| seen.owned_until.last() == Some(&1_023_000)).await;
    // The wall clock has no influence on it.
    clock.step(3_600_000);
    refuse_commits(&log, 3);
    let actions = seen.lock().unwrap().owned_until.len();
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(seen.lock().unwrap().owned_until.len(), actions, "a commit that was refused proves nothing");
    clock.advance(4_000);
    until_seen(&seen, "the next that is taken", |seen| seen.owned_until.last() == Some(&1_027_000)).await;
    play.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_opens_with_the_time_after_a_commit_that_was_answered_late() {
    let log = MemoryLog::scripted(&specs());
    let (stage, seen) = Scripted::new(SEEDS, |_, _, _| {});
    let clock = Arc::new(ScriptedClock::at(1_000_000));
    let (slow, mut watched) = (clock.clone(), Watched::new(&log));
    watched.hook = Arc::new(move |call| {
        if call == Call::Commit {
            slow.advance(15_000);
        }
    });
    let play = play_by(clock, stage, Arc::new(watched));
    joined(&log, &[at(topic::SEEDS, 0)]).await;
    until_seen(&seen, "the opening", |seen| seen.opened_at == [1_015_000]).await;
    play.kill().await;
}
