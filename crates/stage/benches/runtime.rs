//! Cost of the runtime, with stages that do nothing.
//!
//! `overhead`: a log that does nothing delivers the same batch repeatedly and accepts every append at once. `bare` polls
//! that log without any runtime; the additional time of the others is the runtime's. `three_stages`: a chain of three
//! stages on the embedded log: records per second, latency of one record when idle, and CPU time per record in each
//! stage (the runtime's loop with its reads and appends), printed at the end of each benchmark.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures::future::{BoxFuture, pending, ready};
use orbweaver_log::{
    Bounds, Cleanup, Commit, Consumer, ConsumerRecord, EmbeddedLog, Event, Log, LogError, Offset, Options, Partition,
    Reader, Record, TopicPartition, TopicSpec,
};
use orbweaver_messages::{Millis, Topic, topic};
use orbweaver_stage::{
    Actions, NoEffects, NoJobs, Origin, Plan, Runner, RunnerConfig, Stage, StageError, Step, metrics::Metrics,
};
use prometheus::Registry;
use tokio::{runtime::Runtime, task::JoinHandle};
use tokio_util::sync::CancellationToken;

const KEY: &[u8] = b"example.org";
const VALUE: &[u8] = &[b'x'; 300];

const RECORDS: u64 = 200_000;
const TP: TopicPartition = TopicPartition { topic: topic::SEEDS, partition: 0 };

/// Delivers `RECORDS` records in batches of `batch`.
#[derive(Clone)]
struct NullLog {
    batch: u64,
    committed: Arc<AtomicU64>,
}

struct NullConsumer {
    log: NullLog,
    next: Offset,
    assigned: bool,
    started: bool,
}

impl Consumer for NullConsumer {
    fn poll(&mut self, _: Duration) -> BoxFuture<'_, Result<Option<Event>, LogError>> {
        if !self.assigned {
            self.assigned = true;
            return Box::pin(ready(Ok(Some(Event::Assigned(vec![TP])))));
        }
        if !self.started || self.next >= RECORDS {
            return Box::pin(pending());
        }
        let record = |offset| ConsumerRecord {
            tp: TP,
            offset,
            timestamp_ms: 1,
            key: Some(Bytes::from_static(KEY)),
            value: Some(Bytes::from_static(VALUE)),
            headers: vec![],
        };
        let end = (self.next + self.log.batch).min(RECORDS);
        let records = (self.next..end).map(record).collect();
        self.next = end;
        Box::pin(ready(Ok(Some(Event::Records(records)))))
    }

    fn start(&mut self, _: TopicPartition, _: Offset) -> Result<(), LogError> {
        self.started = true;
        Ok(())
    }

    fn pause(&mut self, _: &[TopicPartition]) -> Result<(), LogError> {
        self.started = false;
        Ok(())
    }

    fn resume(&mut self, _: &[TopicPartition]) -> Result<(), LogError> {
        self.started = true;
        Ok(())
    }

    fn commit(&mut self, commits: Vec<(TopicPartition, Commit)>) -> BoxFuture<'static, Result<(), LogError>> {
        self.log.committed.store(commits.iter().map(|(_, commit)| commit.offset).max().unwrap_or(0), Ordering::Release);
        Box::pin(ready(Ok(())))
    }

    fn release(&mut self, _: &[TopicPartition]) -> Result<(), LogError> {
        Ok(())
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), LogError>> {
        Box::pin(ready(Ok(())))
    }
}

impl Log for NullLog {
    fn partitions(&self, _: Topic) -> Result<Partition, LogError> {
        Ok(1)
    }

    fn record_limit(&self) -> usize {
        usize::MAX
    }

    fn append(&self, records: Vec<Record>) -> BoxFuture<'_, Result<Vec<Offset>, LogError>> {
        Box::pin(ready(Ok((0..records.len() as u64).collect())))
    }

    fn consumer(&self, _: &str, _: &[Topic]) -> Result<Box<dyn Consumer>, LogError> {
        Ok(Box::new(NullConsumer { log: self.clone(), next: 0, assigned: false, started: false }))
    }

    fn reader(&self, _: TopicPartition, _: Offset) -> BoxFuture<'_, Result<Box<dyn Reader>, LogError>> {
        Box::pin(pending())
    }

    fn bounds(&self, _: TopicPartition) -> BoxFuture<'_, Result<Bounds, LogError>> {
        Box::pin(ready(Ok(Bounds { start: 0, end: RECORDS })))
    }

    fn offset_at(&self, _: TopicPartition, _: Millis) -> BoxFuture<'_, Result<Offset, LogError>> {
        Box::pin(ready(Ok(0)))
    }

    fn committed<'a>(
        &'a self,
        _: &'a str,
        tps: &'a [TopicPartition],
    ) -> BoxFuture<'a, Result<Vec<Option<Commit>>, LogError>> {
        Box::pin(ready(Ok(tps.iter().map(|_| None).collect())))
    }

    fn delete_below(&self, _: TopicPartition, _: Offset) -> BoxFuture<'_, Result<(), LogError>> {
        Box::pin(ready(Ok(())))
    }
}

