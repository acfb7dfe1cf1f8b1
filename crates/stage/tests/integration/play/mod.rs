//! A scripted stage, a log in memory, and functions that wait for a state.

#![allow(unreachable_pub, reason = "a module of a test binary")]

pub mod watched;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use orbweaver_log::{
    Cleanup, ConsumerRecord, Log, LogError, MemoryLog, Offset, Partition, Record, TopicPartition, TopicSpec,
    memory::ScriptedResult,
};
use orbweaver_messages::{Millis, Topic, topic};
use orbweaver_stage::{
    Actions, Incomplete, Origin, PartitionContext, Perform, PerformError, RestoreSpec, Runner, RunnerConfig,
    ScriptedClock, Stage, StageError, StartFrom, Trials, Worker, metrics::Metrics,
};
use prometheus::Registry;
use tokio::{sync::mpsc::UnboundedSender, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

pub type TestActions = Actions<Origin, String>;
type React = Box<dyn FnMut(&Origin, &ConsumerRecord, &mut TestActions) + Send>;

/// Calls of the stage, in order.
#[derive(Debug, Default)]
pub struct Seen {
    pub received: Vec<(Origin, String)>,
    pub restored: Vec<String>,
    pub distrusted: Vec<Topic>,
    pub followed: Vec<String>,
    /// Number of records restored when each of them was tailed.
    pub restored_before: Vec<usize>,
    /// Tokens of completed refreshes, each with the number of records tailed until then.
    pub refreshed: Vec<(u64, usize)>,
    /// Refreshes to be requested at the next tick.
    pub refresh: Vec<u64>,
    /// Number of records tailed when the first partition opened.
    pub followed_before: Option<usize>,
    pub opened: Vec<PartitionContext>,
    /// Times at which they were opened.
    pub opened_at: Vec<Millis>,
    pub drained: Vec<Partition>,
    pub closed: Vec<Partition>,
    pub settled: Vec<(u64, Vec<Offset>)>,
    pub refused: Vec<u64>,
    pub performed: Vec<String>,
    pub due: usize,
    /// Origins to be completed at the next tick.
    pub release: VecDeque<Origin>,
    /// Reason for which the next batch ends the stage.
    pub halt: Option<String>,
    /// Offsets that the next opening reports as incomplete.
    pub incomplete: Vec<(Topic, Offset)>,
    /// Offset that a look back must reach.
    pub back: Option<Offset>,
    /// Ends of ownership reported to the stage.
    pub owned_until: Vec<Millis>,
}

pub struct Scripted {
    pub topics: &'static [Topic],
    pub claims: &'static [Topic],
    pub tails: &'static [Topic],
    pub restores: Vec<RestoreSpec>,
    pub start_from: StartFrom,
    pub needs_proof: bool,
    /// Texts of records at which the stage panics.
    pub poison: Vec<String>,
    pub seen: Arc<Mutex<Seen>>,
    pub react: React,
}

impl Scripted {
    /// Creates a stage of `topics` that reacts to each record with `react`.
    pub fn new(
        topics: &'static [Topic],
        react: impl FnMut(&Origin, &ConsumerRecord, &mut TestActions) + Send + 'static,
    ) -> (Self, Arc<Mutex<Seen>>) {
        let seen = Arc::<Mutex<Seen>>::default();
        (
            Self {
                topics,
                claims: &[],
                tails: &[],
                restores: vec![],
                start_from: StartFrom::CommitPoint,
                needs_proof: false,
                poison: vec![],
                seen: seen.clone(),
                react: Box::new(react),
            },
            seen,
        )
    }

    fn swallow(&self, text: &str) {
        assert!(!self.poison.iter().any(|poison| poison == text), "poisoned by {text}");
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }
}

impl Stage for Scripted {
    type Job = Origin;
    type Done = Origin;
    type Effect = String;

    fn service(&self) -> &'static str {
        "scripted"
    }

    fn topics(&self) -> &'static [Topic] {
        self.topics
    }

    fn claimed_topics(&self) -> &'static [Topic] {
        self.claims
    }

    fn tails(&self) -> &'static [Topic] {
        self.tails
    }

    fn start_from(&self, _: TopicPartition) -> StartFrom {
        self.start_from
    }

    fn restore_specs(&self, _: Partition) -> Vec<RestoreSpec> {
        self.restores.clone()
    }

    fn look_back_offset(&self, _: Partition, _: Topic) -> Option<Offset> {
        let seen = self.seen();
        // Called once the tails are read and everything listed before is restored.
        seen.back.filter(|_| seen.followed.iter().any(|text| text == "setting0"))
    }

    fn discard_index(&mut self, _: Partition, topic: Topic) -> Result<(), StageError> {
        self.seen().distrusted.push(topic);
        Ok(())
    }

    fn restore(&mut self, _: Partition, record: &ConsumerRecord) -> Result<(), StageError> {
        self.swallow(&text(record));
        self.seen().restored.push(text(record));
        Ok(())
    }

    fn receive_tailed(&mut self, record: &ConsumerRecord, _: Millis, _: &mut TestActions) -> Result<(), StageError> {
        self.swallow(&text(record));
        let mut seen = self.seen();
        let restored = seen.restored.len();
        seen.restored_before.push(restored);
        seen.followed.push(text(record));
        Ok(())
    }

    fn open(&mut self, opening: PartitionContext, now: Millis) {
        let mut seen = self.seen();
        let followed = seen.followed.len();
        seen.followed_before.get_or_insert(followed);
        seen.opened.push(opening);
        seen.opened_at.push(now);
    }

    fn incomplete(&self, _: Partition) -> Incomplete<'_> {
        Ok(Box::new(self.seen().incomplete.clone().into_iter()))
    }

    fn refreshed(&mut self, token: u64, _: Millis, _: &mut TestActions) -> Result<(), StageError> {
        let mut seen = self.seen();
        let followed = seen.followed.len();
        seen.refreshed.push((token, followed));
        Ok(())
    }

    fn receive(
        &mut self,
        batch: Vec<(Origin, ConsumerRecord)>,
        _: Millis,
        actions: &mut TestActions,
    ) -> Result<(), StageError> {
        for (origin, record) in batch {
            self.seen().received.push((origin, text(&record)));
            self.swallow(&text(&record));
            (self.react)(&origin, &record, actions);
        }
        match self.seen().halt.take() {
            Some(reason) => Err(StageError::Halted { service: "scripted", reason }),
            None => Ok(()),
        }
    }

    fn plan_durable(
        &mut self,
        token: u64,
        offsets: &[Offset],
        _: Millis,
        _: &mut TestActions,
    ) -> Result<(), StageError> {
        self.seen().settled.push((token, offsets.to_vec()));
        Ok(())
    }

    fn refused(&mut self, token: u64, _: &str, _: Millis, _: &mut TestActions) -> Result<(), StageError> {
        self.seen().refused.push(token);
        Ok(())
    }

    fn job_done(&mut self, done: Origin, _: Millis, actions: &mut TestActions) -> Result<(), StageError> {
        actions.completes.push(done);
        Ok(())
    }

    fn tick(&mut self, _: Millis, actions: &mut TestActions) -> Result<(), StageError> {
        let mut seen = self.seen();
        actions.completes.extend(seen.release.drain(..));
        actions.refreshes.append(&mut seen.refresh);
        Ok(())
    }

    fn drain(&mut self, partition: Partition) {
        self.seen().drained.push(partition);
    }

    fn close(&mut self, partition: Partition) {
        self.seen().closed.push(partition);
    }

    fn needs_proof(&self) -> bool {
        self.needs_proof
    }

    fn owns_until(&mut self, until_ms: Millis) {
        self.seen().owned_until.push(until_ms);
    }

    fn due(&self, _: Millis) -> usize {
        self.seen().due
    }
}

