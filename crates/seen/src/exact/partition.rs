//! Index of one partition of `crawl.seen`.

use std::{io, sync::Arc};

use orbweaver_messages::{SeenBatch, SeenEntry};
use orbweaver_url::Fingerprint;

use super::{
    ExactIndex,
    sstable::SsTable,
    table_set::{ImmutableMemtable, Table, TableSet},
};
use crate::{IndexCheckpoint, Lookups, SeenError, keyed::ByFingerprint};

/// Maximum number of entries acknowledged and not yet read back: 40 MB. They must not reach the disk before the log
/// delivers them, since a power failure could remove them from the log alone, and a URL that only the index knows is
/// lost.
const ACKNOWLEDGED_ENTRIES: usize = 1 << 20;

/// Filters and exact index of one partition.
///
/// An entry is first acknowledged, then read back from the log. Until then it stays only in memory, since it must not
/// move the checkpoint; afterwards it waits for the next write to disk, which includes the checkpoint.
#[derive(Debug)]
pub struct ExactPartition {
    partition: u32,
    index: ExactIndex,
    table_set: Arc<TableSet>,
    /// Tables of the set as of `version`.
    tables: Vec<Table>,
    version: u64,
    acknowledged: ByFingerprint<u16>,
    read_back: ByFingerprint<u16>,
    position: Option<IndexCheckpoint>,
    /// Whether the checkpoint has moved since it was last passed to the table set.
    moved: bool,
    /// Whether the record at the checkpoint has not been read again yet.
    unproven: bool,
    lookups: Lookups,
}

impl ExactPartition {
    /// Opens the index of a partition at its checkpoint, and builds its filters. The log must then be replayed from
    /// [`Self::position`], including that record, or else from its start; then call [`Self::serve`].
    pub fn open(index: &ExactIndex, partition: u32) -> Result<Self, SeenError> {
        let table_set = index.table_set(partition)?;
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
        })
    }

    /// Returns the last record that was read back.
    #[must_use]
    pub fn position(&self) -> Option<IndexCheckpoint> {
        self.position
    }

    /// Applies a record of the log, in log order. The first one must be the record at the checkpoint.
    ///
    /// # Errors
    /// When the disk fails; or when the index was built from another log, which discards the index.
    pub fn read_back(&mut self, at: IndexCheckpoint, batch: &SeenBatch) -> Result<(), SeenError> {
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

    /// Ends the restore: from now on "not found" is final.
    ///
    /// # Errors
    /// When the disk fails; or when the record at the checkpoint was not in the log, which discards the index.
    pub fn serve(&mut self) -> Result<(), SeenError> {
        if let (true, Some(position)) = (self.unproven, self.position) {
            return Err(self.foreign(position));
        }
        self.write()
    }

    /// Applies entries whose record is acknowledged at this offset. Does not move the checkpoint.
    pub fn acknowledge(&mut self, entries: &[SeenEntry], offset: u64) -> Result<(), SeenError> {
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

    /// Returns the depth at which this URL was admitted, if it was.
    pub fn depth_of(&mut self, fingerprint: Fingerprint) -> Result<Option<u16>, SeenError> {
        let known = self.known(fingerprint)?;
        self.lookups.count(known.is_some());
        Ok(known)
    }

    /// Writes the entries read back, with the resulting checkpoint, and waits until they are on disk.
    pub fn write(&mut self) -> Result<(), SeenError> {
        self.write_soon();
        self.table_set.settle()
    }

    /// Starts to write the entries read back; waits only if the disk is far behind. The next lookup reports a failure.
    pub fn write_soon(&mut self) {
        if std::mem::take(&mut self.moved) {
            let entries = std::mem::take(&mut self.read_back);
            self.table_set.add(ImmutableMemtable { entries, position: self.position });
            self.index.write(&self.table_set);
        }
    }

    /// Returns the lookup statistics so far.
    #[must_use]
    pub fn lookups(&self) -> Lookups {
        self.lookups
    }

    /// Returns the number of entries; an entry written again at a lesser depth counts twice until the next compaction.
    #[must_use]
    pub fn len(&self) -> usize {
        let tables = self.tables.iter().map(|table| match table {
            Table::ImmutableMemtable(frozen) => frozen.entries.len(),
            Table::SsTable(run) => run.len() as usize,
        });
        self.in_memory() + tables.sum::<usize>()
    }

    /// Returns the number of entries that are only in memory, which have no filter.
    #[must_use]
    pub fn in_memory(&self) -> usize {
        self.acknowledged.len() + self.read_back.len()
    }

    /// Returns `true` if no URL was ever admitted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory of the filters in bytes.
    #[must_use]
    pub fn filter_bytes(&self) -> u64 {
        self.runs().map(|run| run.filter_bytes()).sum()
    }

    /// Returns the number of SSTables on disk, each with its own filter.
    #[must_use]
    pub fn run_count(&self) -> usize {
        self.runs().count()
    }

    fn runs(&self) -> impl Iterator<Item = &SsTable> {
        self.tables.iter().filter_map(|table| if let Table::SsTable(run) = table { Some(&**run) } else { None })
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
        for table in self.tables.iter().rev() {
            match table {
                Table::ImmutableMemtable(frozen) => {
                    if let Some(depth) = frozen.entries.get(&fingerprint) {
                        return Ok(Some(*depth));
                    }
                }
                Table::SsTable(run) => {
                    let (depth, reads) = run.depth(fingerprint)?;
                    self.lookups.disk += reads;
                    self.lookups.false_positives += reads - u64::from(depth.is_some());
                    if depth.is_some() {
                        return Ok(depth);
                    }
                }
            }
        }
        Ok(None)
    }

    fn take_in(&mut self, entry: &SeenEntry) -> Result<(), SeenError> {
        if let Some(depth) = self.acknowledged.remove(&entry.fingerprint) {
            let depth = depth.min(entry.depth);
            let known = self.read_back.entry(entry.fingerprint).or_insert(depth);
            *known = depth.min(*known);
            return Ok(());
        }
        let known = match self.read_back.get(&entry.fingerprint) {
            Some(known) => Some(*known),
            None => self.depth_in_tables(entry.fingerprint)?,
        };
        if known.is_none_or(|known| known > entry.depth) {
            let known = self.read_back.entry(entry.fingerprint).or_insert(entry.depth);
            *known = entry.depth.min(*known);
        }
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

impl Drop for ExactPartition {
    fn drop(&mut self) {
        self.index.close(&self.table_set);
    }
}
