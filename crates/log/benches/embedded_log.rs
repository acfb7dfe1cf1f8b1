//! The embedded log compared with fjall, on the load of a crawl: `cargo bench -p orbweaver-log`.
//!
//! Each measurement is a process of its own, on 16 partitions, through the `Log` trait: appends (of which the first
//! call is the clock's start and the last acknowledgement its end), then a scan of everything by a consumer. fjall
//! stores the same records under (partition, offset), hands every batch to the system (`PersistMode::Buffer`) and syncs
//! every second, as the log does; bodies go to its blob files. Figures and conclusions:
//! `docs/adr/0002-embedded-log.md`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark ends with the first failure")]

use std::{
    fs,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use fjall::{Database, KeyspaceCreateOptions, KvSeparationOptions, PersistMode};
use orbweaver_log::{Cleanup, Consumer, EmbeddedLog, Event, Log, Options, Record, TopicPartition, TopicSpec};
use orbweaver_messages::Topic;

const PARTITIONS: u32 = 16;
const TOPIC: Topic = Topic("bench");

/// Name, bytes of a record, records in a batch, batches.
const LOADS: [(&str, usize, usize, usize); 4] = [
    ("300 B x 1000", 300, 1_000, 2_000),
    ("300 B x 50", 300, 50, 20_000),
    ("12 KB x 50", 12 << 10, 50, 2_000),
    ("12 KB x 1", 12 << 10, 1, 50_000),
];

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [engine, load] = &arguments[..]
        && engine != "--bench"
    {
        measure(engine, load);
    } else if arguments.iter().any(|argument| argument == "--bench") {
        println!("engine load         appends/s  us CPU  p50 us  p99 us   max us scanned/s  us CPU  written  RSS MB");
        for (load, ..) in LOADS {
            for engine in ["log", "fjall"] {
                run(engine, load);
            }
        }
        run("wake", "300 B x 1");
    }
}

/// Runs one measurement in a process of its own, so that its memory and its disk are its own too.
fn run(engine: &str, load: &str) {
    let status = Command::new(std::env::current_exe().unwrap()).args([engine, load]).status().unwrap();
    assert!(status.success());
}

fn measure(engine: &str, load: &str) {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if engine == "wake" {
        return runtime.block_on(wake(dir.path()));
    }
    let (name, bytes, records, batches) = LOADS.into_iter().find(|(name, ..)| *name == load).unwrap();
    let batch = batch(bytes, records);
    let figures = if engine == "fjall" {
        fjall(dir.path(), &batch, batches)
    } else {
        runtime.block_on(log(dir.path(), &batch, batches))
    };
    figures.print(engine, name, (records * batches) as f64, bytes);
}

/// Records of text that compresses a little (300 B) or not at all (bodies, which are compressed already).
fn batch(bytes: usize, records: usize) -> Vec<Record> {
    let mut random = 7_u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as u8
    };
    (0..records)
        .map(|number| {
            let value: Vec<u8> = (0..bytes).map(|_| if bytes > 1_000 { next() } else { b'a' + next() % 26 }).collect();
            Record {
                tp: TopicPartition::new(TOPIC, number as u32 % PARTITIONS),
                key: Some(Bytes::from(format!("site-{number}.example"))),
                value: Some(value.into()),
                headers: vec![],
                timestamp_ms: 1_700_000_000_000,
            }
        })
        .collect()
}

/// The partitions of a small batch go round, so that all are written.
fn turned(batch: &[Record], turn: usize) -> Vec<Record> {
    let mut batch = batch.to_vec();
    for record in &mut batch {
        record.tp.partition = (record.tp.partition + turn as u32) % PARTITIONS;
    }
    batch
}

/// Opens a log in `dir`.
fn open(dir: &Path) -> EmbeddedLog {
    EmbeddedLog::open(dir, Options::default(), &[TopicSpec::new(TOPIC, PARTITIONS, Cleanup::Delete)]).unwrap()
}

/// Returns a consumer of all partitions, from their start on.
async fn consumer(log: &EmbeddedLog) -> Box<dyn Consumer> {
    let mut consumer = log.consumer("bench", &[TOPIC]).unwrap();
    let Some(Event::Assigned(tps)) = consumer.poll(Duration::ZERO).await.unwrap() else { unreachable!() };
    for tp in tps {
        consumer.start(tp, 0).unwrap();
    }
    consumer
}

async fn log(dir: &Path, batch: &[Record], batches: usize) -> Figures {
    let log = open(dir);
    let mut figures = Figures::default();
    let mut clock = Clock::start();
    for turn in 0..batches {
        let records = turned(batch, turn);
        let begin = Instant::now();
        log.append(records).await.unwrap();
        figures.calls.push(begin.elapsed());
    }
    figures.appended = clock.lap();
    let mut consumer = consumer(&log).await;
    clock.lap();
    let mut left = batch.len() * batches;
    while left > 0 {
        let Some(Event::Records(records)) = consumer.poll(Duration::from_secs(10)).await.unwrap() else { continue };
        left -= records.len();
    }
    figures.scanned = clock.lap();
    drop(consumer);
    log.close().unwrap();
    figures.written = written();
    figures
}

