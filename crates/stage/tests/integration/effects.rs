//! A stage's actions are executed in order, and nothing completes before they are durable.

use std::time::Duration;

use crate::play::*;
use orbweaver_log::{Log, LogError, MemoryLog, memory::ScriptedResult};
use orbweaver_messages::{DeadLetter, topic};
use orbweaver_stage::{DEAD_LETTER_HEADER, Limits, Plan, RunnerConfig, StageError, Step};

const SEEDS: &[topic::Topic] = &[topic::SEEDS];

#[tokio::test(start_paused = true)]
async fn every_record_passes_once_and_the_commit_reaches_the_end() {
    let log = MemoryLog::new(&specs());
    fill_all(&log, topic::SEEDS, "seed", 2500).await;
    let (play, _) = started(SEEDS, &log, |origin, seed, actions| {
        let tp = at(topic::DISCOVERED, origin.tp.partition);
        actions.produce(vec![record(tp, &text(seed))], vec![*origin]);
    });
    for partition in 0..PARTITIONS {
        until_committed(&log, at(topic::SEEDS, partition), 2500).await;
        let passed: Vec<String> = log.records(at(topic::DISCOVERED, partition)).iter().map(text).collect();
        assert_eq!(passed, (0..2500).map(|number| format!("seed{number}")).collect::<Vec<_>>());
    }
    assert_eq!(metadata(&log, at(topic::SEEDS, 0)).await, "");
    play.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_step_begins_when_the_one_before_is_durable_and_the_origin_completes_after_the_last() {
    let log = MemoryLog::new(&specs());
    fill(&log, at(topic::SEEDS, 0), "seed", 1).await;
    let (stage, seen) = Scripted::new(SEEDS, |origin, _, actions| {
        let steps = vec![
            Step::Perform(vec!["page".to_owned()]),
            Step::Produce(vec![record(at(topic::FRONTIER, 0), "a"), record(at(topic::FRONTIER, 1), "b")]),
            Step::Perform(vec!["row".to_owned()]),
            Step::Produce(vec![record(at(topic::FRONTIER, 0), "c")]),
        ];
        actions.plans.push(Plan { steps, completes: vec![*origin], token: Some(7) });
        // A short plan of the same iteration does not wait for the long one.
        actions.plans.push(Plan {
            steps: vec![Step::Perform(vec!["alone".to_owned()])],
            completes: vec![],
            token: Some(8),
        });
    });
    log.hold_appends(true);
    let play = play(stage, &log, config());
    until_seen(&seen, "the first step", |seen| seen.settled == [(8, vec![])]).await;
    a_while().await;
    assert_eq!(seen.lock().unwrap().performed, ["page", "alone"], "the third step waits for the second");
    assert_eq!(committed(&log, at(topic::SEEDS, 0)).await, Some(0));
    log.hold_appends(false);
    until_committed(&log, at(topic::SEEDS, 0), 1).await;
    assert_eq!(seen.lock().unwrap().performed, ["page", "alone", "row"]);
    let settled = seen.lock().unwrap().settled.clone();
    assert_eq!(settled, [(8, vec![]), (7, vec![0, 0, 1])], "the offsets of all its records, in order");
    play.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_job_completes_its_record_when_it_is_done() {
    let log = MemoryLog::new(&specs());
    fill(&log, at(topic::SEEDS, 2), "seed", 100).await;
    let (play, _) = started(SEEDS, &log, |origin, _, actions| actions.jobs.push(*origin));
    until_committed(&log, at(topic::SEEDS, 2), 100).await;
    play.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failing_append_a_failing_effect_and_a_halt_end_the_stage_and_complete_nothing() {
    for expected in ["the log failed: disk full", "the store is gone", "scripted: the pins of the crawl differ"] {
        let log = MemoryLog::new(&specs());
        fill(&log, at(topic::SEEDS, 0), "seed", 10).await;
        let (stage, seen) = Scripted::new(SEEDS, move |origin, seed, actions| {
            let step = match expected {
                "the log failed: disk full" => Step::Produce(vec![record(at(topic::DISCOVERED, 0), &text(seed))]),
                "the store is gone" => Step::Perform(vec!["fail".to_owned()]),
                _ => return actions.completes.push(*origin),
            };
            actions.plans.push(Plan { steps: vec![step], completes: vec![*origin], token: Some(1) });
        });
        log.script_append(ScriptedResult::Fail { after: 4, error: LogError::Fatal("disk full".to_owned()) });
        seen.lock().unwrap().halt = expected.strip_prefix("scripted: ").map(str::to_owned);
        let error = play(stage, &log, config()).ended().await.unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(committed(&log, at(topic::SEEDS, 0)).await, Some(0));
        assert!(seen.lock().unwrap().settled.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejected_record_is_in_the_dead_letters_untouched_before_its_origin_completes() {
    let log = MemoryLog::new(&specs());
    let tp = at(topic::SEEDS, 3);
    let mut bad = record(tp, "{broken");
    bad.headers = vec![("trace", "t1".into())];
    log.append(vec![record(tp, "good"), bad, record(tp, "good"), record(tp, "{worse")]).await.unwrap();
    let (stage, _) = Scripted::new(SEEDS, |origin, seed, actions| match text(seed).as_str() {
        "good" => actions.completes.push(*origin),
        broken => actions.rejects.push((*origin, format!("not JSON: {broken}"))),
    });
    log.hold_appends(true);
    let play = play(stage, &log, config());
    let dead = at(topic::DEAD_LETTERS, 3);
    until("the dead letters", || async { log.records(dead).len() == 2 }).await;
    a_while().await;
    assert_eq!(committed(&log, tp).await, Some(1), "not complete before it is acknowledged");
    log.hold_appends(false);
    until_committed(&log, tp, 4).await;
    let letters = log.records(dead);
    assert_eq!((text(&letters[0]), text(&letters[1])), ("{broken".to_owned(), "{worse".to_owned()));
    assert_eq!(letters[0].key.as_deref(), Some(b"key".as_slice()));
    assert_eq!(letters[0].header("trace").map(|value| &value[..]), Some(b"t1".as_slice()));
    let letter: DeadLetter = serde_json::from_slice(letters[0].header(DEAD_LETTER_HEADER).unwrap()).unwrap();
    assert_eq!((letter.service.as_str(), letter.topic.as_str()), ("scripted", "crawl.seeds"));
    assert_eq!((letter.partition, letter.offset, letter.reason.as_str()), (3, 1, "not JSON: {broken"));
    play.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_full_budget_pauses_reading_and_parked_records_do_not_count() {
    let log = MemoryLog::new(&specs());
    fill(&log, at(topic::SEEDS, 0), "seed", 5000).await;
    let limits = Limits { records: 1500, bytes: 1 << 20 };
    let config = RunnerConfig { limits, ..config() };
    let (stage, seen) = Scripted::new(SEEDS, |_, _, _| {});
    let running = play(stage, &log, config.clone());
    until_seen(&seen, "the limit", |seen| seen.received.len() >= 1500).await;
    a_while().await;
    let received: Vec<_> = seen.lock().unwrap().received.iter().map(|(origin, _)| *origin).collect();
    assert!(received.len() <= 2500, "{} records: the limit and one poll", received.len());
    // Completing all of it, in reverse, admits the next ones.
    seen.lock().unwrap().release.extend(received.iter().rev());
    until_seen(&seen, "more", |seen| seen.received.len() > received.len()).await;
    until_committed(&log, at(topic::SEEDS, 0), received.len() as u64).await;
    running.kill().await;

    let (stage, seen) = Scripted::new(SEEDS, |origin, _, actions| actions.parked.push(*origin));
    let running = play(stage, &log, config);
    until_seen(&seen, "all of them", |seen| seen.received.len() + received.len() == 5000).await;
    assert_eq!(committed(&log, at(topic::SEEDS, 0)).await, Some(received.len() as u64), "parked is not complete");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn work_that_is_due_and_does_not_move_ends_the_stage_and_parked_work_does_not() {
    let log = MemoryLog::new(&specs());
    let (play, seen) = started(SEEDS, &log, |_, _, _| {});
    tokio::time::sleep(Duration::from_secs(500)).await;
    assert!(!play.task.is_finished(), "nothing is due");
    seen.lock().unwrap().due = 3;
    tokio::time::sleep(Duration::from_secs(110)).await;
    assert!(!play.task.is_finished());
    let error = play.ended().await.unwrap_err();
    assert!(matches!(error, StageError::Stalled { service: "scripted", seconds: 120..130 }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_setting_and_topics_of_different_widths_are_refused_by_name() {
    let log = MemoryLog::new(&specs());
    let limits = Limits { records: 0, bytes: 1 };
    let (stage, _) = Scripted::new(SEEDS, |_, _, _| {});
    let error = play(stage, &log, RunnerConfig { limits, ..config() }).ended().await.unwrap_err();
    assert_eq!(error.to_string(), "scripted: `limits.records` is 0; allowed: 1 and above");

    let mut uneven = specs();
    uneven[1].partitions = 8;
    let (stage, _) = Scripted::new(&[topic::SEEDS, topic::DISCOVERED], |_, _, _| {});
    let error = play(stage, &MemoryLog::new(&uneven), config()).ended().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "scripted: crawl.seeds has 4 partitions, crawl.discovered has 8: recreate crawl.discovered with 4"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_to_be_written_and_is_not_durable_counts_and_pauses_reading() {
    let log = MemoryLog::new(&specs());
    fill(&log, at(topic::SEEDS, 0), "seed", 5000).await;
    let limits = Limits { records: 1_000_000, bytes: 1 << 20 };
    let large = "x".repeat(2048);
    let (stage, seen) = Scripted::new(SEEDS, move |origin, _, actions| {
        actions.parked.push(*origin);
        actions.produce(vec![record(at(topic::DISCOVERED, 0), &large)], vec![*origin]);
    });
    log.hold_appends(true);
    let play = play(stage, &log, RunnerConfig { limits, ..config() });
    until_seen(&seen, "the limit", |seen| seen.received.len() >= 512).await;
    a_while().await;
    let received = seen.lock().unwrap().received.len();
    assert!(received <= 1512, "{received} records: the limit and one poll");
    log.hold_appends(false);
    until_committed(&log, at(topic::SEEDS, 0), 5000).await;
    play.end().await.unwrap();
}
