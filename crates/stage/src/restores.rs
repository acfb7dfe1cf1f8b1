//! Partitions that are being opened: running restores, and openings that wait for the end of a trial.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use orbweaver_log::Partition;
use tokio::{
    sync::{
        Semaphore,
        mpsc::{Receiver, Sender, channel},
    },
    task::JoinHandle,
    time::Instant,
};

use crate::restore::{PartitionRestore, RestoreMessage};

/// Capacity of the channel for messages of running restores: openings and restored batches.
const MESSAGES_WAITING: usize = 8;

#[derive(Debug)]
pub(crate) struct Restores {
    /// Running restores by partition, with their start times.
    running: HashMap<Partition, (JoinHandle<()>, Instant)>,
    /// Openings that wait, with their assignment epochs.
    deferred: BTreeMap<Partition, u32>,
    permits: Arc<Semaphore>,
    to: Sender<RestoreMessage>,
    from: Receiver<RestoreMessage>,
}

impl Restores {
    pub(crate) fn new(at_once: usize) -> Self {
        let (to, from) = channel(MESSAGES_WAITING);
        let (running, deferred) = (HashMap::new(), BTreeMap::new());
        Self { running, deferred, permits: Arc::new(Semaphore::new(at_once)), to, from }
    }

    pub(crate) fn start(&mut self, restore: PartitionRestore) {
        let (partition, cpu) = (restore.partition, restore.context.metrics.cpu.clone());
        let task = tokio::spawn(cpu.wrap(restore.run(self.permits.clone(), self.to.clone())));
        self.running.insert(partition, (task, Instant::now()));
    }

    /// Defers an opening until [`Self::take_deferred`].
    pub(crate) fn defer(&mut self, partition: Partition, epoch: u32) {
        self.deferred.insert(partition, epoch);
    }

    /// Returns `true` if an opening waits for which `is_free` holds.
    pub(crate) fn has_deferred(&self, is_free: impl Fn(Partition) -> bool) -> bool {
        self.deferred.keys().any(|partition| is_free(*partition))
    }

    /// Takes the openings that wait and for which `is_free` holds.
    pub(crate) fn take_deferred(&mut self, is_free: impl Fn(Partition) -> bool) -> BTreeMap<Partition, u32> {
        self.deferred.extract_if(.., |partition, _| is_free(*partition)).collect()
    }

    /// Waits for the next message. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<RestoreMessage> {
        self.from.recv().await
    }

    /// Returns the next message if it has arrived.
    pub(crate) fn try_next(&mut self) -> Option<RestoreMessage> {
        self.from.try_recv().ok()
    }

    /// Removes a restore that is over, and returns its start time.
    pub(crate) fn finish(&mut self, partition: Partition) -> Option<Instant> {
        self.running.remove(&partition).map(|(_, since)| since)
    }

    /// Cancels the opening of a partition.
    pub(crate) fn cancel(&mut self, partition: Partition) {
        self.deferred.remove(&partition);
        if let Some((task, _)) = self.running.remove(&partition) {
            task.abort();
        }
    }

    pub(crate) fn cancel_all(&mut self) {
        self.deferred.clear();
        self.running.drain().for_each(|(_, (task, _))| task.abort());
    }

    /// Returns `true` if no restore is running.
    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Returns the partitions whose restores are running.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = Partition> {
        self.running.keys().copied()
    }

    /// Returns the start time of the oldest running restore.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.running.values().map(|(_, since)| *since).min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use orbweaver_log::{Cleanup, MemoryLog, TopicSpec};
    use orbweaver_messages::topic;

    use super::*;
    use crate::{StartFrom, loop_context::LoopContext};

    fn start(restores: &mut Restores, partition: Partition, epoch: u32) {
        let log = MemoryLog::new(&[TopicSpec::new(topic::SEEDS, 4, Cleanup::Delete)]);
        let context = Arc::new(LoopContext::tested(Arc::new(log), &[topic::SEEDS]));
        restores.start(PartitionRestore {
            context,
            partition,
            epoch,
            starts: vec![StartFrom::CommitPoint],
            claims: &[],
            tails: &[],
            restores: vec![],
            crashers: vec![],
        });
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_opening_neither_runs_nor_waits() {
        let mut restores = Restores::new(1);
        restores.defer(2, 1);
        restores.defer(3, 1);
        start(&mut restores, 4, 1);
        [2, 4].into_iter().for_each(|partition| restores.cancel(partition));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(restores.is_empty() && restores.try_next().is_none());
        assert!(!restores.has_deferred(|partition| partition == 2));
        assert_eq!(restores.take_deferred(|_| true), BTreeMap::from([(3, 1)]));
        assert!(!restores.has_deferred(|_| true));
    }
}
