//! A quarantined record is tried while nothing else is in flight in the process, and records withheld in the meantime
//! come after it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::play::*;
use orbweaver_log::{Log, MemoryLog, Partition};
use orbweaver_messages::{Topic, topic};
use orbweaver_stage::{RestoreFrom, RestoreSpec, RunnerConfig, Trials};

const SEEDS: &[Topic] = &[topic::SEEDS];
const DISCOVERED: &[Topic] = &[topic::DISCOVERED];
/// Group of the stage that tries a record.
const TRYING: &str = "scripted";

/// Returns a stage that completes nothing by itself.
fn slow(topics: &'static [Topic]) -> (Scripted, Arc<Mutex<Seen>>) {
    Scripted::new(topics, |_, _, _| {})
}

fn start(trials: &Trials, stage: Scripted, log: &MemoryLog, group: &str) -> Play {
    play_beside(trials, stage, log, RunnerConfig { group: Some(group.to_owned()), ..config() })
}

/// Assigns partitions of the seeds to the member with this number, once it has joined.
async fn assign(log: &MemoryLog, member: usize, partitions: &[Partition]) {
    let tps: Vec<_> = partitions.iter().map(|partition| at(topic::SEEDS, *partition)).collect();
    until("the member", || async { log.assign(TRYING, member, &tps).is_ok() }).await;
}

/// Appends a seed and kills three stages that process it: the next one tries it alone.
async fn crash(log: &MemoryLog, is_scripted: bool) {
    fill(log, at(topic::SEEDS, 0), "slow", 1).await;
    for life in 0..3 {
        let (stage, seen) = slow(SEEDS);
        let running = play(stage, log, config());
        if is_scripted {
            assign(log, life, &[0]).await;
        }
        until_received(&seen, 1).await;
        running.kill().await;
    }
}

async fn until_received(seen: &Mutex<Seen>, count: usize) {
    until_seen(seen, "the records", |seen| seen.received.len() == count).await;
}

fn received(seen: &Mutex<Seen>) -> usize {
    seen.lock().unwrap().received.len()
}

/// Completes the first record of a stage.
fn complete_first(seen: &Mutex<Seen>) {
    let mut seen = seen.lock().unwrap();
    let origin = seen.received[0].0;
    seen.release.push_back(origin);
}

