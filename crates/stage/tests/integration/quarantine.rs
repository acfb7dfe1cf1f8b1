//! Poison records are found within a bounded number of crashes, wherever they are, and nothing else is condemned.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::play::*;
use orbweaver_log::{LogError, MemoryLog, memory::ScriptedResult};
use orbweaver_messages::{DeadLetter, topic};
use orbweaver_stage::{DEAD_LETTER_HEADER, RestoreFrom, RestoreSpec, RunnerConfig, Trials};
use proptest::prelude::*;

const SEEDS: &[topic::Topic] = &[topic::SEEDS];
const RECORDS: usize = 6;

/// Returns a stage that completes each record at once, restores and tails `crawl.sites` of its partitions, and panics
/// at `poison`.
fn stage(poison: &[String]) -> (Scripted, Arc<std::sync::Mutex<Seen>>) {
    let (mut stage, seen) = Scripted::new(SEEDS, |origin, _, actions| actions.completes.push(*origin));
    let spec = RestoreSpec { topic: topic::SITES, from: RestoreFrom::Start, follow: true };
    (stage.restores, stage.poison) = (vec![spec], poison.to_vec());
    (stage, seen)
}

/// Returns the contents of the dead letters.
fn condemned(log: &MemoryLog) -> Vec<String> {
    let letters = (0..PARTITIONS).flat_map(|partition| log.records(at(topic::DEAD_LETTERS, partition)));
    let mut condemned: Vec<String> = letters
        .map(|record| {
            let letter: DeadLetter = serde_json::from_slice(record.header(DEAD_LETTER_HEADER).unwrap()).unwrap();
            assert!(letter.reason.contains("crash"), "{}", letter.reason);
            text(&record)
        })
        .collect();
    // A kill before the commit causes a letter to be sent again.
    condemned.sort();
    condemned.dedup();
    condemned
}

async fn is_done(log: &MemoryLog) -> bool {
    for partition in 0..PARTITIONS {
        if committed(log, at(topic::SEEDS, partition)).await != Some(RECORDS as u64) {
            return false;
        }
    }
    true
}

/// Runs a stage that completes nothing, and kills it after `span`. Returns the number of records that it received.
async fn live(log: &MemoryLog, span: Duration) -> usize {
    let (running, seen) = started(SEEDS, log, |_, _, _| {});
    tokio::time::sleep(span).await;
    running.kill().await;
    seen.lock().unwrap().received.len()
}

