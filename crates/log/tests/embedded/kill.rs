//! A process that appends is killed repeatedly, at arbitrary moments: all that was acknowledged to it survives.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use orbweaver_log::{Commit, EmbeddedLog, Log, Options, TopicPartition};
use orbweaver_messages::Millis;
use tempfile::tempdir;

use crate::fixture::{COMPACT, DELETE, KEEP, PARTITIONS, open, read_all, record, specs, still, tp};

const DIR: &str = "ORBWEAVER_LOG_TEST_DIR";
const ROUND: &str = "ORBWEAVER_LOG_TEST_ROUND";
const KILLS: u64 = 20;
const GROUP: &str = "killed";
const KEYS: u64 = 50;

/// Acknowledgements that the process received, over all its runs.
#[derive(Default)]
struct Reports {
    records: HashMap<(TopicPartition, u64), u64>,
    commits: HashMap<u32, u64>,
    /// Requested deletions, which may not have taken effect.
    deleted: HashMap<u32, u64>,
}

#[test]
#[ignore = "the process that `every_acknowledged_record_outlives_its_process` starts and kills"]
fn appends_until_it_is_killed() {
    let (Ok(dir), Ok(round)) = (std::env::var(DIR), std::env::var(ROUND)) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(append_for_ever(Path::new(&dir), round.parse().unwrap()));
}

async fn append_for_ever(dir: &Path, round: u64) {
    let options = Options { sync_every: Duration::from_millis(2), ..still() };
    let log = Arc::new(EmbeddedLog::open(dir, options, &specs()).unwrap());
    let compacted = log.clone();
    std::thread::spawn(move || {
        loop {
            compacted.maintain(Millis::MAX / 2).unwrap();
            std::thread::park_timeout(Duration::from_millis(3));
        }
    });
    let mut consumer = log.consumer(GROUP, &[DELETE]).unwrap();
    let mut number = round * 1_000_000;
    loop {
        let mut batch = vec![];
        for _ in 0..number % 23 + 1 {
            number += 1;
            let topic = [KEEP, DELETE, COMPACT][(number % 3) as usize];
            batch.push(record(tp(topic, (number / 3) as u32 % PARTITIONS), number));
        }
        let offsets = log.append(batch.clone()).await.unwrap();
        let mut lines = String::new();
        for (record, offset) in batch.iter().zip(offsets) {
            let number = record.timestamp_ms;
            lines += &format!("ack {} {} {offset} {number}\n", record.tp.topic, record.tp.partition);
        }
        let partition = (number % 2) as u32;
        let at = tp(DELETE, partition);
        let end = log.bounds(at).await.unwrap().end;
        consumer.commit(vec![(at, Commit { offset: end, metadata: number.to_string() })]).await.unwrap();
        lines += &format!("commit {partition} {end}\n");
        if number.is_multiple_of(5) {
            let before = end.saturating_sub(30);
            lines += &format!("delete {partition} {before}\n");
            log.delete_below(at, before).await.unwrap();
        }
        // `println!` would be captured by the test harness.
        std::io::stdout().write_all(lines.as_bytes()).unwrap();
    }
}

/// Runs the process until it has reported `lines` lines, kills it, and records its remaining output too.
fn run_and_kill(dir: &Path, round: u64, lines: u64, reported: &mut Reports) {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "kill::appends_until_it_is_killed"])
        .env(DIR, dir)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let (mut line, mut count) = (String::new(), 0);
    loop {
        if count == lines {
            process.kill().unwrap();
        }
        line.clear();
        // The last line may be truncated.
        if output.read_line(&mut line).unwrap() == 0 || !line.ends_with('\n') {
            break;
        }
        let words: Vec<_> = line.split_whitespace().collect();
        let parse = |at: usize| words[at].parse::<u64>().unwrap();
        match words.first() {
            Some(&"ack") => {
                let topic = [KEEP, DELETE, COMPACT].into_iter().find(|topic| topic.0 == words[1]).unwrap();
                let earlier = reported.records.insert((tp(topic, parse(2) as u32), parse(3)), parse(4));
                assert_eq!(earlier, None, "an offset was given twice: {line}");
            }
            Some(&"commit") => _ = reported.commits.insert(parse(1) as u32, parse(2)),
            Some(&"delete") => _ = reported.deleted.insert(parse(1) as u32, parse(2)),
            _ => continue,
        }
        count += 1;
    }
    let status = process.wait().unwrap();
    assert!(count >= lines && status.code().is_none(), "it ended by itself after {count} lines: {status}");
}

async fn verify(dir: &Path, reported: &Reports) {
    let log = open(dir);
    for topic in [KEEP, DELETE, COMPACT] {
        for partition in 0..PARTITIONS {
            let at = tp(topic, partition);
            let found = read_all(&log, at).await;
            assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0));
            let there: HashMap<_, _> = found.iter().copied().collect();
            let mut last = HashMap::new();
            for (offset, number) in &found {
                last.insert(number % KEYS, *offset);
            }
            let bounds = log.bounds(at).await.unwrap();
            for ((_, offset), number) in reported.records.iter().filter(|((tp, _), _)| *tp == at) {
                assert!(*offset < bounds.end, "{at}: {offset} was acknowledged, the end is {}", bounds.end);
                match there.get(offset) {
                    Some(found) => assert_eq!(found, number, "{at}: another record at {offset}"),
                    None if topic == DELETE => {
                        assert!(*offset < reported.deleted[&partition], "{at}: {offset} is lost");
                    }
                    None if topic == COMPACT => assert!(last[&(number % KEYS)] > *offset, "{at}: {offset} is lost"),
                    None => panic!("{at}: {offset} is lost"),
                }
            }
        }
    }
    let tps: Vec<_> = (0..PARTITIONS).map(|partition| tp(DELETE, partition)).collect();
    for (partition, commit) in (0..).zip(log.committed(GROUP, &tps).await.unwrap()) {
        let reported = reported.commits.get(&partition).copied().unwrap_or(0);
        let found = commit.map_or(0, |commit| commit.offset);
        assert!(found >= reported, "partition {partition}: {reported} was committed, found {found}");
    }
}

#[tokio::test]
async fn every_acknowledged_record_outlives_its_process() {
    let dir = tempdir().unwrap();
    let mut reported = Reports::default();
    // Linear congruential generator (Knuth, MMIX): the moments differ, but are the same in every run.
    let mut random = 20_261_121_u64;
    for round in 0..KILLS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Sometimes while the log is being opened.
        let lines = if round % 7 == 6 { 0 } else { (random >> 33) % 4_000 };
        run_and_kill(dir.path(), round, lines, &mut reported);
        verify(dir.path(), &reported).await;
    }
    assert!(reported.records.len() > 1_000, "it was killed before it did anything: {} records", reported.records.len());
}