#[tokio::test(start_paused = true)]
async fn a_trial_waits_until_the_openings_of_other_partitions_have_ended() {
    const RESTORED: usize = 60_000;
    let log = MemoryLog::scripted(&specs());
    crash(&log, true).await;
    fill(&log, at(topic::SITES, 1), "site", RESTORED).await;
    let (mut stage, seen) = slow(SEEDS);
    stage.restores = vec![RestoreSpec { topic: topic::SITES, from: RestoreFrom::Start, follow: false }];
    let (restored, watching) = (Arc::new(Mutex::new(vec![])), seen.clone());
    let noted = restored.clone();
    stage.react = Box::new(move |_, _, _| noted.lock().unwrap().push(watching.lock().unwrap().restored.len()));
    let running = play(stage, &log, config());
    assign(&log, 3, &[0, 1]).await;
    until_received(&seen, 1).await;
    assert_eq!(*restored.lock().unwrap(), [RESTORED]);
    running.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_assigned_during_a_trial_opens_after_it() {
    let log = MemoryLog::scripted(&specs());
    crash(&log, true).await;
    let (stage, seen) = slow(SEEDS);
    let running = play(stage, &log, config());
    assign(&log, 3, &[0]).await;
    until_received(&seen, 1).await;
    assign(&log, 3, &[1]).await;
    a_while().await;
    assert_eq!(seen.lock().unwrap().opened.len(), 1);
    complete_first(&seen);
    until_seen(&seen, "the second opening", |seen| seen.opened.len() == 2).await;
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_tailed_record_that_arrives_during_a_trial_is_passed_on_after_it() {
    let log = MemoryLog::new(&specs());
    crash(&log, false).await;
    let (mut stage, seen) = slow(SEEDS);
    stage.restores = vec![RestoreSpec { topic: topic::SITES, from: RestoreFrom::Start, follow: true }];
    let running = play(stage, &log, config());
    until_received(&seen, 1).await;
    fill(&log, at(topic::SITES, 2), "site", 1).await;
    a_while().await;
    assert_eq!(seen.lock().unwrap().followed, [""; 0]);
    complete_first(&seen);
    until_seen(&seen, "the tailed record", |seen| seen.followed == ["site0"]).await;
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_record_that_waits_for_a_refresh_of_the_tails_has_it_during_its_trial() {
    let log = MemoryLog::new(&specs());
    crash(&log, false).await;
    let (mut stage, seen) = slow(SEEDS);
    stage.tails = &[topic::CONTROL];
    let control = log.clone();
    stage.react = Box::new(move |_, _, actions| {
        // It takes effect at once.
        drop(control.append(vec![record(at(topic::CONTROL, 1), "setting")]));
        actions.refreshes.push(7);
    });
    let running = play(stage, &log, config());
    until_seen(&seen, "the refresh", |seen| seen.refreshed == [(7, 1)]).await;
    complete_first(&seen);
    until_committed(&log, at(topic::SEEDS, 0), 1).await;
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_trial_waits_for_the_records_of_other_stages_which_take_no_new_ones_until_it_has_ended() {
    let log = MemoryLog::new(&specs());
    crash(&log, false).await;
    let tp = at(topic::DISCOVERED, 1);
    fill(&log, tp, "link", 1).await;
    let trials = Trials::default();
    let (stage, busy) = slow(DISCOVERED);
    let sibling = start(&trials, stage, &log, "busy");
    until_received(&busy, 1).await;
    let (stage, seen) = slow(SEEDS);
    let running = start(&trials, stage, &log, TRYING);
    a_while().await;
    assert_eq!(received(&seen), 0, "the other stage has a record in flight");
    fill(&log, tp, "link", 1).await;
    a_while().await;
    assert_eq!(received(&busy), 1, "a trial is wanted");
    complete_first(&busy);
    until_received(&seen, 1).await;
    a_while().await;
    assert_eq!(received(&busy), 1, "a trial is running");
    complete_first(&seen);
    until_received(&busy, 2).await;
    running.end().await.unwrap();
    sibling.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_trial_beside_a_record_that_does_not_end_comes_at_last_and_does_not_count() {
    let log = MemoryLog::new(&specs());
    crash(&log, false).await;
    fill(&log, at(topic::DISCOVERED, 1), "link", 1).await;
    let trials = Trials::default();
    let (stage, busy) = slow(DISCOVERED);
    let sibling = start(&trials, stage, &log, "busy");
    until_received(&busy, 1).await;
    let (stage, seen) = slow(SEEDS);
    let running = start(&trials, stage, &log, TRYING);
    tokio::time::sleep(Duration::from_secs(180)).await;
    assert_eq!(received(&seen), 1);
    running.kill().await;
    sibling.kill().await;
    let kept = metadata(&log, at(topic::SEEDS, 0)).await;
    assert!(kept.contains(r#""trying":0,"untried":true"#), "{kept}");
    let (stage, seen) = slow(SEEDS);
    let running = play(stage, &log, config());
    until_received(&seen, 1).await;
    let kept = metadata(&log, at(topic::SEEDS, 0)).await;
    assert!(
        kept.contains(r#""trying":0"#) && !kept.contains("untried") && !kept.contains("unexplained_ends"),
        "{kept}"
    );
    running.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_outside_of_the_loops_counts_against_the_record_that_is_tried() {
    let log = MemoryLog::new(&specs());
    crash(&log, false).await;
    let tp = at(topic::SEEDS, 0);
    for crashes in 1..=3 {
        let trials = Trials::default();
        let (stage, seen) = slow(SEEDS);
        let running = start(&trials, stage, &log, TRYING);
        until_received(&seen, 1).await;
        trials.report_panic();
        let error = running.ended().await.unwrap_err().to_string();
        assert_eq!(error, "scripted panicked: outside of its loop; the log has the panic");
        let kept = metadata(&log, tp).await;
        assert!(kept.contains(r#""crashed":true"#) && !kept.contains("unexplained_ends"), "crash {crashes}: {kept}");
    }
    let (stage, seen) = slow(SEEDS);
    let running = play(stage, &log, config());
    until_committed(&log, tp, 1).await;
    assert_eq!(received(&seen), 0);
    assert_eq!(log.records(at(topic::DEAD_LETTERS, 0)).len(), 1);
    running.end().await.unwrap();
}
