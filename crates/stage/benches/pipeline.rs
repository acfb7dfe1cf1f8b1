//! A chain of three trivial stages on the embedded log: records per second, latency of one record when idle, and CPU
//! time per record in each stage (the runtime's loop with its reads and appends), printed at the end of each benchmark.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use orbweaver_log::{
    Cleanup, ConsumerRecord, EmbeddedLog, Log, Options, Partition, Reader, Record, SyncPolicy, TopicPartition,
    TopicSpec,
};
use orbweaver_messages::{Millis, Topic, topic};
use orbweaver_stage::{Actions, NoEffects, NoJobs, Origin, Runner, RunnerConfig, Stage, StageError, metrics::Metrics};
use prometheus::Registry;
use tokio::{runtime::Runtime, task::JoinHandle};
use tokio_util::sync::CancellationToken;

const PARTITIONS: Partition = 4;
const CHAIN: [Topic; 4] = [topic::SEEDS, topic::DISCOVERED, topic::FRONTIER, topic::OUTCOMES];
const NAMES: [&str; 3] = ["first", "second", "third"];
const VALUE: &[u8] = &[b'x'; 300];

/// A stage that forwards each record.
struct Pass {
    number: usize,
    topics: &'static [Topic],
}

impl Stage for Pass {
    type Job = Infallible;
    type Done = Infallible;
    type Effect = Infallible;

    fn service(&self) -> &'static str {
        NAMES[self.number]
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
        let to = CHAIN[self.number + 1];
        let (mut records, mut origins) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        for (origin, record) in batch {
            let tp = TopicPartition::new(to, origin.tp.partition);
            records.push(Record { tp, key: record.key, value: record.value, headers: vec![], timestamp_ms: now });
            origins.push(origin);
        }
        actions.produce(records, origins);
        Ok(())
    }

    fn due(&self, _: Millis) -> usize {
        0
    }
}

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
        let options = Options { sync: SyncPolicy::Every(Duration::from_secs(1)), ..Options::default() };
        let log = Arc::new(EmbeddedLog::open(dir.path(), options, &specs).unwrap());
        let (metrics, shutdown) = (Metrics::register(&Registry::new()).unwrap(), CancellationToken::new());
        let stages: [&'static [Topic]; 3] = [&[CHAIN[0]], &[CHAIN[1]], &[CHAIN[2]]];
        let tasks = stages.into_iter().enumerate().map(|(number, topics)| {
            let stage = Pass { number, topics };
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
            key: Some(Bytes::from_static(b"example.org")),
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

fn pipeline(criterion: &mut Criterion) {
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

criterion_group!(benches, pipeline);
criterion_main!(benches);
