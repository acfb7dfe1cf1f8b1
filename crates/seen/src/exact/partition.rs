//! Index of one partition of `crawl.seen`.

use std::{io, sync::Arc};

use orbweaver_index_files::OpenPartition;
use orbweaver_messages::{SeenBatch, SeenEntry};
use orbweaver_url::Fingerprint;

use super::{
    ExactIndex,
    table_set::{ImmutableMemtable, TableSet, Tables},
};
use crate::{IndexCheckpoint, IndexStats, Lookups, SeenError, SeenPartition, keyed::ByFingerprint};

/// Maximum number of entries acknowledged and not yet read back: 40 MB. They must not reach the disk before the log
/// delivers them, since a power failure could remove them from the log alone, and a URL that only the index knows is
/// lost.
const ACKNOWLEDGED_ENTRIES: usize = 1 << 20;

/// Filters and exact index of one partition.
///
/// An entry is first acknowledged, then read back from the log. Until then it stays only in memory, since it must not
/// move the checkpoint; afterwards it waits for the next write to disk, which includes the checkpoint.
#[derive(Debug)]
pub(crate) struct ExactPartition {
    partition: u32,
    index: ExactIndex,
    table_set: Arc<TableSet>,
    /// Tables of the set as of `version`.
    tables: Tables,
    version: u64,
    acknowledged: ByFingerprint<u16>,
    read_back: ByFingerprint<u16>,
    position: Option<IndexCheckpoint>,
    /// Whether the checkpoint has moved since it was last passed to the table set.
    moved: bool,
    /// Whether the record at the checkpoint has not been read again yet.
    unproven: bool,
    lookups: Lookups,
    _open: OpenPartition,
}

impl ExactPartition {
    /// Opens the index of a partition at its checkpoint, and builds its filters.
    pub(crate) fn open(index: &ExactIndex, partition: u32) -> Result<Self, SeenError> {
        let (table_set, open) = index.table_set(partition)?;
        let position = table_set.position();
        let (version, tables) = table_set.tables()?;
        Ok(Self {
            partition,
            index: index.clone(),
            table_set,
            tables,
            version,
            acknowledged: ByFingerprint::default(),
            read_back: ByFingerprint::default(),
            position,
            moved: false,
            unproven: position.is_some(),
            lookups: Lookups::default(),
            _open: open,
        })
    }

    fn known(&mut self, fingerprint: Fingerprint) -> Result<Option<u16>, SeenError> {
        let in_memory = |entries: &ByFingerprint<u16>| entries.get(&fingerprint).copied();
        match (in_memory(&self.acknowledged), in_memory(&self.read_back)) {
            (Some(one), Some(other)) => Ok(Some(one.min(other))),
            (Some(depth), None) | (None, Some(depth)) => Ok(Some(depth)),
            (None, None) => {
                self.refresh()?;
                self.depth_in_tables(fingerprint)
            }
        }
    }

    fn depth_in_tables(&mut self, fingerprint: Fingerprint) -> Result<Option<u16>, SeenError> {
        loop {
            match self.search(fingerprint) {
                Ok(depth) => return Ok(depth),
                // An SSTable that was not kept open was compacted into another one since the tables were loaded.
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.table_set.version() != self.version => {
                    self.refresh()?;
                }
                Err(error) => return Err(self.table_set.disk(&error)),
            }
        }
    }

    /// Searches from the newest table: newer tables have lesser depths, since a known entry is added again only at a
    /// lesser depth.
    fn search(&mut self, fingerprint: Fingerprint) -> io::Result<Option<u16>> {
        if let Some(depth) = self.tables.frozen.iter().rev().find_map(|frozen| frozen.entries.get(&fingerprint)) {
            return Ok(Some(*depth));
        }
        for run in self.tables.runs.iter().rev() {
            let (depth, reads) = run.depth(fingerprint)?;
            self.lookups.disk += reads;
            self.lookups.false_positives += reads - u64::from(depth.is_some());
            if depth.is_some() {
                return Ok(depth);
            }
        }
        Ok(None)
    }

