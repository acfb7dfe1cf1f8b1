//! Index in memory, for tests and simulations, and where a restart may replay all queued URLs.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
};

use orbweaver_log::Offset;
use orbweaver_messages::{FrontierUrl, Millis};
use orbweaver_stage::IndexCheckpoint;
use orbweaver_url::Fingerprint;

use super::{END_RANK, Index, IndexEntry, IndexError, QueueKey, Rank};

#[derive(Debug, Clone, Default)]
pub struct MemoryIndex {
    entries: HashMap<Fingerprint, IndexEntry>,
    records: HashMap<Offset, Box<FrontierUrl>>,
    /// Entries in the order of [`key`].
    orders: BTreeMap<(Millis, QueueKey, Rank), (Fingerprint, IndexEntry)>,
    outdated: BTreeMap<Fingerprint, Offset>,
    position: Option<IndexCheckpoint>,
}

/// Returns the key of a queued entry by site and rank, or of a delayed one by time and offset.
fn key(entry: &IndexEntry) -> (Millis, QueueKey, Rank) {
    if entry.is_delayed() {
        return (entry.not_before_ms, QueueKey(0), (0, entry.offset));
    }
    (0, entry.site, entry.rank())
}

impl MemoryIndex {
    fn take_out(&mut self, entry: &IndexEntry) {
        self.orders.remove(&key(entry));
    }

    fn put_in(&mut self, fingerprint: Fingerprint, entry: IndexEntry) {
        self.entries.insert(fingerprint, entry);
        self.orders.insert(key(&entry), (fingerprint, entry));
    }
}

impl Index for MemoryIndex {
    fn offset(&mut self, fingerprint: Fingerprint) -> Result<Option<Offset>, IndexError> {
        Ok(self.entries.get(&fingerprint).map(|entry| entry.offset))
    }

    fn entry(&mut self, fingerprint: Fingerprint) -> Result<Option<IndexEntry>, IndexError> {
        Ok(self.entries.get(&fingerprint).copied())
    }

    fn waiting(&mut self, offset: Offset) -> Result<Box<FrontierUrl>, IndexError> {
        let damaged =
            || IndexError::Damaged { path: "memory".to_owned(), reason: format!("no record, offset {offset}") };
        self.records.get(&offset).cloned().ok_or_else(damaged)
    }

    fn replace(&mut self, fingerprint: Fingerprint, old: Option<IndexEntry>, new: Option<(IndexEntry, &FrontierUrl)>) {
        if let Some(old) = old {
            self.take_out(&old);
            self.records.remove(&old.offset);
            self.entries.remove(&fingerprint);
        }
        if let Some((entry, waiting)) = new {
            self.put_in(fingerprint, entry);
            self.records.insert(entry.offset, Box::new(waiting.clone()));
        }
    }

    fn make_due(&mut self, fingerprint: Fingerprint, entry: IndexEntry) {
        self.take_out(&entry);
        self.put_in(fingerprint, entry.queued());
    }

    fn queued(&mut self, queues: &[(QueueKey, Rank)], most: usize) -> Result<Vec<Vec<Rank>>, IndexError> {
        let behind = |(site, from)| self.orders.range((0, site, from)..=(0, site, END_RANK)).take(most);
        Ok(queues.iter().map(|queue| behind(*queue).map(|((_, _, rank), _)| *rank).collect()).collect())
    }

    fn delayed(
        &mut self,
        after: Option<IndexEntry>,
        until_ms: Millis,
        most: usize,
    ) -> Result<Vec<(Fingerprint, IndexEntry)>, IndexError> {
        let end = |at_ms| (at_ms, QueueKey(u64::MAX), END_RANK);
        let after = after.map_or(end(0), |after| key(&after));
        if until_ms < after.0 {
            return Ok(vec![]);
        }
        let delayed = self.orders.range((Bound::Excluded(after), Bound::Included(end(until_ms))));
        Ok(delayed.take(most).map(|(_, delayed)| *delayed).collect())
    }

    fn each(&mut self, each: &mut dyn FnMut(IndexEntry)) -> Result<(), IndexError> {
        self.orders.values().for_each(|(_, entry)| each(*entry));
        Ok(())
    }

    fn mark(&mut self, fingerprint: Fingerprint, since: Option<Offset>) {
        match since {
            Some(since) => {
                self.outdated.entry(fingerprint).or_insert(since);
            }
            None => {
                self.outdated.remove(&fingerprint);
            }
        }
    }

    fn outdated(&self) -> &BTreeMap<Fingerprint, Offset> {
        &self.outdated
    }

    fn applied(&mut self, position: IndexCheckpoint) -> Result<(), IndexError> {
        self.position = Some(position);
        Ok(())
    }

    fn position(&self) -> Option<IndexCheckpoint> {
        self.position
    }

    fn write(&mut self) -> Result<(), IndexError> {
        Ok(())
    }
}
