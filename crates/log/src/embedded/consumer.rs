//! The only member of a group: all partitions of its topics are assigned to it from the start.

use std::{sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt, ready};
use orbweaver_messages::Topic;
use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use super::{
    cursor::{Cursor, Room},
    frame_reader::Chunk,
    reader::{Read, read_aside, read_ended},
    state::Shared,
};
use crate::{Commit, Consumer, ConsumerRecord, Event, LogError, Offset, TopicPartition};

struct AssignedPartition {
    tp: TopicPartition,
    /// `None` until started.
    cursor: Option<Cursor>,
    paused: bool,
    /// Number of starts; reads made for an earlier start are not delivered.
    starts: u64,
}

/// A read in progress on the blocking pool. It survives a dropped poll, so that polls that are dropped early make
/// progress too.
struct Pending {
    index: usize,
    starts: u64,
    job: JoinHandle<Read>,
}

pub(super) struct EmbeddedConsumer {
    shared: Arc<Shared>,
    group: String,
    /// In round-robin order: by partition number, then by topic.
    held: Vec<AssignedPartition>,
    /// Index of the next partition to read. A batch starts after the last one read, and continues until it is full.
    turn: usize,
    announced: bool,
    pending: Option<Pending>,
    chunk: Chunk,
    wake: Arc<Notify>,
}

impl EmbeddedConsumer {
    pub(super) fn new(shared: Arc<Shared>, group: &str, topics: &[Topic]) -> Result<Self, LogError> {
        let (mut tps, wake) = (vec![], Arc::default());
        for topic in topics {
            let known = shared.topic(*topic)?;
            known.waiters.join(None, &wake);
            tps.extend((0..known.spec.partitions).map(|partition| TopicPartition::new(*topic, partition)));
        }
        tps.sort_unstable_by_key(|tp| (tp.partition, tp.topic));
        tps.dedup();
        shared.join(group)?;
        let held = tps.into_iter().map(|tp| AssignedPartition { tp, cursor: None, paused: false, starts: 0 }).collect();
        Ok(Self {
            shared,
            group: group.to_owned(),
            held,
            turn: 0,
            announced: false,
            pending: None,
            chunk: Chunk::default(),
            wake,
        })
    }

    fn find(&self, tp: TopicPartition) -> Option<usize> {
        self.held.binary_search_by_key(&(tp.partition, tp.topic), |held| (held.tp.partition, held.tp.topic)).ok()
    }

    fn held(&mut self, tp: TopicPartition) -> Result<&mut AssignedPartition, LogError> {
        let held = self.find(tp).and_then(|index| self.held.get_mut(index));
        held.ok_or(LogError::NotAssigned(tp))
    }

    fn check(&self, tps: impl IntoIterator<Item = TopicPartition>) -> Result<(), LogError> {
        match tps.into_iter().find(|tp| self.find(*tp).is_none()) {
            Some(tp) => Err(LogError::NotAssigned(tp)),
            None => Ok(()),
        }
    }

    fn set_paused(&mut self, tps: &[TopicPartition], paused: bool) -> Result<(), LogError> {
        self.check(tps.iter().copied())?;
        for tp in tps {
            self.held(*tp)?.paused = paused;
        }
        Ok(())
    }

    /// Fills a batch from memory, or starts a read on the blocking pool (`pending`) where the data may be on disk.
    fn gather(&mut self) -> Result<Vec<ConsumerRecord>, LogError> {
        let mut batch = vec![];
        let mut room = Room::OF_A_BATCH;
        let count = self.held.len();
        let first = self.turn;
        for step in 0..count {
            let index = (first + step) % count;
            let Some(held) = self.held.get_mut(index).filter(|held| !held.paused) else { continue };
            let Some(cursor) = held.cursor.as_mut().filter(|cursor| cursor.is_behind()) else { continue };
            if !cursor.is_warm() {
                if !batch.is_empty() {
                    // Next in the round-robin.
                    self.turn = index;
                    break;
                }
                let job = read_aside(&self.shared, cursor.clone());
                self.pending = Some(Pending { index, starts: held.starts, job });
                self.turn = (index + 1) % count;
                break;
            }
            match cursor.read(&self.shared.disk, &mut self.chunk, &mut room, &mut batch) {
                Ok(()) => self.turn = (index + 1) % count,
                Err(error) if batch.is_empty() => return Err(error),
                Err(_) => {
                    // Records already read are delivered first; the error recurs.
                    self.turn = index;
                    break;
                }
            }
            if room.is_none() {
                break;
            }
        }
        Ok(batch)
    }

    /// Returns the result of a finished read; nothing if the partition was paused or restarted, to be reread later.
    fn settle(&mut self, pending: &Pending, (cursor, batch): Read) -> Result<Vec<ConsumerRecord>, LogError> {
        let Some(held) = self.held.get_mut(pending.index) else { return Ok(vec![]) };
        if held.paused || held.starts != pending.starts {
            return Ok(vec![]);
        }
        let batch = batch?;
        held.cursor = Some(cursor);
        Ok(batch)
    }
}

impl Consumer for EmbeddedConsumer {
    fn poll(&mut self, max_wait: Duration) -> BoxFuture<'_, Result<Option<Event>, LogError>> {
        async move {
            if !self.announced {
                self.announced = true;
                return Ok(Some(Event::Assigned(self.held.iter().map(|held| held.tp).collect())));
            }
            let deadline = Instant::now() + max_wait;
            loop {
                if let Some(pending) = &mut self.pending {
                    let Ok(done) = timeout_at(deadline, &mut pending.job).await else { return Ok(None) };
                    let Some(pending) = self.pending.take() else { continue };
                    let batch = self.settle(&pending, done.map_err(|error| read_ended(&error))?)?;
                    if !batch.is_empty() {
                        return Ok(Some(Event::Records(batch)));
                    }
                }
                let batch = self.gather()?;
                if !batch.is_empty() {
                    return Ok(Some(Event::Records(batch)));
                }
                if self.pending.is_none() && timeout_at(deadline, self.wake.notified()).await.is_err() {
                    return Ok(None);
                }
            }
        }
        .boxed()
    }

    fn start(&mut self, tp: TopicPartition, from: Offset) -> Result<(), LogError> {
        let partition = Arc::clone(self.shared.partition(tp)?);
        let held = self.held(tp)?;
        held.cursor = Some(Cursor::new(partition, from)?);
        held.starts += 1;
        Ok(())
    }

    fn pause(&mut self, tps: &[TopicPartition]) -> Result<(), LogError> {
        self.set_paused(tps, true)
    }

    fn resume(&mut self, tps: &[TopicPartition]) -> Result<(), LogError> {
        self.set_paused(tps, false)
    }

    fn commit(&mut self, commits: Vec<(TopicPartition, Commit)>) -> BoxFuture<'static, Result<(), LogError>> {
        let checked = self.check(commits.iter().map(|(tp, _)| *tp));
        ready(checked.and_then(|()| self.shared.commit(&self.group, commits))).boxed()
    }

    fn release(&mut self, tps: &[TopicPartition]) -> Result<(), LogError> {
        // Nothing is ever revoked here.
        self.check(tps.iter().copied())
    }
}

impl Drop for EmbeddedConsumer {
    fn drop(&mut self) {
        self.shared.leave(&self.group);
    }
}
