//! Topics that a process reads completely: once, before its first partition opens, and then continuously.

use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use crate::play::{watched::Watched, *};
use orbweaver_log::{Cleanup, Log, MemoryLog, TopicSpec};
use orbweaver_messages::{Topic, topic};
use orbweaver_stage::{RestoreFrom, RestoreSpec, RunnerConfig};

const SEEDS: &[Topic] = &[topic::SEEDS];
const CONTROL: &[Topic] = &[topic::CONTROL];

/// Creates a stage that tails `crawl.control`.
fn tailing() -> (Scripted, Arc<Mutex<Seen>>) {
    let (mut stage, seen) = Scripted::new(SEEDS, |_, _, _| {});
    stage.tails = CONTROL;
    (stage, seen)
}

#[tokio::test(start_paused = true)]
async fn sixty_four_partitions_open_with_one_reader_for_each_of_a_thousand_partitions_of_a_tail() {
    let spec = |topic, partitions| TopicSpec::new(topic, partitions, Cleanup::Delete);
    let log = MemoryLog::new(&[spec(topic::SEEDS, 64), spec(topic::DEAD_LETTERS, 64), spec(topic::CONTROL, 1024)]);
    for partition in 0..1024 {
        fill(&log, at(topic::CONTROL, partition), "setting", 3).await;
    }
    let watched = Arc::new(Watched::new(&log));
    let (stage, seen) = tailing();
    let running = Play::of(runner(stage, watched.clone(), config()));
    until_seen(&seen, "the openings", |seen| seen.opened.len() == 64).await;
    assert_eq!(seen.lock().unwrap().followed_before, Some(3 * 1024));
    assert_eq!(watched.readers.load(Ordering::Relaxed), 1024);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_partition_opens_before_a_lagging_leader_has_what_another_said_was_there() {
    for comes in [true, false] {
        let log = MemoryLog::new(&specs());
        fill(&log, at(topic::CONTROL, 2), "setting", 5).await;
        let watched = Arc::new(Watched::new(&log));
        watched.ahead.store(1, Ordering::Relaxed);
        let (stage, seen) = tailing();
        let config = RunnerConfig { restore_patience: Duration::from_secs(60), ..config() };
        let running = Play::of(runner(stage, watched.clone(), config));
        until_seen(&seen, "the existing records", |seen| seen.followed.len() == 5).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(seen.lock().unwrap().opened.len(), 0);
        if comes {
            watched.ahead.store(0, Ordering::Relaxed);
            fill_all(&log, topic::CONTROL, "late", 1).await;
            until_seen(&seen, "the openings", |seen| seen.opened.len() == 4).await;
            assert_eq!(seen.lock().unwrap().followed_before, Some(9));
            running.end().await.unwrap();
        } else {
            let error = running.ended().await.unwrap_err().to_string();
            assert_eq!(error, "scripted: crawl.control/0: nothing could be read between 0 and 1 for 60 s");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_tail_is_read_whole_once_before_the_first_partition_opens_and_then_as_it_grows() {
    let log = MemoryLog::scripted(&specs());
    fill_all(&log, topic::CONTROL, "old", 10).await;
    let (stage, seen) = tailing();
    let running = play(stage, &log, config());
    let open = |partition| log.assign("scripted", 0, &[at(topic::SEEDS, partition)]);
    until("the member", || async { open(0).is_ok() }).await;
    until_seen(&seen, "the opening", |seen| seen.opened.len() == 1).await;
    assert_eq!(seen.lock().unwrap().followed_before, Some(40), "every partition of it");
    fill(&log, at(topic::CONTROL, 3), "new", 5).await;
    until_seen(&seen, "the new ones", |seen| seen.followed.len() == 45).await;
    open(1).unwrap();
    until_seen(&seen, "the second opening", |seen| seen.opened.len() == 2).await;
    log.revoke("scripted", 0, &[at(topic::SEEDS, 0), at(topic::SEEDS, 1)]).unwrap();
    until_seen(&seen, "both closed", |seen| seen.closed.len() == 2).await;
    fill(&log, at(topic::CONTROL, 3), "last", 1).await;
    a_while().await;
    assert_eq!(seen.lock().unwrap().followed.len(), 45, "nothing is tailed without a partition");
    open(0).unwrap();
    until_seen(&seen, "the last one", |seen| seen.followed.last().is_some_and(|last| last == "last0")).await;
    assert_eq!(seen.lock().unwrap().followed.len(), 46, "once, however many partitions open and close");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_partition_opens_when_what_its_former_owner_wrote_to_the_tails_has_reached_the_stage() {
    let log = MemoryLog::scripted(&specs());
    let (stage, seen) = tailing();
    let running = play(stage, &log, config());
    let open = |partition| log.assign("scripted", 0, &[at(topic::SEEDS, partition)]);
    for partition in 0..PARTITIONS {
        until("the member", || async { open(partition).is_ok() }).await;
        let opened = partition as usize + 1;
        until_seen(&seen, "the opening", |seen| seen.opened.len() == opened).await;
        assert_eq!(seen.lock().unwrap().followed.len(), 5_000 * partition as usize);
        // Enough for several reads, and the next partition is assigned immediately.
        fill(&log, at(topic::CONTROL, partition), "setting", 5_000).await;
    }
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refresh_is_over_when_the_tails_were_read_as_far_as_they_went_when_it_was_asked_for() {
    let log = MemoryLog::new(&specs());
    let (stage, seen) = tailing();
    let running = play(stage, &log, config());
    until_seen(&seen, "the openings", |seen| seen.opened.len() == 4).await;
    for token in 0..5 {
        let written = (token as usize + 1) * 2_500;
        // A gap at the end is read, too.
        fill(&log, at(topic::CONTROL, 1), "setting", 2_500).await;
        log.compact(at(topic::CONTROL, 2)).unwrap();
        seen.lock().unwrap().refresh.push(token);
        until_seen(&seen, "the refresh", |seen| seen.refreshed.len() == token as usize + 1).await;
        assert_eq!(seen.lock().unwrap().refreshed.last(), Some(&(token, written)));
    }
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_tail_reaches_the_stage_while_a_large_restore_is_read() {
    const RESTORED: usize = 60_000;
    let log = MemoryLog::scripted(&specs());
    fill(&log, at(topic::SITES, 0), "site", RESTORED).await;
    let (mut stage, seen) = tailing();
    stage.restores = vec![RestoreSpec { topic: topic::SITES, from: RestoreFrom::Start, follow: false }];
    let mut watched = Watched::new(&log);
    let (control, restoring) = (log.clone(), seen.clone());
    watched.hook = Arc::new(move |_| {
        let tp = at(topic::CONTROL, 0);
        if restoring.lock().unwrap().restored.len() >= 10_000 && control.records(tp).is_empty() {
            // It takes effect at once.
            drop(control.append(vec![record(tp, "setting")]));
        }
    });
    let running = Play::of(runner(stage, Arc::new(watched), config()));
    until("the member", || async { log.assign("scripted", 0, &[at(topic::SEEDS, 0)]).is_ok() }).await;
    until_seen(&seen, "the opening", |seen| seen.opened.len() == 1).await;
    until_seen(&seen, "the setting", |seen| seen.followed.len() == 1).await;
    let before = seen.lock().unwrap().restored_before[0];
    assert!((10_000..RESTORED / 2).contains(&before), "{before}");
    running.end().await.unwrap();
}
