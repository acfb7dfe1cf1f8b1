//! Partitions of a member, and the handling of their records (pure).

use std::collections::{BTreeMap, VecDeque};

use crate::{ConsumerRecord, LogError, Offset, TopicPartition};

/// An assigned partition.
#[derive(Debug, Default)]
struct PartitionState {
    /// Lowest deliverable offset; `None` until started.
    next: Option<Offset>,
    /// Whether the seek to `next` is pending.
    seeks: bool,
    /// Whether the caller paused it.
    paused: bool,
    /// Whether librdkafka is paused and fetches nothing.
    stopped: bool,
    /// Records that arrived while it was paused.
    waiting: VecDeque<ConsumerRecord>,
    /// `Some` if revoked; `true` once the caller released it.
    going: Option<bool>,
}

#[derive(Debug, Default)]
pub(super) struct MemberPartitions {
    tps: BTreeMap<TopicPartition, PartitionState>,
    /// Total bytes of the queued records.
    waiting_bytes: usize,
}

/// A pending seek.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seek {
    pub(super) tp: TopicPartition,
    pub(super) from: Offset,
}

impl MemberPartitions {
    /// Adds assigned partitions, stopped until they are started.
    pub(super) fn assigned(&mut self, tps: &[TopicPartition]) {
        for tp in tps {
            self.remove(*tp);
            self.tps.insert(*tp, PartitionState { stopped: true, ..PartitionState::default() });
        }
    }

    /// Marks partitions as revoked. Returns those that were not already.
    pub(super) fn revoked(&mut self, tps: &[TopicPartition]) -> Vec<TopicPartition> {
        let mut revoked = vec![];
        for at in tps {
            let Some(tp) = self.tps.get_mut(at).filter(|tp| tp.going.is_none()) else { continue };
            tp.going = Some(false);
            self.waiting_bytes -= clear(&mut tp.waiting);
            revoked.push(*at);
        }
        revoked
    }

    /// Removes lost partitions. Returns those that were assigned.
    pub(super) fn lost(&mut self, tps: &[TopicPartition]) -> Vec<TopicPartition> {
        tps.iter().copied().filter(|tp| self.remove(*tp)).collect()
    }

    /// Marks partitions as released. Returns those to give back now: all revoked ones, once all are released.
    pub(super) fn release(&mut self, tps: &[TopicPartition]) -> Vec<TopicPartition> {
        for at in tps {
            if let Some(tp) = self.tps.get_mut(at)
                && tp.going.is_some()
            {
                tp.going = Some(true);
            }
        }
        let going = self.going();
        if going.iter().any(|at| self.tps.get(at).is_some_and(|tp| tp.going == Some(false))) {
            return vec![];
        }
        self.lost(&going)
    }

    /// Returns the revoked partitions.
    pub(super) fn going(&self) -> Vec<TopicPartition> {
        self.tps.iter().filter(|(_, tp)| tp.going.is_some()).map(|(at, _)| *at).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tps.is_empty()
    }

    pub(super) fn check(&self, at: TopicPartition) -> Result<(), LogError> {
        if self.tps.contains_key(&at) { Ok(()) } else { Err(LogError::NotAssigned(at)) }
    }

    /// Starts delivery at `from`. Returns whether librdkafka must stop the partition first.
    pub(super) fn start(&mut self, at: TopicPartition, from: Offset) -> Result<bool, LogError> {
        let tp = self.tps.get_mut(&at).filter(|tp| tp.going.is_none());
        let tp = tp.ok_or(LogError::NotAssigned(at))?;
        self.waiting_bytes -= clear(&mut tp.waiting);
        tp.next = Some(from);
        tp.seeks = true;
        Ok(!std::mem::replace(&mut tp.stopped, true))
    }

    pub(super) fn set_paused(&mut self, tps: &[TopicPartition], paused: bool) -> Result<(), LogError> {
        tps.iter().try_for_each(|at| self.check(*at))?;
        for at in tps {
            if let Some(tp) = self.tps.get_mut(at) {
                tp.paused = paused;
            }
        }
        Ok(())
    }