#[derive(Clone, Copy)]
enum Does {
    CompleteAtOnce,
    PlanABatch,
    PlanARecord,
}

/// A stage that completes or forwards each record.
struct Pass {
    name: &'static str,
    topics: &'static [Topic],
    to: Topic,
    does: Does,
}

impl Stage for Pass {
    type Job = Infallible;
    type Done = Infallible;
    type Effect = Infallible;

    fn service(&self) -> &'static str {
        self.name
    }

    fn topics(&self) -> &'static [Topic] {
        self.topics
    }

    fn receive(
        &mut self,
        batch: Vec<(Origin, ConsumerRecord)>,
        now: Millis,
        actions: &mut Actions<Infallible, Infallible>,
    ) -> Result<(), StageError> {
        let pass = |record: ConsumerRecord| {
            let tp = TopicPartition::new(self.to, record.tp.partition);
            Record { tp, key: record.key, value: record.value, headers: vec![], timestamp_ms: now }
        };
        match self.does {
            Does::CompleteAtOnce => actions.completes.extend(batch.iter().map(|(origin, _)| *origin)),
            Does::PlanABatch => {
                let (origins, records): (Vec<_>, Vec<_>) =
                    batch.into_iter().map(|(origin, record)| (origin, pass(record))).unzip();
                actions.produce(records, origins);
            }
            Does::PlanARecord => actions.plans.extend(batch.into_iter().map(|(origin, record)| Plan {
                steps: vec![Step::Produce(vec![pass(record)])],
                completes: vec![origin],
                token: Some(1),
            })),
        }
        Ok(())
    }

    fn due(&self, _: Millis) -> usize {
        0
    }
}

fn log(batch: u64) -> NullLog {
    NullLog { batch, committed: Arc::default() }
}

