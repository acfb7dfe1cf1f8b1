//! A process's access to the log: a [`ProcessLog`] around the in-memory log, where messages take time, arrive late, in
//! part or never.
//!
//! The guarantees are exactly those of Kafka. Records of one producer to one partition land in order; partitions are
//! independent; an acknowledged append has landed; what a killed process had sent may land or not, in part always as a
//! prefix. Commits of a member that lost a partition are refused; its appends are not.

mod apart;
mod consumer;
mod lane;
mod reader;
mod weather;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::{BoxFuture, FutureExt};
use orbweaver_log::{
    Bounds, Commit, Consumer, Log, LogError, MemoryLog, Offset, Partition, Reader, Record, Refused, TopicPartition,
};
use orbweaver_messages::{Millis, Topic, topic};
use orbweaver_stage::CLAIM_HEADER;
use tokio::time::sleep;

use crate::{
    broken::{Broken, Rule},
    gate::Gate,
    groups::Groups,
    random::Random,
};

use consumer::ProcessConsumer;
use lane::Lane;
use reader::ProcessReader;
pub use weather::Weather;

/// Scripted faults in the log of one process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    /// Number (from 0) of the append that fails: a part of it lands, and the process receives an error.
    pub(crate) fail_append: Option<u64>,
    /// Number of the append at whose start the process is killed.
    pub(crate) kill_at_append: Option<u64>,
    /// Number of the append after whose landing, before its acknowledgement, the process is killed.
    pub(crate) kill_at_landing: Option<u64>,
    /// Whether commits are rejected.
    pub(crate) refuse_commits: bool,
    /// Suspends the process for this many milliseconds as it sends its next tombstone, which lands on resumption.
    pub(crate) freeze_at_tombstone: Option<u64>,
    /// Suspends the process for this many milliseconds as it sends its next record of a site, which lands on
    /// resumption.
    pub(crate) freeze_at_site: Option<u64>,
    /// Loses the response to every n-th commit, which is applied; 0: never.
    pub(crate) lose_answer_every: u64,
}

struct Inner {
    log: MemoryLog,
    process: usize,
    gate: Arc<Gate>,
    groups: Groups,
    broken: Broken,
    weather: Weather,
    readers_lag: Duration,
    random: Mutex<Random>,
    lanes: Mutex<BTreeMap<TopicPartition, Lane>>,
    script: Mutex<Script>,
    appends: Mutex<u64>,
    failed: Mutex<bool>,
    /// End of the acknowledged records of this process, per topic-partition.
    written: Mutex<BTreeMap<TopicPartition, Offset>>,
}

impl Inner {
    fn random(&self) -> MutexGuard<'_, Random> {
        lock(&self.random)
    }

    /// Waits for the latency of one message.
    async fn way(&self) {
        let delay = self.weather.delay(&mut self.random());
        if !delay.is_zero() {
            sleep(delay).await;
        }
    }

    /// Waits for one request to the log and its response.
    async fn ask(&self) {
        self.gate.runs().await;
        self.way().await;
        self.gate.reaches_the_log().await;
    }
}

/// Parameters of a process's access to the log.
pub struct Line {
    /// Number of the process.
    pub process: usize,
    /// Gate of the process.
    pub gate: Arc<Gate>,
    pub groups: Groups,
    /// Disabled rules.
    pub broken: Broken,
    /// Latency of messages.
    pub weather: Weather,
    /// Time during which a new reader returns nothing, because its leader lags.
    pub readers_lag: Duration,
}

/// The log, as one process reaches it. Clones share their state.
#[derive(Clone)]
pub struct ProcessLog {
    inner: Arc<Inner>,
}

impl ProcessLog {
    /// Creates the log as a process reaches it by `line`.
    #[must_use]
    pub fn new(log: MemoryLog, line: Line, random: Random) -> Self {
        let Line { process, gate, groups, broken, weather, readers_lag } = line;
        let inner = Inner {
            log,
            process,
            gate,
            groups,
            broken,
            weather,
            readers_lag,
            random: Mutex::new(random),
            lanes: Mutex::default(),
            script: Mutex::default(),
            appends: Mutex::default(),
            failed: Mutex::default(),
            written: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn script(&self, change: impl FnOnce(&mut Script)) {
        change(&mut lock(&self.inner.script));
    }

    /// Returns the number of appends started.
    pub(crate) fn appends(&self) -> u64 {
        *lock(&self.inner.appends)
    }
}

impl Log for ProcessLog {
    fn partitions(&self, topic: Topic) -> Result<Partition, LogError> {
        self.inner.log.partitions(topic)
    }

    fn record_limit(&self) -> usize {
        self.inner.log.record_limit()
    }

    fn append(&self, records: Vec<Record>) -> BoxFuture<'_, Result<Vec<Offset>, LogError>> {
        append(&self.inner, records).boxed()
    }

    fn consumer(&self, group: &str, topics: &[Topic]) -> Result<Box<dyn Consumer>, LogError> {
        let consumer = self.inner.log.consumer(group, topics)?;
        let member = self.inner.groups.join(group, self.inner.process, self.inner.gate.clone());
        Ok(Box::new(ProcessConsumer::new(consumer, self.inner.clone(), (group, member), topics)))
    }

    fn reader(&self, tp: TopicPartition, from: Offset) -> BoxFuture<'_, Result<Box<dyn Reader>, LogError>> {
        async move {
            self.inner.ask().await;
            let reader = self.inner.log.reader(tp, from).await?;
            Ok(Box::new(ProcessReader::new(reader, tp, self.inner.clone())) as Box<dyn Reader>)
        }
        .boxed()
    }

