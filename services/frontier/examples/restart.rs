//! Measures the time until a frontier has opened its partitions again, with and without its index.
//!
//! `cargo run --release -p orbweaver-frontier --example restart -- [RECORDS] [SITES]`: writes RECORDS queued URLs of
//! SITES sites to an embedded log of four partitions, and starts the frontier on it three times: without an index, with
//! the one from the first start, and without one again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_precision_loss,
    reason = "a measurement ends where it fails"
)]

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use orbweaver_frontier::{FrontierConfig, FrontierIndex, FrontierStage, FrontierView, metrics::FrontierMetrics};
use orbweaver_log::{Cleanup, EmbeddedLog, Log, Options, Record, TopicPartition, TopicSpec};
use orbweaver_messages::{DiscoveryKind, FrontierUrl, UrlContext, encode, topic};
use orbweaver_stage::{Clock, NoEffects, NoJobs, Runner, RunnerConfig, SystemClock, metrics::Metrics};
use orbweaver_url::{partition_of, slot_of};
use prometheus::Registry;
use tokio_util::sync::CancellationToken;

const PARTITIONS: u32 = 4;
const BATCH: u64 = 10_000;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>().expect("a number"));
    let records = arguments.next().unwrap_or(1_000_000);
    let sites = arguments.next().unwrap_or(10_000);
    let dir = tempfile::tempdir().unwrap();
    let (log, index) = (dir.path().join("log"), dir.path().join("frontier"));
    fill(&open(&log), records, sites).await;
    println!("{records} URLs of {sites} sites wait in {PARTITIONS} partitions; resident: {} MB", resident_mb());
    for (what, forget) in [("without an index", true), ("with the index", false), ("without an index", true)] {
        if forget {
            let _ = std::fs::remove_dir_all(&index);
        }
        let (seconds, cpu) = start(&log, &index, records).await;
        println!("{what:>18}: serves after {seconds:>6.2} s, {cpu:>6.2} s of CPU; resident: {} MB", resident_mb());
    }
    println!("index on disk: {} MB", bytes_of(&index) / 1_000_000);
}

fn open(path: &Path) -> Arc<EmbeddedLog> {
    let topics = [topic::CONTROL, topic::FRONTIER, topic::OUTCOMES, topic::SCHEDULED, topic::DEAD_LETTERS];
    let specs = topics.map(|topic| TopicSpec::new(topic, PARTITIONS, Cleanup::Keep));
    Arc::new(EmbeddedLog::open(path, Options { maintain_every: None, ..Options::default() }, &specs).unwrap())
}

async fn fill(log: &EmbeddedLog, records: u64, sites: u64) {
    let now = SystemClock.now();
    let record = |number: u64| {
        let site = format!("site-{}.example", number % sites);
        let url = format!("https://www.{site}/articles/2024/page-{number}.html");
        let context = UrlContext {
            via: Some(format!("https://www.{site}/articles/index-{}.html", number / 50)),
            depth: u16::try_from(number % 6).unwrap_or_default(),
            sighting: DiscoveryKind::Link,
            ..UrlContext::of_seed("measured", url, site)
        };
        let waiting = FrontierUrl::admitted(context, now);
        let tp = TopicPartition::new(topic::FRONTIER, partition_of(slot_of(&waiting.context.site), PARTITIONS));
        let key = Some(Bytes::from(waiting.context.fingerprint.to_string()));
        Record { tp, key, value: Some(encode(&waiting)), headers: vec![], timestamp_ms: now }
    };
    for from in (0..records).step_by(usize::try_from(BATCH).unwrap_or(1)) {
        log.append((from..records.min(from + BATCH)).map(record).collect()).await.unwrap();
    }
}

/// Starts a frontier, waits until it has opened all partitions, and stops it. Returns the seconds until then, and those
/// of CPU.
async fn start(log: &Path, index: &Path, records: u64) -> (f64, f64) {
    let log = open(log);
    let (began, registry) = (Instant::now(), Registry::new());
    let view = Arc::<FrontierView>::default();
    let metrics = FrontierMetrics::register(&registry).unwrap();
    // Dispatches of the previous run would have no outcome here, so that their leases would only have to expire.
    let config = FrontierConfig { min_outstanding: 0, max_outstanding: 0, ..FrontierConfig::default() };
    let index = FrontierIndex::open(index).unwrap();
    let stage = FrontierStage::new(config, metrics, view.clone()).with_index(index);
    let metrics = Metrics::register(&registry).unwrap();
    let runner = Runner::new(stage, log, NoJobs, NoEffects, RunnerConfig::default()).with_metrics(&metrics);
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(runner.run(shutdown.clone()));
    while view.waiting() != records {
        assert!(!task.is_finished(), "the frontier has ended");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = (began.elapsed().as_secs_f64(), metrics.cpu("frontier").seconds());
    shutdown.cancel();
    task.await.unwrap().unwrap();
    took
}

fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or_default() / 1000
}

fn bytes_of(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(
            |entry| {
                if entry.path().is_dir() { bytes_of(&entry.path()) } else { entry.metadata().map_or(0, |m| m.len()) }
            },
        )
        .sum()
}