    fn take_in(&mut self, entry: &SeenEntry) -> Result<(), SeenError> {
        let SeenEntry { fingerprint, mut depth, .. } = *entry;
        if let Some(acknowledged) = self.acknowledged.remove(&fingerprint) {
            depth = depth.min(acknowledged);
        } else if !self.read_back.contains_key(&fingerprint)
            && self.depth_in_tables(fingerprint)?.is_some_and(|known| known <= depth)
        {
            return Ok(());
        }
        let known = self.read_back.entry(fingerprint).or_insert(depth);
        *known = depth.min(*known);
        Ok(())
    }

    /// Loads the tables if they were written or compacted in the meantime.
    fn refresh(&mut self) -> Result<(), SeenError> {
        if self.table_set.version() != self.version {
            (self.version, self.tables) = self.table_set.tables()?;
        }
        Ok(())
    }

    fn foreign(&self, position: IndexCheckpoint) -> SeenError {
        let foreign = SeenError::Foreign { partition: self.partition, offset: position.offset };
        self.table_set.close();
        self.index.discard(self.partition).err().unwrap_or(foreign)
    }
}

impl SeenPartition for ExactPartition {
    fn position(&self) -> Option<IndexCheckpoint> {
        self.position
    }

    fn read_back(&mut self, at: IndexCheckpoint, batch: &SeenBatch) -> Result<(), SeenError> {
        if let Some(known) = self.position {
            if std::mem::take(&mut self.unproven) && at != known {
                return Err(self.foreign(known));
            }
            if at.offset <= known.offset {
                return Ok(());
            }
        }
        self.refresh()?;
        for entry in &batch.entries {
            self.take_in(entry)?;
        }
        self.position = Some(at);
        self.moved = true;
        if self.read_back.len() >= self.index.gathered_of_one() {
            self.write_soon();
        }
        Ok(())
    }

    fn serve(&mut self) -> Result<(), SeenError> {
        if let (true, Some(position)) = (self.unproven, self.position) {
            return Err(self.foreign(position));
        }
        self.write()
    }

    fn acknowledge(&mut self, entries: &[SeenEntry], offset: u64) -> Result<(), SeenError> {
        if self.position.is_some_and(|position| offset <= position.offset) {
            // Read back before the acknowledgement arrived: the index already has the entries.
            return Ok(());
        }
        for entry in entries {
            // Another owner of the partition may have admitted it at a lesser depth.
            if self.known(entry.fingerprint)?.is_none_or(|known| known > entry.depth) {
                self.acknowledged.insert(entry.fingerprint, entry.depth);
            }
        }
        if self.acknowledged.len() > ACKNOWLEDGED_ENTRIES {
            return Err(SeenError::Behind { partition: self.partition, entries: self.acknowledged.len() });
        }
        Ok(())
    }

    fn depth_of(&mut self, fingerprint: Fingerprint) -> Result<Option<u16>, SeenError> {
        let known = self.known(fingerprint)?;
        self.lookups.count(known.is_some());
        Ok(known)
    }

    fn write(&mut self) -> Result<(), SeenError> {
        self.write_soon();
        self.table_set.settle()
    }

    fn write_soon(&mut self) {
        if std::mem::take(&mut self.moved) {
            let entries = std::mem::take(&mut self.read_back);
            self.table_set.add(ImmutableMemtable { entries, position: self.position });
            self.index.write(&self.table_set);
        }
    }

    fn stats(&self) -> IndexStats {
        let in_memory = (self.acknowledged.len() + self.read_back.len()) as u64;
        let Tables { runs, frozen } = &self.tables;
        let frozen: usize = frozen.iter().map(|frozen| frozen.entries.len()).sum();
        IndexStats {
            lookups: self.lookups,
            entries: in_memory + frozen as u64 + runs.iter().map(|run| run.len()).sum::<u64>(),
            in_memory,
            filter_bytes: runs.iter().map(|run| run.filter_bytes()).sum(),
            tables: runs.len() as u64,
        }
    }
}

impl Drop for ExactPartition {
    fn drop(&mut self) {
        self.table_set.close();
    }
}