/// Executor that records effects, and worker that completes jobs at once.
pub struct Outside(pub Arc<Mutex<Seen>>);

impl Perform<String> for Outside {
    fn perform(&self, effects: Vec<String>) -> BoxFuture<'_, Result<(), PerformError>> {
        Box::pin(async move {
            if effects.iter().any(|effect| effect == "fail") {
                return Err(PerformError("the store is gone".to_owned()));
            }
            self.0.lock().unwrap().performed.extend(effects);
            Ok(())
        })
    }
}

impl Worker<Origin, Origin> for Outside {
    fn start(&self, job: Origin, results: &UnboundedSender<Origin>) {
        let _ = results.send(job);
    }
}

pub const PARTITIONS: Partition = 4;

pub fn specs() -> Vec<TopicSpec> {
    let all = [
        topic::SEEDS,
        topic::DISCOVERED,
        topic::FRONTIER,
        topic::OUTCOMES,
        topic::DOCUMENTS,
        topic::SITES,
        topic::CONTROL,
        topic::DEAD_LETTERS,
    ];
    all.into_iter().map(|topic| TopicSpec::new(topic, PARTITIONS, Cleanup::Delete)).collect()
}

pub fn at(topic: Topic, partition: Partition) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

pub fn record(tp: TopicPartition, text: &str) -> Record {
    let value = Some(Bytes::copy_from_slice(text.as_bytes()));
    Record { tp, key: Some(Bytes::from_static(b"key")), value, headers: vec![], timestamp_ms: 1 }
}

pub fn text(record: &ConsumerRecord) -> String {
    String::from_utf8(record.value.clone().unwrap_or_default().to_vec()).unwrap()
}

