//! Opening a partition: claims, replays, commit points that are not in the log, and records that crash their process.

use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use crate::play::{watched::Watched, *};
use orbweaver_log::{Log, MemoryLog, Record, memory::ScriptedResult};
use orbweaver_messages::{DeadLetter, Topic, topic};
use orbweaver_stage::{
    DEAD_LETTER_HEADER, IndexCheckpoint, RestoreFrom, RestoreSpec, RunnerConfig, ScriptedClock, StartFrom, is_claim,
};

const SEEDS: &[Topic] = &[topic::SEEDS];
const FRONTIER: &[Topic] = &[topic::FRONTIER];
const CONTROL: &[Topic] = &[topic::CONTROL];

fn from(topic: Topic, from: RestoreFrom) -> RestoreSpec {
    RestoreSpec { topic, from, follow: false }
}

#[tokio::test(start_paused = true)]
async fn after_a_restore_reading_goes_on_at_the_claim_while_the_commit_stays_at_the_lowest_incomplete() {
    let log = MemoryLog::new(&specs());
    let tp = at(topic::FRONTIER, 1);
    // The stage reports the same offsets for each of the four partitions; the other three are empty.
    fill_all(&log, topic::FRONTIER, "url", 100).await;
    let open = |incomplete: Vec<(Topic, u64)>| {
        let (mut stage, seen) = Scripted::new(FRONTIER, |_, _, _| {});
        stage.claims = FRONTIER;
        stage.restores = vec![from(topic::FRONTIER, RestoreFrom::CommitPoint)];
        seen.lock().unwrap().incomplete = incomplete;
        (play(stage, &log, config()), seen)
    };
    let (running, seen) = open(vec![(topic::FRONTIER, 40), (topic::FRONTIER, 70)]);
    until_committed(&log, tp, 40).await;
    assert!(is_claim(&log.records(tp)[100]), "the claim follows the restored records");
    fill(&log, tp, "new", 2).await;
    until_seen(&seen, "the new ones", |seen| seen.received.len() == 2).await;
    {
        let seen = seen.lock().unwrap();
        assert_eq!(seen.restored.len(), 4 * 100);
        assert!(seen.opened.iter().all(|opening| opening.owner_epoch == 100 && opening.partitions == 4));
        assert_eq!(seen.received[0].1, "new0", "no record is handed out twice, and no claim at all");
    }
    running.kill().await;

    // The next owner's claim comes after them; it restores from the commit point, and can complete the rest.
    let (running, seen) = open(vec![(topic::FRONTIER, 70)]);
    until_committed(&log, tp, 70).await;
    let opening = *seen.lock().unwrap().opened.iter().find(|opening| opening.partition == 1).unwrap();
    assert_eq!(opening.owner_epoch, 103);
    let restored = seen.lock().unwrap().restored.clone();
    assert_eq!(restored.len(), 4 * 60 + 2, "from the commit point on, without claims");
    let left = orbweaver_stage::Origin { tp, offset: 70, assignment_epoch: opening.assignment_epoch };
    seen.lock().unwrap().release.push_back(left);
    until_committed(&log, tp, 104).await;
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_claim_carries_the_time_at_which_it_is_written_however_long_its_partition_waited_to_be_opened() {
    let log = MemoryLog::new(&specs());
    log.hold_appends(true);
    let (mut stage, seen) = Scripted::new(FRONTIER, |_, _, _| {});
    stage.claims = FRONTIER;
    let clock = Arc::new(ScriptedClock::at(1_000_000));
    let config = RunnerConfig { restores_at_once: 1, ..config() };
    let running = Play::of(runner(stage, Arc::new(log.clone()), config).with_clock(clock.clone()));
    let written = || -> Vec<_> {
        let claims = (0..PARTITIONS).flat_map(|partition| log.records(at(topic::FRONTIER, partition)));
        claims.map(|claim| claim.timestamp_ms).collect()
    };
    until("the first claim", || async { written() == [1_000_000] }).await;
    clock.advance(60_000);
    log.hold_appends(false);
    until_seen(&seen, "the openings", |seen| seen.opened.len() == 4).await;
    let mut written = written();
    written.sort_unstable();
    assert_eq!(written, [1_000_000, 1_060_000, 1_060_000, 1_060_000]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_restore_begins_behind_the_record_at_which_an_index_stands_if_that_is_the_one_in_the_log() {
    let log = MemoryLog::new(&specs());
    fill_all(&log, topic::FRONTIER, "url", 10).await;
    let position = |change: fn(&mut IndexCheckpoint)| {
        let mut position = IndexCheckpoint::of(&log.records(at(topic::FRONTIER, 1))[6]);
        change(&mut position);
        RestoreFrom::FromCheckpoint { position, within: None }
    };
    let cases: [(RestoreFrom, usize, usize); 4] = [
        (position(|_| {}), 3, 0),
        (position(|position| position.hash += 1), 10, 4),
        (position(|position| position.timestamp_ms += 1), 10, 4),
        (position(|position| position.offset = 1000), 10, 4),
    ];
    for (number, (spec, restored, distrusted)) in cases.into_iter().enumerate() {
        let (mut stage, seen) = Scripted::new(FRONTIER, |_, _, _| {});
        stage.restores = vec![from(topic::FRONTIER, spec)];
        // The commit point stays at the start.
        seen.lock().unwrap().incomplete = vec![(topic::FRONTIER, 0)];
        let running = play(stage, &log, config());
        until_seen(&seen, "opened", |seen| seen.opened.len() == 4).await;
        {
            let seen = seen.lock().unwrap();
            assert_eq!((seen.restored.len(), seen.distrusted.len()), (4 * restored, distrusted), "case {number}");
        }
        running.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_restore_back_in_time_begins_with_the_first_record_that_is_young_enough_or_where_the_stage_says() {
    for (back, restored) in [(None, 2..4), (Some(3), 2..4), (Some(1), 1..4), (Some(0), 1..4)] {
        let wanted: Vec<_> = restored.map(|number: u32| format!("outcome{number}")).collect();
        assert_eq!(looked_back(back).await, wanted, "{back:?}");
    }
}

/// Returns the restored ones of four records, the first of which is deleted and the last two of which are young enough.
async fn looked_back(back: Option<u64>) -> Vec<String> {
    let log = MemoryLog::new(&specs());
    fill(&log, at(topic::CONTROL, 0), "setting", 1).await;
    let tp = at(topic::OUTCOMES, 0);
    let now = 1_700_000_000_000;
    let mut records: Vec<_> = (0..4).map(|number| record(tp, &format!("outcome{number}"))).collect();
    for (record, age_ms) in records.iter_mut().zip([90_000, 61_000, 59_000, 1000]) {
        record.timestamp_ms = now - age_ms;
    }
    log.append(records).await.unwrap();
    log.delete_below(tp, 1).await.unwrap();
    let (mut stage, seen) = Scripted::new(SEEDS, |_, _, _| {});
    seen.lock().unwrap().back = back;
    stage.tails = CONTROL;
    stage.restores = vec![from(topic::OUTCOMES, RestoreFrom::LookBack(Duration::from_secs(60)))];
    let clock = Arc::new(ScriptedClock::at(now));
    let running = Play::of(runner(stage, Arc::new(log), config()).with_clock(clock));
    until_seen(&seen, "the openings", |seen| seen.opened.len() == 4).await;
    running.end().await.unwrap();
    let seen = seen.lock().unwrap();
    seen.restored.iter().filter(|text| text.starts_with("outcome")).cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn a_stage_halts_at_a_restored_or_tailed_record_with_another_version_of_its_schema() {
    let of_version = |version: &'static str, tp, key: Option<&str>| {
        let mut record = Record::new(tp, key.map(|key| key.to_owned().into()), Some("other".into()), 1);
        record.headers[1].1 = version.into();
        record
    };
    let (waiting, consumers) = (at(topic::FRONTIER, 1), at(topic::CONTROL, 2));
    let earlier = "let the earlier release that wrote it complete its crawls, or use another prefix";
    for (record, said, advice) in [
        (of_version("1", waiting, None), "crawl.frontier/1@0: schema `waiting` has version \"1\"", earlier),
        (
            of_version("3", waiting, None),
            "crawl.frontier/1@0: schema `waiting` has version \"3\"",
            "upgrade this program",
        ),
        (
            of_version("2", consumers, Some("consumers")),
            "crawl.control/2@0: schema `consumer-groups` has version",
            "upgrade this program",
        ),
    ] {
        let log = MemoryLog::new(&specs());
        log.append(vec![record]).await.unwrap();
        let (mut stage, seen) = Scripted::new(FRONTIER, |_, _, _| {});
        stage.restores = vec![from(topic::FRONTIER, RestoreFrom::Start)];
        stage.tails = CONTROL;
        let error = play(stage, &log, config()).ended().await.unwrap_err().to_string();
        assert!(error.contains(said) && error.ends_with(advice), "{error}");
        assert!(seen.lock().unwrap().restored.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_stage_with_a_start_of_its_own_reads_from_there_and_the_commit_follows() {
    let tp = at(topic::SEEDS, 2);
    for (from, expected) in [(StartFrom::Offset(4), 4), (StartFrom::Offset(8), 8), (StartFrom::LogStart, 2)] {
        let log = MemoryLog::new(&specs());
        for partition in 0..PARTITIONS {
            fill(&log, at(topic::SEEDS, partition), "seed", 10).await;
            log.delete_below(at(topic::SEEDS, partition), 2).await.unwrap();
        }
        let (mut stage, seen) = Scripted::new(SEEDS, |_, _, _| {});
        stage.start_from = from;
        let running = play(stage, &log, config());
        until_committed(&log, tp, expected).await;
        let count = usize::try_from(10 - expected).unwrap() * PARTITIONS as usize;
        until_seen(&seen, "the records", |seen| seen.received.len() == count).await;
        assert!(seen.lock().unwrap().received.iter().all(|(origin, _)| origin.offset >= expected));
        running.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_and_a_deletion_while_a_process_is_suspended_in_an_opening_do_not_halt_it() {
    let log = MemoryLog::new(&specs());
    let tp = at(topic::SEEDS, 2);
    fill(&log, tp, "seed", 10).await;
    let (before, _) = started(SEEDS, &log, |origin, _, actions| actions.completes.push(*origin));
    until_committed(&log, tp, 10).await;
    before.end().await.unwrap();
    log.delete_below(tp, 10).await.unwrap();
    // Of each partition: answered before that commit, and suspended before the log start is read.
    let watched = Watched { old_answers: AtomicUsize::new(PARTITIONS as usize), ..Watched::new(&log) };
    let (stage, seen) = Scripted::new(SEEDS, |origin, _, actions| actions.completes.push(*origin));
    let running = Play::of(runner(stage, Arc::new(watched), config()));
    until_seen(&seen, "the openings", |seen| seen.opened.len() == 4).await;
    fill(&log, tp, "more", 1).await;
    until_committed(&log, tp, 11).await;
    assert_eq!(seen.lock().unwrap().received.len(), 1);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_record_that_kills_its_reader_ends_in_the_dead_letters_and_the_others_are_processed() {
    let log = MemoryLog::new(&specs());
    let tp = at(topic::SEEDS, 0);
    fill(&log, tp, "seed", 20).await;
    // A stage that panics at record 7 before anything of its batch has completed.
    let start = || {
        let (mut stage, seen) = Scripted::new(SEEDS, |origin, _, actions| actions.completes.push(*origin));
        stage.poison = vec!["seed7".to_owned()];
        (play(stage, &log, config()), seen)
    };
    for starts in 1..=3 {
        let (running, seen) = start();
        assert_eq!(running.ended().await.unwrap_err().to_string(), "scripted panicked: poisoned by seed7");
        assert!(seen.lock().unwrap().received.len() > 7);
        assert!(metadata(&log, tp).await.contains(&format!("\"starts\":{starts}")));
        assert_eq!(committed(&log, tp).await, Some(0));
    }
    // One at a time now: the records before the poison record complete, and it is in flight alone.
    let (running, seen) = start();
    assert_eq!(running.ended().await.unwrap_err().to_string(), "scripted panicked: poisoned by seed7");
    assert_eq!(seen.lock().unwrap().received.len(), 8);
    assert!(metadata(&log, tp).await.contains("\"trying\":7"), "{}", metadata(&log, tp).await);
    assert_eq!(committed(&log, tp).await, Some(7));

    for crashes in 1..=2 {
        let (running, seen) = start();
        assert_eq!(running.ended().await.unwrap_err().to_string(), "scripted panicked: poisoned by seed7");
        assert_eq!(seen.lock().unwrap().received.len(), 1);
        assert!(metadata(&log, tp).await.contains(&format!("\"crashes\":{crashes},\"crashed\":true")));
    }
    let (running, seen) = start();
    until_committed(&log, tp, 20).await;
    assert!(seen.lock().unwrap().received.iter().all(|(origin, _)| origin.offset > 7), "it is not given out again");
    let letters = log.records(at(topic::DEAD_LETTERS, 0));
    assert_eq!(letters.iter().map(text).collect::<Vec<_>>(), ["seed7"]);
    let letter: DeadLetter = serde_json::from_slice(letters[0].header(DEAD_LETTER_HEADER).unwrap()).unwrap();
    assert_eq!(
        (letter.offset, letter.reason.as_str()),
        (7, "the process ended while only this record was in flight: 3 crashes, 0 unexplained ends")
    );
    running.end().await.unwrap();
    assert_eq!(metadata(&log, tp).await, "", "an orderly end leaves no count");
}

#[tokio::test(start_paused = true)]
async fn a_record_alone_is_not_handed_out_before_its_trial_is_committed() {
    let log = MemoryLog::new(&specs());
    let tp = at(topic::SEEDS, 0);
    fill(&log, tp, "seed", 3).await;
    for _ in 0..3 {
        let (running, seen) = started(SEEDS, &log, |_, _, _| {});
        until_seen(&seen, "the records", |seen| seen.received.len() == 3).await;
        running.kill().await;
    }
    // The first commit of an opening counts the start, one for each of the four partitions; the next ones are refused.
    (0..4).for_each(|_| log.script_commit(ScriptedResult::Pass));
    refuse_commits(&log, 10);
    let (running, seen) = started(SEEDS, &log, |origin, _, actions| actions.completes.push(*origin));
    until_committed(&log, tp, 3).await;
    assert_eq!(seen.lock().unwrap().received.len(), 3);
    running.end().await.unwrap();
}