#[tokio::test(start_paused = true)]
async fn a_restored_record_that_panics_its_reader_is_dead_lettered_after_three_crashes_and_passed_over() {
    let log = MemoryLog::new(&specs());
    fill(&log, at(topic::SITES, 2), "site", 4).await;
    let poison = ["site1".to_owned()];
    for _ in 0..3 {
        let error = play(stage(&poison).0, &log, config()).ended().await.unwrap_err().to_string();
        assert_eq!(error, "scripted panicked: poisoned by site1");
    }
    for _ in 0..2 {
        let (stage, seen) = stage(&poison);
        let running = play(stage, &log, config());
        until_seen(&seen, "the opening", |seen| seen.opened.len() == 4).await;
        assert_eq!(seen.lock().unwrap().restored, ["site0", "site2", "site3"]);
        assert_eq!(condemned(&log), ["site1"]);
        // An orderly shutdown keeps the verdicts.
        running.end().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_condemned_record_is_sent_to_the_dead_letters_once_however_often_its_commit_is_refused() {
    let log = MemoryLog::new(&specs());
    let tp = at(topic::SEEDS, 2);
    fill(&log, at(topic::SITES, 2), "site", 4).await;
    let poison = ["site1".to_owned()];
    for _ in 0..2 {
        play(stage(&poison).0, &log, config()).ended().await.unwrap_err();
    }
    (0..20).for_each(|_| log.script_commit(ScriptedResult::Fail { after: 0, error: LogError::NotAssigned(tp) }));
    let mut lives = 0;
    while !metadata(&log, tp).await.contains("\"crashes\":3") {
        lives += 1;
        assert!(lives <= 21, "{}", metadata(&log, tp).await);
        play(stage(&poison).0, &log, config()).ended().await.unwrap_err();
    }
    assert!(lives > 1);
    assert_eq!(log.records(at(topic::DEAD_LETTERS, 2)).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_followed_record_that_panics_its_reader_is_found_when_the_next_start_restores_it() {
    let log = MemoryLog::new(&specs());
    let poison = ["bad0".to_owned()];
    let (first, seen) = stage(&poison);
    let running = play(first, &log, config());
    until_seen(&seen, "the opening", |seen| seen.opened.len() == 4).await;
    fill(&log, at(topic::SITES, 1), "bad", 1).await;
    assert!(running.ended().await.unwrap_err().to_string().contains("poisoned by bad0"));
    for _ in 0..2 {
        play(stage(&poison).0, &log, config()).ended().await.unwrap_err();
    }
    let (last, seen) = stage(&poison);
    let running = play(last, &log, config());
    until_seen(&seen, "the opening", |seen| seen.opened.len() == 4).await;
    assert_eq!(condemned(&log), ["bad0"]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_tailed_record_that_panics_its_reader_waits_for_a_partition_under_which_its_crash_is_counted() {
    let log = MemoryLog::scripted(&specs());
    fill(&log, at(topic::CONTROL, 1), "bad", 1).await;
    let start = || {
        let (mut stage, seen) = stage(&["bad0".to_owned()]);
        stage.tails = &[topic::CONTROL];
        (play(stage, &log, config()), seen)
    };
    for life in 0..4 {
        let (running, seen) = start();
        a_while().await;
        assert!(!running.task.is_finished(), "it is not passed to the stage before");
        log.assign("scripted", life, &[at(topic::SEEDS, 0)]).unwrap();
        if life < 3 {
            let error = running.ended().await.unwrap_err().to_string();
            assert_eq!(error, "scripted panicked: poisoned by bad0");
        } else {
            until_seen(&seen, "the opening", |seen| seen.opened.len() == 1).await;
            assert_eq!(condemned(&log), ["bad0"]);
            running.end().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_condemned_record_is_remembered_until_the_commit_point_has_passed_it() {
    let log = MemoryLog::new(&specs());
    let tp = at(topic::FRONTIER, 2);
    fill(&log, tp, "url", 4).await;
    let start = || {
        let (mut stage, seen) = Scripted::new(&[topic::FRONTIER], |_, _, _| {});
        stage.restores = vec![RestoreSpec { topic: topic::FRONTIER, from: RestoreFrom::CommitPoint, follow: false }];
        stage.poison = vec!["url1".to_owned()];
        (play(stage, &log, config()), seen)
    };
    for _ in 0..3 {
        start().0.ended().await.unwrap_err();
    }
    for is_read in [true, false] {
        let (running, seen) = start();
        until_seen(&seen, "the openings", |seen| seen.opened.len() == 4).await;
        running.end().await.unwrap();
        let kept = metadata(&log, tp).await;
        assert_eq!((committed(&log, tp).await, kept.contains("crashers")), (Some(4), is_read), "{kept}");
    }
    assert_eq!(condemned(&log), ["url1"]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_record_whose_process_is_killed_nine_times_is_processed_in_the_end() {
    let log = MemoryLog::new(&specs());
    fill(&log, at(topic::SEEDS, 0), "slow", 1).await;
    for _ in 0..3 + 9 {
        // The pauses grow.
        assert_eq!(live(&log, Duration::from_secs(600)).await, 1);
    }
    let (running, _) = started(SEEDS, &log, |origin, _, actions| actions.completes.push(*origin));
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(committed(&log, at(topic::SEEDS, 0)).await, Some(1));
    assert_eq!(condemned(&log), [""; 0]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_killed_before_it_tries_the_suspect_again_counts_nothing_against_it() {
    let log = MemoryLog::new(&specs());
    fill(&log, at(topic::SEEDS, 0), "slow", 1).await;
    for _ in 0..5 {
        assert_eq!(live(&log, Duration::from_secs(60)).await, 1);
    }
    let unexplained_ends = "\"unexplained_ends\":2";
    for _ in 0..30 {
        // The retry waits for two seconds.
        assert_eq!(live(&log, Duration::from_secs(1)).await, 0);
        let kept = metadata(&log, at(topic::SEEDS, 0)).await;
        assert!(kept.contains(unexplained_ends), "{kept}");
    }
    assert_eq!(live(&log, Duration::from_secs(60)).await, 1);
    assert_eq!(condemned(&log), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_suspect_that_is_handed_over_before_it_is_tried_keeps_what_counts_against_it() {
    let log = MemoryLog::new(&specs());
    fill(&log, at(topic::SEEDS, 0), "slow", 1).await;
    for _ in 0..5 {
        live(&log, Duration::from_secs(60)).await;
    }
    for _ in 0..2 {
        let (running, seen) = started(SEEDS, &log, |_, _, _| {});
        // The retry waits for two seconds.
        until_seen(&seen, "the opening", |seen| seen.opened.len() == 4).await;
        running.end().await.unwrap();
        let kept = metadata(&log, at(topic::SEEDS, 0)).await;
        assert!(kept.starts_with(r#"{"trying":0,"unexplained_ends":2,"untried":true"#), "{kept}");
    }
    // Completed, it is no suspect any more.
    let (running, _) = started(SEEDS, &log, |origin, _, actions| actions.completes.push(*origin));
    until_committed(&log, at(topic::SEEDS, 0), 1).await;
    running.end().await.unwrap();
    let kept = metadata(&log, at(topic::SEEDS, 0)).await;
    assert!(!kept.contains("trying"), "{kept}");
}

#[tokio::test(start_paused = true)]
async fn stages_of_one_process_try_one_record_at_a_time_between_them() {
    let log = MemoryLog::new(&specs());
    let in_work = |seen: &Arc<Mutex<Seen>>| !seen.lock().unwrap().received.is_empty();
    let start = |group: &str, trials: &Trials| {
        let (stage, seen) = Scripted::new(SEEDS, |_, _, _| {});
        (play_beside(trials, stage, &log, RunnerConfig { group: Some(group.to_owned()), ..config() }), seen)
    };
    fill(&log, at(topic::SEEDS, 0), "slow", 1).await;
    // After being killed a few times with a record in flight, both stages deliver one record at a time.
    let mut tried = [0, 0];
    for life in 0..12 {
        let trials = Trials::default();
        let (first, second) = (start("first", &trials), start("second", &trials));
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let took = [in_work(&first.1), in_work(&second.1)];
        assert!(if life < 3 { took == [true; 2] } else { took[0] != took[1] }, "life {life}: {took:?}");
        if life >= 3 {
            (0..2).for_each(|stage| tried[stage] += usize::from(took[stage]));
        }
        first.0.kill().await;
        second.0.kill().await;
    }
    assert!(tried.iter().all(|lives| *lives >= 3), "both are tried: {tried:?}");
    // When its record completes, the other stage tries its own.
    let trials = Trials::default();
    let (first, second) = (start("first", &trials), start("second", &trials));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let (ready, other) = if in_work(&first.1) { (&first.1, &second.1) } else { (&second.1, &first.1) };
    let origin = ready.lock().unwrap().received[0].0;
    ready.lock().unwrap().release.push_back(origin);
    until_seen(other, "the other record", |seen| !seen.received.is_empty()).await;
    first.0.kill().await;
    second.0.kill().await;
    assert_eq!(condemned(&log), [""; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn poison_anywhere_is_found_within_a_bounded_number_of_crashes_and_random_kills_condemn_nothing(
        poison in prop::collection::btree_set((any::<bool>(), 0..PARTITIONS, 0..RECORDS), 0..4),
        kills in prop::collection::vec(1u64..3_000, 0..8),
    ) {
        let name = |(polled, partition, number): (bool, u32, usize)| {
            if polled { format!("seed-{partition}-{number}") } else { format!("site-{partition}-{number}") }
        };
        let mut poison: Vec<String> = poison.into_iter().map(name).collect();
        poison.sort();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let log = MemoryLog::new(&specs());
            for partition in 0..PARTITIONS {
                fill(&log, at(topic::SEEDS, partition), &format!("seed-{partition}-"), RECORDS).await;
                fill(&log, at(topic::SITES, partition), &format!("site-{partition}-"), RECORDS).await;
            }
            let (mut kills, mut crashes) = (kills.into_iter(), 0);
            while !is_done(&log).await {
                let mut running = play(stage(&poison).0, &log, config());
                let killed_after = kills.next();
                let lives = Duration::from_millis(killed_after.unwrap_or(700_000));
                match tokio::time::timeout(lives, &mut running.task).await {
                    Ok(ended) => {
                        assert!(ended.unwrap().unwrap_err().to_string().contains("poisoned by"));
                        crashes += 1;
                        // Three during the restore; or three in a batch and three alone, for each.
                        assert!(crashes <= 4 * 6, "not found in {crashes} crashes: {poison:?}");
                    }
                    Err(_) if killed_after.is_some() => running.kill().await,
                    Err(_) => running.end().await.unwrap(),
                }
            }
            assert_eq!(condemned(&log), poison);
        });
    }
}
