//! What one partition of `crawl.seen` holds, indexed.

use std::collections::HashMap;

use orbweaver_messages::{SeenBatch, SeenEntry};
use orbweaver_url::Fingerprint;

use crate::{Filter, Position, SeenError, SeenIndex};

/// Entries read back that are gathered for one write to the disk.
const WRITE_ENTRIES: usize = 4096;
/// Records without any new entry after which the position is written all the same.
const WRITE_RECORDS: u32 = 1024;
/// Entries acknowledged and not yet read back that are kept in memory; beyond, the reader is slow and they are written.
const ACKNOWLEDGED_ENTRIES: usize = 65_536;

/// Filter and exact index of one partition.
///
/// An entry is acknowledged first, then read back from the log. Until it is read back it is kept in memory only, since it
/// must not move the position; then it waits for the next write to the disk, which takes the position along.
#[derive(Debug)]
pub struct SeenPartition {
    partition: u32,
    index: SeenIndex,
    filter: Filter,
    acknowledged: HashMap<Fingerprint, u16>,
    read_back: HashMap<Fingerprint, u16>,
    position: Option<Position>,
    records_unwritten: u32,
    /// The record at the position has not been read again yet.
    unproven: bool,
    disk_lookups: u64,
}

impl SeenPartition {
    /// Opens the index of a partition where it stands, and fills the filter from it. Entries without a position prove
    /// nothing and are thrown away. Replay the log from [`Self::position`] on, that record included, else from its start;
    /// then call [`Self::serve`].
    ///
    /// # Errors
    /// When the disk fails.
    pub fn open(index: &SeenIndex, partition: u32) -> Result<Self, SeenError> {
        let position = index.position(partition)?;
        if position.is_none() {
            index.discard(partition)?;
        }
        let mut opened = Self {
            partition,
            index: index.clone(),
            filter: Filter::sized_for(0),
            acknowledged: HashMap::new(),
            read_back: HashMap::new(),
            position,
            records_unwritten: 0,
            unproven: position.is_some(),
            disk_lookups: 0,
        };
        if position.is_some() {
            opened.fill_filter()?;
        }
        Ok(opened)
    }

    /// The last record that was read back.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Applies a record of the log, in the order of the log. The first one must be the record at the position.
    ///
    /// # Errors
    /// When the disk fails; or when the log is not the one that the index was made from, which throws the index away.
    pub fn read_back(&mut self, at: Position, batch: &SeenBatch) -> Result<(), SeenError> {
        if let Some(known) = self.position {
            if std::mem::take(&mut self.unproven) && at != known {
                self.index.discard(self.partition)?;
                return Err(SeenError::Foreign { partition: self.partition, offset: known.offset });
            }
            if at.offset <= known.offset {
                return Ok(());
            }
        }
        for entry in &batch.entries {
            self.take_in(entry)?;
        }
        self.position = Some(at);
        self.records_unwritten += 1;
        if self.read_back.len() >= WRITE_ENTRIES || self.records_unwritten >= WRITE_RECORDS {
            self.write()?;
        }
        Ok(())
    }

    /// Ends the restore: from now on the filter is complete, and sized for what the partition holds.
    ///
    /// # Errors
    /// When the disk fails; or when the record at the position was not in the log, which throws the index away.
    pub fn serve(&mut self) -> Result<(), SeenError> {
        if let (true, Some(position)) = (self.unproven, self.position) {
            self.index.discard(self.partition)?;
            return Err(SeenError::Foreign { partition: self.partition, offset: position.offset });
        }
        self.write()?;
        if self.filter.is_outgrown() { self.fill_filter() } else { Ok(()) }
    }

    /// Applies entries whose record is acknowledged. Does not move the position.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn acknowledge(&mut self, entries: &[SeenEntry]) -> Result<(), SeenError> {
        for entry in entries {
            // Read back before the acknowledgement was heard of: the index has it already.
            if self.depth_of(entry.fingerprint)?.is_some_and(|known| known <= entry.depth) {
                continue;
            }
            self.filter.insert(entry.fingerprint);
            self.acknowledged.insert(entry.fingerprint, entry.depth);
        }
        if self.acknowledged.len() > ACKNOWLEDGED_ENTRIES {
            self.index.write(self.partition, self.acknowledged.drain(), None)?;
        }
        Ok(())
    }

    /// The depth at which this URL was let through, if it was.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn depth_of(&mut self, fingerprint: Fingerprint) -> Result<Option<u16>, SeenError> {
        if !self.filter.may_contain(fingerprint) {
            return Ok(None);
        }
        let in_memory = |entries: &HashMap<Fingerprint, u16>| entries.get(&fingerprint).copied();
        match (in_memory(&self.acknowledged), in_memory(&self.read_back)) {
            (Some(one), Some(other)) => Ok(Some(one.min(other))),
            (Some(depth), None) | (None, Some(depth)) => Ok(Some(depth)),
            (None, None) => {
                self.disk_lookups += 1;
                self.index.depth(self.partition, fingerprint)
            }
        }
    }

    /// Writes what was read back to the disk, with the position that it brings the index to.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn write(&mut self) -> Result<(), SeenError> {
        if self.records_unwritten > 0 {
            self.index.write(self.partition, self.read_back.drain(), self.position)?;
            self.records_unwritten = 0;
        }
        Ok(())
    }

    /// How often the disk was asked so far.
    #[must_use]
    pub fn disk_lookups(&self) -> u64 {
        self.disk_lookups
    }

    /// The number of entries, as far as the filter can tell.
    #[must_use]
    pub fn len(&self) -> usize {
        self.filter.len()
    }

    /// Whether nothing was ever let through.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.filter.is_empty()
    }

    fn take_in(&mut self, entry: &SeenEntry) -> Result<(), SeenError> {
        if self.filter.may_contain(entry.fingerprint) {
            if let Some(depth) = self.acknowledged.remove(&entry.fingerprint) {
                let depth = depth.min(entry.depth);
                self.read_back.entry(entry.fingerprint).and_modify(|known| *known = depth.min(*known)).or_insert(depth);
                return Ok(());
            }
            if self.depth_of(entry.fingerprint)?.is_some_and(|known| known <= entry.depth) {
                return Ok(());
            }
        }
        self.filter.insert(entry.fingerprint);
        self.read_back.insert(entry.fingerprint, entry.depth);
        Ok(())
    }

    /// Builds the filter anew from all that is held, sized for it.
    fn fill_filter(&mut self) -> Result<(), SeenError> {
        let mut count = 0;
        self.index.scan(self.partition, |_| count += 1)?;
        let in_memory = || self.acknowledged.keys().chain(self.read_back.keys());
        let mut filter = Filter::sized_for(count + in_memory().count());
        self.index.scan(self.partition, |fingerprint| filter.insert(fingerprint))?;
        in_memory().for_each(|fingerprint| filter.insert(*fingerprint));
        self.filter = filter;
        Ok(())
    }
}
