//! Logs that a stage follows: readers outside of the group, beside the loop. One partition of a log after its restore, or all
//! partitions of a topic ([`Stage::tails`](crate::Stage::tails)).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use orbweaver_log::{Bounds, Delivered, Log, LogError, Offset, Partition, TopicPartition};
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    task::{JoinHandle, JoinSet},
};

use crate::{
    claim::is_claim,
    tails::{Tails, Waiter},
};

const READ_WAIT: Duration = Duration::from_secs(5);
/// Batches that wait for the loop.
const WAITING: usize = 16;

/// News of the followed logs.
#[derive(Debug)]
pub(crate) enum Followed {
    /// Records of one place, and the offset at which reading goes on.
    Records { place: TopicPartition, generation: u64, batch: Result<(Vec<Delivered>, Offset), LogError> },
    /// The bounds of all tails, asked for after the refresh under way had begun.
    Bounds(Result<Vec<Bounds>, LogError>),
}

#[derive(Debug)]
struct Follower {
    generation: u64,
    /// Where what the loop has taken ends.
    position: Offset,
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
    pub(crate) tails: Tails,
    /// The request for the bounds of the tails.
    asking: JoinSet<()>,
}

impl Followers {
    /// `tails` are the places that are followed as long as the process runs, from the first refresh on.
    pub(crate) fn new(log: Arc<dyn Log>, tails: Vec<TopicPartition>) -> Self {
        let (to, from) = channel(WAITING);
        let (followers, tails) = (BTreeMap::new(), Tails::new(tails));
        Self { log, followers, generations: 0, to, from, tails, asking: JoinSet::new() }
    }

    /// Follows `place` from `from` on.
    pub(crate) fn follow(&mut self, place: TopicPartition, from: Offset) {
        self.generations += 1;
        let generation = self.generations;
        let (log, to) = (self.log.clone(), self.to.clone());
        let task = tokio::spawn(async move {
            if let Err(error) = read_on(log, place, from, generation, &to).await {
                let _ = to.send(Followed::Records { place, generation, batch: Err(error) }).await;
            }
        });
        self.followers.insert(place, Follower { generation, position: from, task });
    }

    /// `partition` is closed.
    pub(crate) fn leave(&mut self, partition: Partition) {
        self.followers.retain(|place, _| place.partition != partition || self.tails.contains(*place));
    }

    /// Reads the tails up to ends that are asked for from now on, and then has `waiter` told.
    pub(crate) fn refresh(&mut self, waiter: Option<Waiter>) {
        self.tails.wait(waiter);
        self.ask();
    }

    fn ask(&mut self) {
        if let Some(places) = self.tails.begin() {
            let (log, to) = (self.log.clone(), self.to.clone());
            self.asking.spawn(async move {
                let bounds = log.all_bounds(&places).await;
                let _ = to.send(Followed::Bounds(bounds)).await;
            });
        }
    }

    /// The next batch, as it came. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Followed> {
        self.from.recv().await
    }

    /// The records of a batch for the stage; none when its reader was replaced meanwhile.
    pub(crate) fn take(&mut self, followed: Followed) -> Result<Vec<Delivered>, LogError> {
        let (place, generation, batch) = match followed {
            Followed::Records { place, generation, batch } => (place, generation, batch),
            Followed::Bounds(bounds) => {
                self.bounded(&bounds?);
                return Ok(vec![]);
            }
        };
        let follower = self.followers.get_mut(&place);
        let Some(follower) = follower.filter(|follower| follower.generation == generation) else {
            return Ok(vec![]);
        };
        let (records, position) = batch?;
        follower.position = position;
        self.tails.passed(place, position);
        Ok(records)
    }

    /// The ends of the tails are known. At the first time each is followed from its start on.
    fn bounded(&mut self, bounds: &[Bounds]) {
        while self.asking.try_join_next().is_some() {}
        let places = self.tails.places();
        for (place, bounds) in places.iter().zip(bounds) {
            if !self.followers.contains_key(place) {
                self.follow(*place, bounds.start);
            }
            let position = self.followers.get(place).map_or(bounds.start, |follower| follower.position);
            self.tails.expect(*place, position, bounds.end);
        }
        self.tails.expected();
    }

    /// Whom to tell that the tails were read as far as they were asked for. Ask when all that was taken has reached the stage.
    pub(crate) fn refreshed(&mut self) -> Vec<Waiter> {
        let refreshed = self.tails.finished();
        self.ask();
        refreshed
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
    let mut told = from;
    loop {
        let mut records = reader.read(READ_WAIT).await?;
        records.retain(|record| !is_claim(record));
        // Over a gap at the end the position alone moves.
        if records.is_empty() && reader.position() == told {
            continue;
        }
        told = reader.position();
        if to.send(Followed::Records { place, generation, batch: Ok((records, told)) }).await.is_err() {
            return Ok(());
        }
    }
}