/// Appends records `prefix0`, `prefix1`, … to a topic-partition.
pub async fn fill(log: &MemoryLog, tp: TopicPartition, prefix: &str, count: usize) {
    let records = (0..count).map(|number| record(tp, &format!("{prefix}{number}"))).collect();
    log.append(records).await.unwrap();
}

/// Appends such records to each partition of a topic.
pub async fn fill_all(log: &MemoryLog, topic: Topic, prefix: &str, count: usize) {
    for partition in 0..PARTITIONS {
        fill(log, at(topic, partition), prefix, count).await;
    }
}

/// Makes the next `count` commits fail, although their partitions are still assigned.
pub fn refuse_commits(log: &MemoryLog, count: usize) {
    let busy = || ScriptedResult::Fail { after: 0, error: LogError::Invalid("busy".to_owned()) };
    (0..count).for_each(|_| log.script_commit(busy()));
}

/// Returns the offset committed by the group; `None` without a commit.
pub async fn committed(log: &MemoryLog, tp: TopicPartition) -> Option<Offset> {
    log.committed("scripted", &[tp]).await.unwrap()[0].clone().map(|commit| commit.offset)
}

pub async fn metadata(log: &MemoryLog, tp: TopicPartition) -> String {
    log.committed("scripted", &[tp]).await.unwrap()[0].clone().unwrap_or_default().metadata
}

/// A running stage.
pub struct Play {
    pub shutdown: CancellationToken,
    pub task: JoinHandle<Result<(), StageError>>,
}

pub fn config() -> RunnerConfig {
    RunnerConfig {
        drain_budget: Duration::from_secs(5),
        shutdown_budget: Duration::from_secs(5),
        // Time is paused and jumps; tests of suspension set this themselves.
        frozen_after: Duration::from_secs(1_000_000),
        ..RunnerConfig::default()
    }
}

pub fn play(stage: Scripted, log: &MemoryLog, config: RunnerConfig) -> Play {
    Play::of(runner(stage, Arc::new(log.clone()), config))
}

/// Runs a stage of `topics` that reacts to each record with `react`.
pub fn started(
    topics: &'static [Topic],
    log: &MemoryLog,
    react: impl FnMut(&Origin, &ConsumerRecord, &mut TestActions) + Send + 'static,
) -> (Play, Arc<Mutex<Seen>>) {
    let (stage, seen) = Scripted::new(topics, react);
    (play(stage, log, config()), seen)
}

/// Runs a stage in one process with others, which share `trials`.
pub fn play_beside(trials: &Trials, stage: Scripted, log: &MemoryLog, config: RunnerConfig) -> Play {
    Play::of(runner(stage, Arc::new(log.clone()), config).with_trials(trials))
}

/// Runs a stage that counts as suspended after 20 s of `clock`.
pub fn play_by(clock: Arc<ScriptedClock>, stage: Scripted, log: Arc<dyn Log>) -> Play {
    let config = RunnerConfig { frozen_after: Duration::from_secs(20), ..config() };
    Play::of(runner(stage, log, config).with_clock(clock))
}

pub fn runner(stage: Scripted, log: Arc<dyn Log>, config: RunnerConfig) -> Runner<Scripted> {
    let (worker, perform) = (Outside(stage.seen.clone()), Outside(stage.seen.clone()));
    let metrics = Metrics::register(&Registry::new()).unwrap();
    Runner::new(stage, log, worker, perform, config).with_metrics(&metrics)
}

impl Play {
    pub fn of(runner: Runner<Scripted>) -> Self {
        let shutdown = CancellationToken::new();
        Self { shutdown: shutdown.clone(), task: tokio::spawn(runner.run(shutdown)) }
    }

    /// Requests the orderly shutdown and waits for it.
    pub async fn end(self) -> Result<(), StageError> {
        self.shutdown.cancel();
        self.ended().await
    }

    pub async fn ended(self) -> Result<(), StageError> {
        tokio::time::timeout(Duration::from_secs(600), self.task).await.expect("the stage ends").unwrap()
    }

    /// Kills the stage as a power failure would.
    pub async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

/// Polls until `state` holds, for a minute at most.
pub async fn until<F: Future<Output = bool>>(what: &str, mut state: impl FnMut() -> F) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !state().await {
        assert!(Instant::now() < deadline, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub async fn until_committed(log: &MemoryLog, tp: TopicPartition, offset: Offset) {
    until(&format!("{tp} committed at {offset}"), || async { committed(log, tp).await == Some(offset) }).await;
}

pub async fn until_seen(seen: &Mutex<Seen>, what: &str, state: impl Fn(&Seen) -> bool) {
    until(what, || async { state(&seen.lock().unwrap()) }).await;
}

/// Lets some time pass, in which a defective stage would act wrongly.
pub async fn a_while() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}
