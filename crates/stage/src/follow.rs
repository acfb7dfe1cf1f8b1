//! Logs that a stage follows after its restore: readers outside of the group, beside the loop.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use orbweaver_log::{Delivered, Log, LogError, Offset, Partition, TopicPartition};
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    task::JoinHandle,
};

use crate::claim::is_claim;

const READ_WAIT: Duration = Duration::from_secs(5);
/// Batches that wait for the loop.
const WAITING: usize = 16;

/// Records of a followed log, and where reading goes on.
#[derive(Debug)]
pub(crate) struct Followed {
    place: TopicPartition,
    generation: u64,
    batch: Result<(Vec<Delivered>, Offset), LogError>,
}

#[derive(Debug)]
struct Follower {
    generation: u64,
    /// Where what the loop has taken ends.
    position: Offset,
    /// The open partitions that follow this place: many for a log that is followed whole.
    by: BTreeSet<Partition>,
    task: JoinHandle<()>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// All followed logs of a stage.
pub(crate) struct Followers {
    log: Arc<dyn Log>,
    followers: BTreeMap<TopicPartition, Follower>,
    generations: u64,
    to: Sender<Followed>,
    from: Receiver<Followed>,
}

impl Followers {
    pub(crate) fn new(log: Arc<dyn Log>) -> Self {
        let (to, from) = channel(WAITING);
        Self { log, followers: BTreeMap::new(), generations: 0, to, from }
    }

    /// `partition` follows `place` from `from` on. Where others follow it already, what lies between is read again, so
    /// that neither they nor `partition` miss a record, and the last one that each sees is the last in the log.
    pub(crate) fn follow(&mut self, partition: Partition, place: TopicPartition, from: Offset) {
        let (mut by, from) = match self.followers.remove(&place) {
            Some(mut other) => (std::mem::take(&mut other.by), from.min(other.position)),
            None => (BTreeSet::new(), from),
        };
        by.insert(partition);
        self.generations += 1;
        let generation = self.generations;
        let (log, to) = (self.log.clone(), self.to.clone());
        let task = tokio::spawn(async move {
            let failed = match read_on(log, place, from, generation, &to).await {
                Ok(()) => return,
                Err(error) => Followed { place, generation, batch: Err(error) },
            };
            let _ = to.send(failed).await;
        });
        self.followers.insert(place, Follower { generation, position: from, by, task });
    }

    /// `partition` is closed.
    pub(crate) fn leave(&mut self, partition: Partition) {
        self.followers.retain(|_, follower| {
            follower.by.remove(&partition);
            !follower.by.is_empty()
        });
    }

    /// The next batch, as it came. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Followed> {
        self.from.recv().await
    }

    /// The records of a batch for the stage; none when its reader was replaced meanwhile.
    pub(crate) fn take(&mut self, followed: Followed) -> Result<Vec<Delivered>, LogError> {
        let follower = self.followers.get_mut(&followed.place);
        let Some(follower) = follower.filter(|follower| follower.generation == followed.generation) else {
            return Ok(vec![]);
        };
        let (records, position) = followed.batch?;
        follower.position = position;
        Ok(records)
    }
}

async fn read_on(
    log: Arc<dyn Log>,
    place: TopicPartition,
    from: Offset,
    generation: u64,
    to: &Sender<Followed>,
) -> Result<(), LogError> {
    let mut reader = log.reader(place, from).await?;
    loop {
        let mut records = reader.read(READ_WAIT).await?;
        records.retain(|record| !is_claim(record));
        if !records.is_empty()
            && to.send(Followed { place, generation, batch: Ok((records, reader.position())) }).await.is_err()
        {
            return Ok(());
        }
    }
}
