//! A record that the log refuses causes the rejection of its own origins, and ends neither the stage nor another plan.

use std::{sync::Arc, time::Duration};

use crate::play::{watched::Watched, *};
use orbweaver_log::{ConsumerRecord, Log, MemoryLog, Record};
use orbweaver_messages::{DeadLetter, topic};
use orbweaver_stage::{DEAD_LETTER_CUT_HEADER, DEAD_LETTER_HEADER, Plan, Step};
use proptest::prelude::*;
use tokio::time::Instant;

const SEEDS: &[topic::Topic] = &[topic::SEEDS];
/// Record limit of these logs.
const LIMIT: usize = 1_000;

fn log() -> MemoryLog {
    MemoryLog::new(&specs()).with_record_limit(LIMIT)
}

fn too_large(text: &str) -> Record {
    let tp = at(topic::DISCOVERED, 0);
    Record { value: Some(vec![7; LIMIT + 1].into()), ..record(tp, text) }
}

fn letter(record: &ConsumerRecord) -> DeadLetter {
    serde_json::from_slice(record.header(DEAD_LETTER_HEADER).unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_refused_record_without_an_origin_ends_nothing_and_its_plan_hears_of_it() {
    let log = log();
    fill(&log, at(topic::SEEDS, 0), "seed", 2).await;
    let (play, seen) = started(SEEDS, &log, |origin, _, actions| {
        actions.completes.push(*origin);
        actions.plans.push(Plan {
            steps: vec![Step::Produce(vec![too_large("alone")])],
            completes: vec![],
            token: Some(9),
        });
    });
    until_seen(&seen, "both", |seen| seen.refused == [9, 9]).await;
    until_committed(&log, at(topic::SEEDS, 0), 2).await;
    assert!(log.records(at(topic::DEAD_LETTERS, 0)).is_empty());
    play.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_would_be_too_large_goes_without_a_part_and_says_so() {
    const ROOM: usize = orbweaver_log::DEAD_LETTER_ROOM;
    let log = log();
    let tp = at(topic::SEEDS, 0);
    // The existing records were accepted under a higher limit.
    let large = log.clone().with_record_limit(10 * ROOM);
    let mut headers = record(tp, "headers");
    headers.headers = vec![("huge", vec![7; LIMIT + ROOM].into())];
    let value = Record { value: Some(vec![7; LIMIT + ROOM].into()), ..record(tp, "") };
    large.append(vec![value, headers, record(tp, "small")]).await.unwrap();
    let log = large.with_record_limit(LIMIT);
    let (stage, _) =
        Scripted::new(SEEDS, |origin, _, actions| actions.rejects.push((*origin, "bad\u{1}".repeat(100_000))));
    let play = play(stage, &log, config());
    until_committed(&log, tp, 3).await;
    let mut letters = log.records(at(topic::DEAD_LETTERS, 0));
    letters.sort_by_key(|record| letter(record).offset);
    let shapes: Vec<_> = letters
        .iter()
        .map(|letter| (letter.key.is_some(), letter.value.is_some(), letter.header(DEAD_LETTER_CUT_HEADER).is_some()))
        .collect();
    assert_eq!(shapes, [(true, false, true), (false, false, true), (true, true, false)]);
    assert!(letters.iter().all(|record| letter(record).reason.len() <= 4096));
    play.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_rejected_record_waits_for_a_log_that_is_unavailable_for_minutes() {
    let log = log();
    let tp = at(topic::SEEDS, 0);
    fill(&log, tp, "seed", 1).await;
    let until = Instant::now() + Duration::from_secs(120);
    let (stage, _) = Scripted::new(SEEDS, |origin, _, actions| actions.rejects.push((*origin, "bad".to_owned())));
    let away = Watched { away_until: until, ..Watched::new(&log) };
    let play = Play::of(runner(stage, Arc::new(away), config()));
    tokio::time::sleep_until(until).await;
    until_committed(&log, tp, 1).await;
    let letters = log.records(at(topic::DEAD_LETTERS, 0));
    assert_eq!((letters.len(), letter(&letters[0]).reason.as_str()), (1, "bad"));
    play.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_record_with_a_newer_version_of_its_schema_goes_to_the_dead_letters_unread() {
    let log = log();
    let tp = at(topic::SEEDS, 0);
    let known = Record::new(tp, None, Some("known".into()), 1);
    let mut newer = Record { value: Some("newer".into()), ..known.clone() };
    newer.headers[1].1 = "2".into();
    log.append(vec![newer, known]).await.unwrap();
    let (play, seen) = started(SEEDS, &log, |origin, _, actions| actions.completes.push(*origin));
    until_committed(&log, tp, 2).await;
    let received: Vec<String> = seen.lock().unwrap().received.iter().map(|(_, text)| text.clone()).collect();
    assert_eq!(received, ["known"]);
    let letters = log.records(at(topic::DEAD_LETTERS, 0));
    let wanted = "schema `seed` has version \"2\"; this release reads version 1: upgrade this program";
    assert_eq!((letters.len(), letter(&letters[0]).reason.as_str()), (1, wanted));
    play.end().await.unwrap();
}

/// A step of a plan: records to produce, `true` for one that is too large; or an effect.
#[derive(Debug, Clone)]
enum Do {
    Produce(Vec<bool>),
    Perform,
}

fn step() -> impl Strategy<Value = Do> {
    prop_oneof![
        3 => prop::collection::vec(prop::bool::weighted(0.1), 0..4).prop_map(Do::Produce),
        1 => Just(Do::Perform),
    ]
}

fn is_refused(steps: &[Do]) -> bool {
    steps.iter().any(|step| matches!(step, Do::Produce(large) if large.contains(&true)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Plans of one to three seeds each, refused at any step or none.
    #[test]
    fn exactly_the_origins_of_refused_records_are_rejected_and_all_others_complete(
        plans in prop::collection::vec((prop::collection::vec(step(), 0..4), 1..4_usize), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let log = log();
            let tp = at(topic::SEEDS, 0);
            let seeds: usize = plans.iter().map(|(_, seeds)| seeds).sum();
            fill(&log, tp, "", seeds).await;
            let (mut next, mut held) = (plans.clone().into_iter().enumerate(), vec![]);
            let mut current = next.next();
            let (play, seen) = started(SEEDS, &log, move |origin, _, actions| {
                held.push(*origin);
                let Some((number, (steps, seeds))) = current.clone() else { return };
                if held.len() < seeds {
                    return;
                }
                let steps = steps.iter().enumerate().map(|(step, what)| match what {
                    Do::Perform => Step::Perform(vec![format!("{number}.{step}")]),
                    Do::Produce(large) => Step::Produce(large.iter().map(|large| match large {
                        true => too_large("large"),
                        false => record(at(topic::DISCOVERED, 0), &format!("{number}.{step}")),
                    }).collect()),
                });
                let (steps, completes) = (steps.collect(), std::mem::take(&mut held));
                actions.plans.push(Plan { steps, completes, token: Some(number as u64) });
                current = next.next();
            });
            until_committed(&log, tp, seeds as u64).await;
            play.end().await.unwrap();

            let mut first = 0;
            let (mut rejected, mut refused, mut settled) = (vec![], vec![], vec![]);
            let mut produced = vec![];
            let mut performed = vec![];
            for (number, (steps, seeds)) in plans.iter().enumerate() {
                if is_refused(steps) {
                    rejected.extend(first..first + *seeds as u64);
                    refused.push(number as u64);
                } else {
                    settled.push(number as u64);
                }
                first += *seeds as u64;
                // Up to the step of the refused record, including the other records of that step, and not beyond.
                for (step, what) in steps.iter().enumerate() {
                    match what {
                        Do::Perform => performed.push(format!("{number}.{step}")),
                        Do::Produce(large) => {
                            produced.extend(large.iter().filter(|large| !**large).map(|_| format!("{number}.{step}")));
                            if large.contains(&true) {
                                break;
                            }
                        }
                    }
                }
            }
            let sorted = |mut texts: Vec<String>| { texts.sort(); texts };
            let mut letters = log.records(at(topic::DEAD_LETTERS, 0));
            letters.sort_by_key(|record| letter(record).offset);
            let wanted = "a record produced from it was refused: crawl.discovered/0: a record of 1004 bytes; allowed: 1000";
            for (record, offset) in letters.iter().zip(&rejected) {
                let letter = letter(record);
                assert_eq!((letter.offset, letter.reason.as_str(), text(record)), (*offset, wanted, offset.to_string()));
            }
            assert_eq!(letters.len(), rejected.len());
            let mut seen = std::mem::take(&mut *seen.lock().unwrap());
            seen.refused.sort_unstable();
            let mut durable: Vec<u64> = seen.settled.iter().map(|(token, _)| *token).collect();
            durable.sort_unstable();
            assert_eq!((seen.refused, durable), (refused, settled));
            assert_eq!(sorted(seen.performed), sorted(performed));
            let texts = log.records(at(topic::DISCOVERED, 0)).iter().map(text).collect();
            assert_eq!(sorted(texts), sorted(produced));
        });
    }
}