async fn run(does: Does, batch: u64) -> Duration {
    let log = log(batch);
    let (shutdown, committed) = (CancellationToken::new(), log.committed.clone());
    let config = RunnerConfig { commit_interval: Duration::from_millis(5), ..RunnerConfig::default() };
    let stage = Pass { name: "trivial", topics: &[TP.topic], to: TP.topic, does };
    let runner = Runner::new(stage, Arc::new(log), NoJobs, NoEffects, config);
    let begun = Instant::now();
    let task = tokio::spawn(runner.run(shutdown.clone()));
    while committed.load(Ordering::Acquire) < RECORDS {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let took = begun.elapsed();
    shutdown.cancel();
    task.await.unwrap().unwrap();
    took
}

async fn bare(batch: u64) -> Duration {
    let mut consumer = log(batch).consumer("bare", &[topic::SEEDS]).unwrap();
    consumer.poll(Duration::ZERO).await.unwrap();
    consumer.start(TP, 0).unwrap();
    let begun = Instant::now();
    let mut seen = 0;
    while seen < RECORDS as usize {
        if let Ok(Some(Event::Records(records))) = consumer.poll(Duration::ZERO).await {
            seen += std::hint::black_box(records).len();
        }
    }
    begun.elapsed()
}

fn overhead(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut group = criterion.benchmark_group("overhead");
    group.sample_size(10).throughput(Throughput::Elements(RECORDS));
    for batch in [10, 1000] {
        group.bench_function(BenchmarkId::new("bare", batch), |bencher| {
            bencher.iter_custom(|times| (0..times).map(|_| runtime.block_on(bare(batch))).sum());
        });
        let all = [
            ("complete", Does::CompleteAtOnce),
            ("plan_a_batch", Does::PlanABatch),
            ("plan_a_record", Does::PlanARecord),
        ];
        for (name, does) in all {
            group.bench_function(BenchmarkId::new(name, batch), |bencher| {
                bencher.iter_custom(|times| (0..times).map(|_| runtime.block_on(run(does, batch))).sum());
            });
        }
    }
    group.finish();
}

const PARTITIONS: Partition = 4;
const CHAIN: [Topic; 4] = [topic::SEEDS, topic::DISCOVERED, topic::FRONTIER, topic::OUTCOMES];
const NAMES: [&str; 3] = ["first", "second", "third"];

struct Chain {
    log: Arc<EmbeddedLog>,
    metrics: Metrics,
    shutdown: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    _dir: tempfile::TempDir,
}

impl Chain {
    fn start(runtime: &Runtime) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let topics = CHAIN.iter().chain([&topic::DEAD_LETTERS]);
        let specs: Vec<_> = topics.map(|&topic| TopicSpec::new(topic, PARTITIONS, Cleanup::Delete)).collect();
        let log = Arc::new(EmbeddedLog::open(dir.path(), Options::default(), &specs).unwrap());
        let (metrics, shutdown) = (Metrics::register(&Registry::new()).unwrap(), CancellationToken::new());
        let stages: [&'static [Topic]; 3] = [&[CHAIN[0]], &[CHAIN[1]], &[CHAIN[2]]];
        let tasks = stages.into_iter().enumerate().map(|(number, topics)| {
            let (name, to) = (NAMES[number], CHAIN[number + 1]);
            let stage = Pass { name, topics, to, does: Does::PlanABatch };
            let runner = Runner::new(stage, log.clone(), NoJobs, NoEffects, RunnerConfig::default());
            let running = runner.with_metrics(&metrics).run(shutdown.clone());
            runtime.spawn(async move { running.await.unwrap() })
        });
        let tasks = tasks.collect();
        Self { log, metrics, shutdown, tasks, _dir: dir }
    }

    fn records(count: usize) -> Vec<Record> {
        let record = |number: usize| Record {
            tp: TopicPartition::new(CHAIN[0], (number % PARTITIONS as usize) as Partition),
            key: Some(Bytes::from_static(KEY)),
            value: Some(Bytes::from_static(VALUE)),
            headers: vec![],
            timestamp_ms: 1,
        };
        (0..count).map(record).collect()
    }

    async fn readers(&self) -> Vec<Box<dyn Reader>> {
        let mut readers = vec![];
        for partition in 0..PARTITIONS {
            let tp = TopicPartition::new(CHAIN[3], partition);
            let end = self.log.bounds(tp).await.unwrap().end;
            readers.push(self.log.reader(tp, end).await.unwrap());
        }
        readers
    }

    /// Appends `count` records in batches and waits until all arrive at the other end.
    async fn pass(&self, count: usize, batch: usize) -> Duration {
        let mut readers = self.readers().await;
        let begun = Instant::now();
        let mut left = count;
        while left > 0 {
            let records = Self::records(left.min(batch));
            left -= records.len();
            self.log.append(records).await.unwrap();
        }
        let mut out = 0;
        while out < count {
            for reader in &mut readers {
                out += reader.read(Duration::from_millis(1)).await.unwrap().len();
            }
        }
        begun.elapsed()
    }

    /// Returns the time from the append of one record to its arrival at the other end.
    async fn one(&self) -> Duration {
        let tp = TopicPartition::new(CHAIN[3], 0);
        let end = self.log.bounds(tp).await.unwrap().end;
        let mut reader = self.log.reader(tp, end).await.unwrap();
        let begun = Instant::now();
        self.log.append(Self::records(1)).await.unwrap();
        while reader.read(Duration::from_secs(1)).await.unwrap().is_empty() {}
        begun.elapsed()
    }

    fn end(self, runtime: &Runtime, records: u64) {
        for name in NAMES {
            let seconds = self.metrics.cpu(name).seconds();
            eprintln!("  {name}: {:.3} µs CPU a record", seconds * 1e6 / records as f64);
        }
        self.shutdown.cancel();
        runtime.block_on(async {
            for task in self.tasks {
                task.await.unwrap();
            }
        });
    }
}

fn three_stages(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut group = criterion.benchmark_group("three_stages");
    group.sample_size(10).measurement_time(Duration::from_secs(4)).warm_up_time(Duration::from_secs(1));
    for (batch, count) in [(1000, 100_000), (10, 20_000)] {
        group.throughput(Throughput::Elements(count as u64));
        let (chain, mut records) = (Chain::start(&runtime), 0);
        group.bench_function(format!("batches_of_{batch}"), |bencher| {
            bencher.iter_custom(|iterations| {
                records += iterations * count as u64;
                (0..iterations).map(|_| runtime.block_on(chain.pass(count, batch))).sum()
            });
        });
        chain.end(&runtime, records);
    }
    group.throughput(Throughput::Elements(1));
    let (chain, mut records) = (Chain::start(&runtime), 0);
    group.bench_function("one_record_when_idle", |bencher| {
        bencher.iter_custom(|iterations| {
            records += iterations;
            (0..iterations).map(|_| runtime.block_on(chain.one())).sum()
        });
    });
    chain.end(&runtime, records);
    group.finish();
}

criterion_group!(benches, overhead, three_stages);
criterion_main!(benches);