fn fjall(dir: &Path, batch: &[Record], batches: usize) -> Figures {
    let db = Database::builder(dir).manual_journal_persist(true).open().unwrap();
    let options = || KeyspaceCreateOptions::default().with_kv_separation(Some(KvSeparationOptions::default()));
    let keyspace = db.keyspace("records", options).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let syncer = std::thread::spawn({
        let (db, stop) = (db.clone(), Arc::clone(&stop));
        move || {
            while !stop.load(Ordering::Acquire) {
                std::thread::park_timeout(Duration::from_secs(1));
                db.persist(PersistMode::SyncData).unwrap();
            }
        }
    });
    let mut offsets = [0_u64; PARTITIONS as usize];
    let mut figures = Figures::default();
    let mut clock = Clock::start();
    for turn in 0..batches {
        let records = turned(batch, turn);
        let begin = Instant::now();
        let mut write = db.batch().durability(Some(PersistMode::Buffer));
        for record in &records {
            let partition = record.tp.partition;
            let offset = &mut offsets[partition as usize];
            let mut key = [0; 12];
            key[..4].copy_from_slice(&partition.to_be_bytes());
            key[4..].copy_from_slice(&offset.to_be_bytes());
            *offset += 1;
            let (name, body) = (record.key.as_ref().unwrap(), record.value.as_ref().unwrap());
            let mut value = Vec::with_capacity(12 + name.len() + body.len());
            value.extend_from_slice(&record.timestamp_ms.to_le_bytes());
            value.extend_from_slice(&(name.len() as u32).to_le_bytes());
            value.extend_from_slice(name);
            value.extend_from_slice(body);
            write.insert(&keyspace, key, value);
        }
        write.commit().unwrap();
        figures.calls.push(begin.elapsed());
    }
    figures.appended = clock.lap();
    let mut left = batch.len() * batches;
    for partition in 0..PARTITIONS {
        for entry in keyspace.prefix(partition.to_be_bytes()) {
            let (_, value) = entry.into_inner().unwrap();
            std::hint::black_box(value.len());
            left -= 1;
        }
    }
    assert_eq!(left, 0);
    figures.scanned = clock.lap();
    stop.store(true, Ordering::Release);
    syncer.thread().unpark();
    syncer.join().unwrap();
    figures.written = written();
    figures
}

/// From an append to the task that waits for it, idle before.
async fn wake(dir: &Path) {
    let log = open(dir);
    let mut consumer = consumer(&log).await;
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Event::Records(_)) = consumer.poll(Duration::from_secs(10)).await.unwrap() {
            sender.send(Instant::now()).unwrap();
        }
    });
    let batch = batch(300, 1);
    let mut calls = vec![];
    for turn in 0..2_000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let begin = Instant::now();
        log.append(turned(&batch, turn)).await.unwrap();
        calls.push(receiver.recv().await.unwrap() - begin);
    }
    calls.sort_unstable();
    let at = |share: usize| calls[calls.len() * share / 1_000].as_micros();
    println!("append to waiting consumer: p50 {} us, p99 {} us, p99.9 {} us", at(500), at(990), at(999));
}

#[derive(Default)]
struct Figures {
    calls: Vec<Duration>,
    appended: (Duration, Duration),
    scanned: (Duration, Duration),
    written: f64,
}

impl Figures {
    fn print(mut self, engine: &str, load: &str, records: f64, bytes: usize) {
        self.calls.sort_unstable();
        let at = |share: usize| self.calls[(self.calls.len() - 1) * share / 1_000].as_micros();
        let rate = |(wall, _): (Duration, Duration)| records / wall.as_secs_f64();
        let cpu = |(_, cpu): (Duration, Duration)| cpu.as_secs_f64() * 1e6 / records;
        println!(
            "{engine:6} {load:12} {:>9.0} {:>7.2} {:>7} {:>7} {:>8} {:>9.0} {:>7.2} {:>7.2}x {:>7.0}",
            rate(self.appended),
            cpu(self.appended),
            at(500),
            at(990),
            at(1_000),
            rate(self.scanned),
            cpu(self.scanned),
            self.written / (records * bytes as f64),
            field("/proc/self/status", "VmHWM:") / 1e3,
        );
    }
}

/// Wall time and processor time of the process, lap by lap.
struct Clock(Instant, Duration);

impl Clock {
    fn start() -> Self {
        Self(Instant::now(), processor_time())
    }

    fn lap(&mut self) -> (Duration, Duration) {
        let now = Self::start();
        let lap = (now.0 - self.0, now.1 - self.1);
        *self = now;
        lap
    }
}

/// User and system time, in ticks of 10 ms (`proc(5)`, `stat`).
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

/// The bytes that the process made the system write, less those of files that were removed before.
fn written() -> f64 {
    field("/proc/self/io", "write_bytes:") - field("/proc/self/io", "cancelled_write_bytes:")
}

fn field(path: &str, name: &str) -> f64 {
    let text = fs::read_to_string(path).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
