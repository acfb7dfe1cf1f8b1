//! A commit that is not answered keeps nothing waiting but what depends on it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::play::{
    watched::{Call, Watched},
    *,
};
use orbweaver_log::{MemoryLog, TopicPartition};
use orbweaver_messages::topic;
use orbweaver_stage::{RunnerConfig, ScriptedClock};
use tokio::time::Instant;

const SEEDS: &[topic::Topic] = &[topic::SEEDS];
const HANGS: usize = 10_000;

/// A stage on a log whose answers to commits can be delayed.
struct Slow {
    log: MemoryLog,
    seen: Arc<Mutex<Seen>>,
    play: Play,
    commit_takes: Arc<AtomicUsize>,
    commits: Arc<AtomicUsize>,
}

/// Starts a stage that completes a record when it is released, and assigns it `tps`.
async fn slow(tps: &[TopicPartition], clock: &Arc<ScriptedClock>) -> Slow {
    let log = MemoryLog::scripted(&specs());
    let (mut stage, seen) = Scripted::new(SEEDS, |_, _, _| {});
    stage.needs_proof = true;
    let (mut watched, commits) = (Watched::new(&log), Arc::new(AtomicUsize::new(0)));
    let (commit_takes, counted) = (watched.commit_takes.clone(), commits.clone());
    watched.hook = Arc::new(move |call| {
        if call == Call::Commit {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let config = RunnerConfig { frozen_after: Duration::from_secs(1000), ..config() };
    let play = Play::of(runner(stage, Arc::new(watched), config).with_clock(clock.clone()));
    until("the member", || async { log.assign("scripted", 0, tps).is_ok() }).await;
    until_seen(&seen, "the openings", |seen| seen.opened.len() == tps.len()).await;
    Slow { log, seen, play, commit_takes, commits }
}

impl Slow {
    /// Delivers a record to `tp`, and completes it at the next tick.
    async fn pass(&self, tp: TopicPartition) {
        let before = self.seen.lock().unwrap().received.len();
        fill(&self.log, tp, "seed", 1).await;
        until_seen(&self.seen, "the record", |seen| seen.received.len() > before).await;
        let origin = self.seen.lock().unwrap().received[before].0;
        self.seen.lock().unwrap().release.push_back(origin);
        until_seen(&self.seen, "the tick", |seen| seen.release.is_empty()).await;
    }

    /// Makes a commit hang.
    async fn hang(&self, tp: TopicPartition) {
        self.commit_takes.store(HANGS, Ordering::Relaxed);
        let before = self.commits.load(Ordering::Relaxed);
        self.pass(tp).await;
        until("the commit", || async { self.commits.load(Ordering::Relaxed) > before }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn while_a_commit_hangs_records_are_delivered_and_completed_and_the_stage_is_ticked() {
    let (tp, clock) = (at(topic::SEEDS, 0), Arc::new(ScriptedClock::at(1_000_000)));
    let slow = slow(&[tp], &clock).await;
    slow.hang(tp).await;
    let (begun, commits) = (Instant::now(), slow.commits.load(Ordering::Relaxed));
    for _ in 0..5 {
        slow.pass(tp).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(slow.commits.load(Ordering::Relaxed), commits, "one commit at a time");
    slow.commit_takes.store(0, Ordering::Relaxed);
    until_committed(&slow.log, tp, 6).await;
    assert_eq!(slow.commits.load(Ordering::Relaxed), commits + 1, "what completed meanwhile is in the next one");
    slow.play.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn ownership_counts_from_the_start_of_a_commit_however_late_it_is_answered() {
    let (tp, clock) = (at(topic::SEEDS, 0), Arc::new(ScriptedClock::at(1_000_000)));
    let slow = slow(&[tp], &clock).await;
    clock.advance(1_000);
    let reports = slow.seen.lock().unwrap().owned_until.len();
    slow.hang(tp).await;
    clock.advance(9_000);
    until_seen(&slow.seen, "the answer", |seen| seen.owned_until.len() > reports).await;
    assert_eq!(slow.seen.lock().unwrap().owned_until[reports], 2_001_000);
    slow.play.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_revoked_partition_waits_for_its_last_commit_and_other_partitions_do_not() {
    let (one, two) = (at(topic::SEEDS, 0), at(topic::SEEDS, 1));
    let slow = slow(&[one, two], &Arc::new(ScriptedClock::at(1_000_000))).await;
    slow.hang(one).await;
    let begun = Instant::now();
    slow.pass(one).await;
    slow.log.revoke("scripted", 0, &[one]).unwrap();
    until_seen(&slow.seen, "the end of the drain", |seen| seen.closed == [0]).await;
    slow.pass(two).await;
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(slow.log.held("scripted", 0), [one, two], "its last commit is not answered");
    until("the release", || async { slow.log.held("scripted", 0) == [two] }).await;
    assert!(begun.elapsed() > Duration::from_secs(15), "two commits hung");
    assert_eq!(committed(&slow.log, one).await, Some(2));
    slow.play.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_comes_back_while_its_commit_hangs_opens_after_the_answer() {
    let (one, two) = (at(topic::SEEDS, 0), at(topic::SEEDS, 1));
    let slow = slow(&[one, two], &Arc::new(ScriptedClock::at(1_000_000))).await;
    slow.hang(one).await;
    let begun = Instant::now();
    slow.log.lose("scripted", 0, &[one]).unwrap();
    slow.log.assign("scripted", 0, &[one]).unwrap();
    until_seen(&slow.seen, "the closing", |seen| seen.closed == [0]).await;
    slow.pass(two).await;
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    slow.commit_takes.store(0, Ordering::Relaxed);
    until_seen(&slow.seen, "the opening", |seen| seen.opened.len() == 3).await;
    assert!(begun.elapsed() > Duration::from_secs(8), "its commit point was not known before");
    slow.pass(one).await;
    until_committed(&slow.log, one, 2).await;
    slow.play.end().await.unwrap();
}
