//! Cost of the runtime per record: a log that does nothing delivers the same batch repeatedly and accepts every append
//! at once. `bare` polls that log without any runtime; the additional time of the others is the runtime's.
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
    Bounds, Commit, Consumer, ConsumerRecord, Event, Log, LogError, Offset, Partition, Reader, Record, TopicPartition,
};
use orbweaver_messages::{Millis, Topic, topic};
use orbweaver_stage::{Actions, NoEffects, NoJobs, Origin, Plan, Runner, RunnerConfig, Stage, StageError, Step};
use tokio_util::sync::CancellationToken;

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
        let value = Bytes::from_static(&[b'x'; 300]);
        let record = |offset| ConsumerRecord {
            tp: TP,
            offset,
            timestamp_ms: 1,
            key: Some(Bytes::from_static(b"example.org")),
            value: Some(value.clone()),
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

struct Trivial(Does);

impl Stage for Trivial {
    type Job = Infallible;
    type Done = Infallible;
    type Effect = Infallible;

    fn service(&self) -> &'static str {
        "trivial"
    }

    fn topics(&self) -> &'static [Topic] {
        &[topic::SEEDS]
    }

    fn receive(
        &mut self,
        batch: Vec<(Origin, ConsumerRecord)>,
        now: Millis,
        actions: &mut Actions<Infallible, Infallible>,
    ) -> Result<(), StageError> {
        let pass = |record: ConsumerRecord| Record {
            tp: record.tp,
            key: record.key,
            value: record.value,
            headers: vec![],
            timestamp_ms: now,
        };
        match self.0 {
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
    let runner = Runner::new(Trivial(does), Arc::new(log), NoJobs, NoEffects, config);
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

criterion_group!(benches, overhead);
criterion_main!(benches);
