//! Logs that a stage tails, read outside the group and concurrently with the loop: one partition of a log after its
//! restore, or all partitions of a topic ([`Stage::tails`](crate::Stage::tails)).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use orbweaver_log::{Bounds, ConsumerRecord, Log, LogError, Offset, Partition, TopicPartition};
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    task::JoinSet,
};

use crate::{
    claim::is_claim,
    tails::{Tails, Waiter},
};

const READ_WAIT: Duration = Duration::from_secs(5);
/// Capacity of the channel to the loop, in batches.
const WAITING: usize = 16;

/// Message from a tailed log.
#[derive(Debug)]
enum TailedBatch {
    /// Records of one topic-partition, and the offset at which reading continues.
    Records { tp: TopicPartition, generation: u64, batch: Result<(Vec<ConsumerRecord>, Offset), LogError> },
    /// Bounds of all tails, requested after the running refresh had started.
    Bounds(Result<Vec<Bounds>, LogError>),
}

#[derive(Debug)]
struct LogTail {
    generation: u64,
    /// Offset up to which the loop has processed the log.
    position: Offset,
    /// The reading task, which ends when this is dropped.
    _task: JoinSet<()>,
}

/// All tailed logs of a stage.
pub(crate) struct LogTails {
    log: Arc<dyn Log>,
    followers: BTreeMap<TopicPartition, LogTail>,
    generations: u64,
    to: Sender<TailedBatch>,
    from: Receiver<TailedBatch>,
    /// Next message, which has arrived.
    next: Option<TailedBatch>,
    tails: Tails,
    /// Running request for the bounds of the tails.
    asking: JoinSet<()>,
}

impl LogTails {
    /// `tails` are the topic-partitions that are tailed for the life of the process, from the first refresh on.
    pub(crate) fn new(log: Arc<dyn Log>, tails: Vec<TopicPartition>) -> Self {
        let (to, from) = channel(WAITING);
        let (followers, tails) = (BTreeMap::new(), Tails::new(tails));
        Self { log, followers, generations: 0, to, from, next: None, tails, asking: JoinSet::new() }
    }

    pub(crate) fn follow(&mut self, tp: TopicPartition, from: Offset) {
        self.generations += 1;
        let generation = self.generations;
        let (log, to) = (self.log.clone(), self.to.clone());
        let mut task = JoinSet::new();
        task.spawn(async move {
            if let Err(error) = read_on(log, tp, from, generation, &to).await {
                let _ = to.send(TailedBatch::Records { tp, generation, batch: Err(error) }).await;
            }
        });
        self.followers.insert(tp, LogTail { generation, position: from, _task: task });
    }

    /// Stops tailing the logs of a closed `partition`.
    pub(crate) fn leave(&mut self, partition: Partition) {
        self.followers.retain(|tp, _| tp.partition != partition || self.tails.contains(*tp));
    }

    /// Reads the tails up to log ends queried from now on, then notifies `waiter`.
    pub(crate) fn refresh(&mut self, waiter: Option<Waiter>) {
        self.tails.wait(waiter);
        self.ask();
    }

    fn ask(&mut self) {
        if let Some(tps) = self.tails.begin() {
            let (log, to) = (self.log.clone(), self.to.clone());
            self.asking.spawn(async move {
                let bounds = log.all_bounds(&tps).await;
                let _ = to.send(TailedBatch::Bounds(bounds)).await;
            });
        }
    }

    /// Returns the reason why partitions that wait for a refresh cannot open: nothing was read for `patience`.
    pub(crate) fn overdue(&mut self, patience: Duration) -> Option<String> {
        self.tails.overdue(patience)
    }

    /// Waits for the next message. Cancel-safe.
    pub(crate) async fn arrive(&mut self) {
        if self.next.is_none() {
            self.next = self.from.recv().await;
        }
    }

    /// Returns `true` if a message has arrived and was not taken.
    pub(crate) fn is_waiting(&self) -> bool {
        self.next.is_some()
    }

    /// Returns `true` if there is a message to take.
    pub(crate) fn has_next(&mut self) -> bool {
        if self.next.is_none() {
            self.next = self.from.try_recv().ok();
        }
        self.next.is_some()
    }

    /// Takes the next message. Returns its records for the stage; none if their reader was replaced meanwhile.
    pub(crate) fn take(&mut self) -> Result<Vec<ConsumerRecord>, LogError> {
        let (tp, generation, batch) = match self.next.take() {
            Some(TailedBatch::Records { tp, generation, batch }) => (tp, generation, batch),
            Some(TailedBatch::Bounds(bounds)) => {
                self.bounded(&bounds?);
                return Ok(vec![]);
            }
            None => return Ok(vec![]),
        };
        let follower = self.followers.get_mut(&tp);
        let Some(follower) = follower.filter(|follower| follower.generation == generation) else {
            return Ok(vec![]);
        };
        let (records, position) = batch?;
        follower.position = position;
        self.tails.passed(tp, position);
        Ok(records)
    }

    /// Handles the bounds of the tails. The first time, starts to tail each from its start.
    fn bounded(&mut self, bounds: &[Bounds]) {
        while self.asking.try_join_next().is_some() {}
        let tps = self.tails.tps();
        for (tp, bounds) in tps.iter().zip(bounds) {
            if !self.followers.contains_key(tp) {
                self.follow(*tp, bounds.start);
            }
            let position = self.followers.get(tp).map_or(bounds.start, |follower| follower.position);
            self.tails.expect(*tp, position, bounds.end);
        }
        self.tails.expected();
    }

    /// Returns the waiters whose refresh is complete. Call it when the stage has received all previous records.
    pub(crate) fn refreshed(&mut self) -> Vec<Waiter> {
        let refreshed = self.tails.finished();
        self.ask();
        refreshed
    }
}

async fn read_on(
    log: Arc<dyn Log>,
    tp: TopicPartition,
    from: Offset,
    generation: u64,
    to: &Sender<TailedBatch>,
) -> Result<(), LogError> {
    let mut reader = log.reader(tp, from).await?;
    let mut reported = from;
    loop {
        let mut records = reader.read(READ_WAIT).await?;
        records.retain(|record| !is_claim(record));
        // After a gap at the end, only the position advances.
        if records.is_empty() && reader.position() == reported {
            continue;
        }
        reported = reader.position();
        if to.send(TailedBatch::Records { tp, generation, batch: Ok((records, reported)) }).await.is_err() {
            return Ok(());
        }
    }
}