    fn bounds(&self, tp: TopicPartition) -> BoxFuture<'_, Result<Bounds, LogError>> {
        async move {
            self.inner.ask().await;
            self.inner.log.bounds(tp).await
        }
        .boxed()
    }

    fn offset_at(&self, tp: TopicPartition, timestamp_ms: Millis) -> BoxFuture<'_, Result<Offset, LogError>> {
        async move {
            self.inner.ask().await;
            self.inner.log.offset_at(tp, timestamp_ms).await
        }
        .boxed()
    }

    fn committed<'a>(
        &'a self,
        group: &'a str,
        tps: &'a [TopicPartition],
    ) -> BoxFuture<'a, Result<Vec<Option<Commit>>, LogError>> {
        async move {
            self.inner.ask().await;
            let mut commits = self.inner.log.committed(group, tps).await?;
            if self.inner.broken.is_off(Rule::Offsets) {
                for (tp, commit) in tps.iter().zip(&mut commits) {
                    let offset = self.inner.log.bounds(*tp).await?.start;
                    commit.get_or_insert(Commit { offset, metadata: String::new() });
                }
            }
            Ok(commits)
        }
        .boxed()
    }

    fn delete_below(&self, tp: TopicPartition, before: Offset) -> BoxFuture<'_, Result<(), LogError>> {
        async move {
            self.inner.ask().await;
            self.inner.log.delete_below(tp, before).await
        }
        .boxed()
    }
}

/// Sends records on their lanes; waits until all have landed and the acknowledgement has arrived.
async fn append(inner: &Arc<Inner>, records: Vec<Record>) -> Result<Vec<Offset>, LogError> {
    inner.gate.runs().await;
    let number = {
        let mut appends = lock(&inner.appends);
        *appends += 1;
        *appends - 1
    };
    let script = lock(&inner.script).clone();
    if script.kill_at_append == Some(number) {
        inner.gate.kill();
        return std::future::pending().await;
    }
    let fails = script.fail_append == Some(number);
    if *lock(&inner.failed) {
        return Err(failed());
    }
    let early = inner.broken.acknowledges_early(&records);
    let partitions = inner.log.partitions(topic::OUTCOMES)?;
    let records = inner.broken.append(records, partitions, &inner.log);
    freeze_at_sending(inner, &records);
    let tps: Vec<TopicPartition> = records.iter().map(|record| record.tp).collect();
    let mut chunks: BTreeMap<TopicPartition, (Vec<usize>, Vec<Record>)> = BTreeMap::new();
    for (index, record) in records.into_iter().enumerate() {
        let chunk = chunks.entry(record.tp).or_default();
        chunk.0.push(index);
        chunk.1.push(record);
    }
    let mut landings = vec![];
    for (tp, (indexes, mut records)) in chunks {
        if fails {
            // A part: a prefix in each partition.
            let taken = inner.random().index(records.len() + 1);
            records.truncate(taken);
        }
        let delay = inner.weather.delay(&mut inner.random());
        let mut lanes = lock(&inner.lanes);
        let lane = lanes
            .entry(tp)
            .or_insert_with(|| Lane::open(inner.log.clone(), (inner.process, inner.gate.clone()), &mut inner.random()));
        landings.push((indexes, lane.send(records, delay)));
    }
    if early {
        // With the rule disabled, the process neither waits for the log nor learns of a failure.
        return Ok(vec![0; tps.len()]);
    }
    if fails {
        *lock(&inner.failed) = true;
        inner.way().await;
        inner.gate.runs().await;
        return Err(failed());
    }
    let mut offsets = vec![None; tps.len()];
    let mut refusals = vec![];
    for (indexes, landing) in landings {
        let landed = match landing.landed().await {
            Err(LogError::Refused(refused)) => {
                refusals.extend(refused.refusals.into_iter().map(|(part, refusal)| (indexes[part], refusal)));
                refused.offsets
            }
            landed => landed?.into_iter().map(Some).collect(),
        };
        for (index, offset) in indexes.into_iter().zip(landed) {
            offsets[index] = offset;
            let Some(offset) = offset else { continue };
            let mut written = lock(&inner.written);
            let end = written.entry(tps[index]).or_default();
            *end = (*end).max(offset + 1);
        }
    }
    if script.kill_at_landing == Some(number) {
        inner.gate.kill();
        return std::future::pending().await;
    }
    inner.way().await;
    inner.gate.runs().await;
    if refusals.is_empty() {
        return Ok(offsets.into_iter().flatten().collect());
    }
    refusals.sort_unstable_by_key(|(index, _)| *index);
    if let (Some((_, refusal)), true) = (refusals.first(), inner.broken.is_off(Rule::Refusals)) {
        return Err(LogError::Fatal(refusal.to_string()));
    }
    Err(LogError::Refused(Refused { offsets, refusals }))
}

/// Suspends the process if the script demands it: the records about to be sent land on resumption.
fn freeze_at_sending(inner: &Arc<Inner>, records: &[Record]) {
    let mut script = lock(&inner.script);
    let is_of_site = |record: &Record| record.tp.topic == topic::SITES && !is_claim(record);
    let at_tombstone = script.freeze_at_tombstone.take_if(|_| records.iter().any(|record| record.value.is_none()));
    let at_site = script.freeze_at_site.take_if(|_| records.iter().any(is_of_site));
    if let Some(for_ms) = at_tombstone.or(at_site) {
        inner.gate.freeze_for(Duration::from_millis(for_ms));
    }
}

fn is_claim(record: &Record) -> bool {
    record.headers.iter().any(|(name, _)| *name == CLAIM_HEADER)
}

fn failed() -> LogError {
    LogError::Fatal("the script says that this append fails".to_owned())
}

/// Locks a mutex; poisoning is ignored, because no part of the simulation panics while it holds one.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Upper bound of latency in fair weather.
pub const QUICK: Duration = Duration::from_millis(10);