    /// Handles a received record: returned if deliverable now, queued if its partition is paused, dropped otherwise.
    pub(super) fn offer(&mut self, record: ConsumerRecord) -> Option<ConsumerRecord> {
        let tp = self.tps.get_mut(&record.tp)?;
        let next = tp.next.filter(|_| !tp.seeks && tp.going.is_none())?;
        if record.offset < next {
            return None;
        }
        tp.next = Some(record.offset + 1);
        if tp.paused || !tp.waiting.is_empty() {
            self.waiting_bytes += weight(&record);
            tp.waiting.push_back(record);
            return None;
        }
        Some(record)
    }

    /// Returns up to `most` queued records that are deliverable now.
    pub(super) fn resumed(&mut self, most: usize) -> Vec<ConsumerRecord> {
        let mut records = vec![];
        if self.waiting_bytes == 0 {
            return records;
        }
        for tp in self.tps.values_mut().filter(|tp| !tp.paused) {
            while records.len() < most
                && let Some(record) = tp.waiting.pop_front()
            {
                self.waiting_bytes -= weight(&record);
                records.push(record);
            }
        }
        records
    }

    /// Returns whether any queued record is deliverable now.
    pub(super) fn has_resumed(&self) -> bool {
        self.waiting_bytes > 0 && self.tps.values().any(|tp| !tp.paused && !tp.waiting.is_empty())
    }

    /// Returns the partitions to stop in librdkafka, if more than `most` bytes are queued.
    pub(super) fn stops(&mut self, most: usize) -> Vec<TopicPartition> {
        if self.waiting_bytes <= most {
            return vec![];
        }
        let running = self.tps.iter_mut().filter(|(_, tp)| tp.paused && !tp.stopped);
        running
            .map(|(at, tp)| {
                tp.stopped = true;
                *at
            })
            .collect()
    }

    /// Returns the partitions to resume in librdkafka.
    pub(super) fn runs(&mut self) -> Vec<TopicPartition> {
        let stopped = self.tps.iter_mut().filter(|(_, tp)| {
            tp.stopped && !tp.paused && tp.next.is_some() && !tp.seeks && tp.waiting.is_empty() && tp.going.is_none()
        });
        stopped
            .map(|(at, tp)| {
                tp.stopped = false;
                *at
            })
            .collect()
    }

    /// Returns the pending seeks.
    pub(super) fn seeks(&self) -> Vec<Seek> {
        let wanted = self.tps.iter().filter(|(_, tp)| tp.seeks && tp.going.is_none());
        wanted.filter_map(|(at, tp)| Some(Seek { tp: *at, from: tp.next? })).collect()
    }

    /// Marks a seek as done.
    pub(super) fn sought(&mut self, seek: Seek) {
        // A later start elsewhere has its own seek.
        if let Some(tp) = self.tps.get_mut(&seek.tp).filter(|tp| tp.next == Some(seek.from)) {
            tp.seeks = false;
        }
    }

    /// Returns the next offset of each started partition.
    pub(super) fn positions(&self) -> Vec<(TopicPartition, Offset)> {
        self.tps.iter().filter_map(|(at, tp)| Some((*at, tp.next?))).collect()
    }

    fn remove(&mut self, at: TopicPartition) -> bool {
        let Some(mut tp) = self.tps.remove(&at) else { return false };
        self.waiting_bytes -= clear(&mut tp.waiting);
        true
    }
}

fn weight(record: &ConsumerRecord) -> usize {
    record.bytes() + size_of::<ConsumerRecord>()
}

