//! What a member of a group holds, and what becomes of a record that comes (pure).

use std::collections::{BTreeMap, VecDeque};

use crate::{Delivered, LogError, Offset, TopicPartition};

/// A partition in our hands.
#[derive(Debug, Default)]
struct Place {
    /// The lowest offset that may be delivered; `None` until it is started.
    next: Option<Offset>,
    /// A seek that is not through; a later start has a later number.
    seek: Option<u64>,
    /// Whether the caller wants nothing now.
    paused: bool,
    /// Whether librdkafka fetches nothing of it.
    stopped: bool,
    /// What came while it was paused.
    waiting: VecDeque<Delivered>,
    /// Wanted back, and whether we are through with it.
    going: Option<bool>,
}

/// All partitions of a member.
#[derive(Debug, Default)]
pub(super) struct Held {
    places: BTreeMap<TopicPartition, Place>,
    seeks: u64,
    /// Bytes of all records that wait.
    waiting_bytes: usize,
}

/// A seek that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seek {
    pub(super) place: TopicPartition,
    pub(super) from: Offset,
    pub(super) number: u64,
}

impl Held {
    /// These are ours, and stopped until they are started.
    pub(super) fn assigned(&mut self, places: &[TopicPartition]) {
        for place in places {
            self.remove(*place);
            self.places.insert(*place, Place { stopped: true, ..Place::default() });
        }
    }

    /// These are wanted back. Returns those that were not known to be.
    pub(super) fn revoked(&mut self, places: &[TopicPartition]) -> Vec<TopicPartition> {
        let mut revoked = vec![];
        for at in places {
            let Some(place) = self.places.get_mut(at).filter(|place| place.going.is_none()) else { continue };
            place.going = Some(false);
            self.waiting_bytes -= clear(&mut place.waiting);
            revoked.push(*at);
        }
        revoked
    }

    /// These are gone. Returns those that we held.
    pub(super) fn lost(&mut self, places: &[TopicPartition]) -> Vec<TopicPartition> {
        places.iter().copied().filter(|place| self.remove(*place)).collect()
    }

    /// We are through with these. Returns what may be given back now: all that was wanted, once we are through with all.
    pub(super) fn handed_back(&mut self, places: &[TopicPartition]) -> Vec<TopicPartition> {
        for at in places {
            if let Some(place) = self.places.get_mut(at)
                && place.going.is_some()
            {
                place.going = Some(true);
            }
        }
        let going = self.going();
        if going.iter().any(|at| self.places.get(at).is_some_and(|place| place.going == Some(false))) {
            return vec![];
        }
        self.lost(&going)
    }