/// Clears a queue; returns the bytes it held.
fn clear(waiting: &mut VecDeque<ConsumerRecord>) -> usize {
    waiting.drain(..).map(|record| weight(&record)).sum()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use orbweaver_messages::topic;
    use proptest::prelude::*;

    use super::*;

    fn at(partition: u32) -> TopicPartition {
        TopicPartition::new(topic::PAGES, partition)
    }

    fn record(partition: u32, offset: Offset) -> ConsumerRecord {
        let value = Some(Bytes::from_static(b"value"));
        ConsumerRecord { tp: at(partition), offset, timestamp_ms: 1, key: None, value, headers: vec![] }
    }

    fn started(partition: u32, from: Offset) -> MemberPartitions {
        let mut held = MemberPartitions::default();
        held.assigned(&[at(partition)]);
        assert!(!held.start(at(partition), from).unwrap(), "it is stopped as it is assigned");
        let seeks = held.seeks();
        assert_eq!((seeks.len(), seeks[0].from), (1, from));
        held.sought(seeks[0]);
        assert_eq!(held.runs(), [at(partition)]);
        held
    }

    #[test]
    fn nothing_comes_before_a_start_is_through_nor_from_below_it() {
        let mut held = MemberPartitions::default();
        held.assigned(&[at(0)]);
        assert_eq!(held.offer(record(0, 0)), None, "the position of the assignment means nothing");
        held.start(at(0), 5).unwrap();
        assert_eq!(held.offer(record(0, 5)), None, "the seek is not through");
        let seek = held.seeks()[0];
        held.start(at(0), 7).unwrap();
        held.sought(seek);
        assert_eq!(held.offer(record(0, 5)), None, "a later start has a seek of its own");
        held.sought(held.seeks()[0]);
        assert_eq!(held.offer(record(0, 6)), None);
        assert_eq!(held.offer(record(0, 7)), Some(record(0, 7)));
        assert_eq!(held.offer(record(0, 7)), None, "nothing comes twice");
        assert_eq!(held.offer(record(1, 0)), None, "nor a record of another member");
    }

    #[test]
    fn what_is_wanted_back_goes_when_all_of_it_is_through() {
        let mut held = MemberPartitions::default();
        held.assigned(&[at(0), at(1), at(2)]);
        assert_eq!(held.revoked(&[at(0), at(1)]), [at(0), at(1)]);
        assert_eq!(held.revoked(&[at(1)]), [], "it is known already");
        assert!(matches!(held.start(at(1), 0), Err(LogError::NotAssigned(_))));
        held.check(at(1)).expect("commits are allowed until its release");
        assert_eq!(held.release(&[at(1), at(2)]), [], "partitions that are not revoked stay");
        assert_eq!(held.release(&[at(0)]), [at(0), at(1)]);
        assert!(held.check(at(0)).is_err() && held.check(at(2)).is_ok());
        assert_eq!(held.lost(&[at(0), at(2)]), [at(2)]);
        assert!(held.is_empty());
    }

    proptest! {
        /// For any order of pauses and resumes, each record is delivered once and in order, none while paused, and
        /// fetching stops when too much is queued.
        #[test]
        fn pausing_neither_loses_nor_repeats_nor_reorders(steps in proptest::collection::vec((0_u8..5, 1_u64..20), 1..80)) {
            const MOST: usize = 2_000;
            let mut held = started(0, 3);
            let (mut fetched, mut delivered, mut paused, mut running) = (3, vec![], false, true);
            for (what, count) in steps {
                match what {
                    0 => { held.set_paused(&[at(0)], true).unwrap(); paused = true; }
                    1 => { held.set_paused(&[at(0)], false).unwrap(); paused = false; }
                    2 => {
                        let resumed = held.resumed(count as usize);
                        prop_assert!(!paused || resumed.is_empty());
                        delivered.extend(resumed);
                    }
                    _ if running => for _ in 0..count {
                        let came = held.offer(record(0, fetched));
                        prop_assert!(!paused || came.is_none());
                        delivered.extend(came);
                        fetched += 1;
                    }
                    _ => {}
                }
                running &= held.stops(MOST).is_empty();
                running |= !held.runs().is_empty();
            }
            held.set_paused(&[at(0)], false).unwrap();
            delivered.extend(held.resumed(usize::MAX));
            prop_assert!(delivered.iter().map(|record| record.offset).eq(3..fetched));
            prop_assert_eq!(held.waiting_bytes, 0);
        }
    }
}