    /// Those that are wanted back.
    pub(super) fn going(&self) -> Vec<TopicPartition> {
        self.places.iter().filter(|(_, place)| place.going.is_some()).map(|(at, _)| *at).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// # Errors
    /// When it is not ours.
    pub(super) fn check(&self, at: TopicPartition) -> Result<(), LogError> {
        if self.places.contains_key(&at) { Ok(()) } else { Err(LogError::NotAssigned(at)) }
    }

    /// Begins to deliver from `from` on. Returns whether librdkafka must stop it first.
    pub(super) fn start(&mut self, at: TopicPartition, from: Offset) -> Result<bool, LogError> {
        let place = self.places.get_mut(&at).filter(|place| place.going.is_none());
        let place = place.ok_or(LogError::NotAssigned(at))?;
        self.seeks += 1;
        self.waiting_bytes -= clear(&mut place.waiting);
        place.next = Some(from);
        place.seek = Some(self.seeks);
        Ok(!std::mem::replace(&mut place.stopped, true))
    }

    pub(super) fn set_paused(&mut self, places: &[TopicPartition], paused: bool) -> Result<(), LogError> {
        places.iter().try_for_each(|at| self.check(*at))?;
        for at in places {
            if let Some(place) = self.places.get_mut(at) {
                place.paused = paused;
            }
        }
        Ok(())
    }

    /// A record came: returned when it is to be delivered now, kept when its partition is paused, else dropped.
    pub(super) fn came(&mut self, record: Delivered) -> Option<Delivered> {
        let place = self.places.get_mut(&record.place)?;
        let next = place.next.filter(|_| place.seek.is_none() && place.going.is_none())?;
        if record.offset < next {
            return None;
        }
        place.next = Some(record.offset + 1);
        if place.paused || !place.waiting.is_empty() {
            self.waiting_bytes += weight(&record);
            place.waiting.push_back(record);
            return None;
        }
        Some(record)
    }

    /// Records that waited and may be delivered now.
    pub(super) fn resumed(&mut self, most: usize) -> Vec<Delivered> {
        let mut records = vec![];
        if self.waiting_bytes == 0 {
            return records;
        }
        for place in self.places.values_mut().filter(|place| !place.paused) {
            while records.len() < most
                && let Some(record) = place.waiting.pop_front()
            {
                self.waiting_bytes -= weight(&record);
                records.push(record);
            }
        }
        records
    }

    /// Whether a record waits that may be delivered now.
    pub(super) fn has_resumed(&self) -> bool {
        self.waiting_bytes > 0 && self.places.values().any(|place| !place.paused && !place.waiting.is_empty())
    }

    /// What librdkafka is to stop, since more than `most` bytes wait.
    pub(super) fn stops(&mut self, most: usize) -> Vec<TopicPartition> {
        if self.waiting_bytes <= most {
            return vec![];
        }
        let running = self.places.iter_mut().filter(|(_, place)| place.paused && !place.stopped);
        running
            .map(|(at, place)| {
                place.stopped = true;
                *at
            })
            .collect()
    }

    /// What librdkafka is to fetch again.
    pub(super) fn runs(&mut self) -> Vec<TopicPartition> {
        let stopped = self.places.iter_mut().filter(|(_, place)| {
            place.stopped
                && !place.paused
                && place.next.is_some()
                && place.seek.is_none()
                && place.waiting.is_empty()
                && place.going.is_none()
        });
        stopped
            .map(|(at, place)| {
                place.stopped = false;
                *at
            })
            .collect()
    }

    /// Seeks that are to be done.
    pub(super) fn seeks(&self) -> Vec<Seek> {
        let wanted = self.places.iter().filter(|(_, place)| place.going.is_none());
        wanted.filter_map(|(at, place)| Some(Seek { place: *at, from: place.next?, number: place.seek? })).collect()
    }

    /// A seek is through.
    pub(super) fn sought(&mut self, seek: Seek) {
        // A later start has a seek of its own.
        if let Some(place) = self.places.get_mut(&seek.place).filter(|place| place.seek == Some(seek.number)) {
            place.seek = None;
        }
    }

    /// Where each started partition goes on.
    pub(super) fn positions(&self) -> Vec<(TopicPartition, Offset)> {
        self.places.iter().filter_map(|(at, place)| Some((*at, place.next?))).collect()
    }

    fn remove(&mut self, at: TopicPartition) -> bool {
        let Some(mut place) = self.places.remove(&at) else { return false };
        self.waiting_bytes -= clear(&mut place.waiting);
        true
    }
}

fn weight(record: &Delivered) -> usize {
    record.bytes() + size_of::<Delivered>()
}

/// Empties a queue; returns the bytes that waited in it.
fn clear(waiting: &mut VecDeque<Delivered>) -> usize {
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

    fn record(partition: u32, offset: Offset) -> Delivered {
        let value = Some(Bytes::from_static(b"value"));
        Delivered { place: at(partition), offset, timestamp_ms: 1, key: None, value, headers: vec![] }
    }

    fn started(partition: u32, from: Offset) -> Held {
        let mut held = Held::default();
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
        let mut held = Held::default();
        held.assigned(&[at(0)]);
        assert_eq!(held.came(record(0, 0)), None, "the position of the assignment means nothing");
        held.start(at(0), 5).unwrap();
        assert_eq!(held.came(record(0, 5)), None, "the seek is not through");
        let seek = held.seeks()[0];
        held.start(at(0), 7).unwrap();
        held.sought(seek);
        assert_eq!(held.came(record(0, 5)), None, "a later start has a seek of its own");
        held.sought(held.seeks()[0]);
        assert_eq!(held.came(record(0, 6)), None);
        assert_eq!(held.came(record(0, 7)), Some(record(0, 7)));
        assert_eq!(held.came(record(0, 7)), None, "nothing comes twice");
        assert_eq!(held.came(record(1, 0)), None, "nor what is not ours");
    }

    #[test]
    fn what_is_wanted_back_goes_when_all_of_it_is_through() {
        let mut held = Held::default();
        held.assigned(&[at(0), at(1), at(2)]);
        assert_eq!(held.revoked(&[at(0), at(1)]), [at(0), at(1)]);
        assert_eq!(held.revoked(&[at(1)]), [], "it is known already");
        assert!(matches!(held.start(at(1), 0), Err(LogError::NotAssigned(_))));
        held.check(at(1)).expect("it may be committed for until it is handed back");
        assert_eq!(held.handed_back(&[at(1), at(2)]), [], "what is not wanted stays");
        assert_eq!(held.handed_back(&[at(0)]), [at(0), at(1)]);
        assert!(held.check(at(0)).is_err() && held.check(at(2)).is_ok());
        assert_eq!(held.lost(&[at(0), at(2)]), [at(2)]);
        assert!(held.is_empty());
    }

    proptest! {
        /// Whatever is paused and resumed in whatever order, each record is delivered once and in order, nothing while it
        /// is paused, and what waits is stopped when it is too much.
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
                        let came = held.came(record(0, fetched));
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
