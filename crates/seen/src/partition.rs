//! What one partition of `crawl.seen` holds, indexed.

use std::{io, sync::Arc};

use orbweaver_messages::{SeenBatch, SeenEntry};
use orbweaver_url::Fingerprint;

use crate::{
    Lookups, Position, SeenError, SeenIndex, Verify,
    keyed::ByFingerprint,
    shelf::{Frozen, Shelf, Table},
};

/// Entries acknowledged and not yet read back, at most: 40 MB. They may not reach the disk before the log gives them back,
/// since a power failure could take them from the log alone, and a URL that only the index knows is lost.
const ACKNOWLEDGED_ENTRIES: usize = 1 << 20;

/// Filters and exact index of one partition.
///
/// An entry is acknowledged first, then read back from the log. Until it is read back it is kept in memory only, since it
/// must not move the position; then it waits for the next write to the disk, which takes the position along.
#[derive(Debug)]
pub struct SeenPartition {
    partition: u32,
    index: SeenIndex,
    shelf: Arc<Shelf>,
    /// The tables of the shelf as of `version`.
    tables: Vec<Table>,
    version: u64,
    acknowledged: ByFingerprint<u16>,
    read_back: ByFingerprint<u16>,
    position: Option<Position>,
    /// Whether the position moved since it was last given to the shelf.
    moved: bool,
    /// The record at the position has not been read again yet.
    unproven: bool,
    lookups: Lookups,
}

impl SeenPartition {
    /// Opens the index of a partition where it stands, and makes its filters. Replay the log from [`Self::position`] on,
    /// that record included, else from its start; then call [`Self::serve`].
    ///
    /// # Errors
    /// When the disk fails.
    pub fn open(index: &SeenIndex, partition: u32) -> Result<Self, SeenError> {
        let shelf = index.shelf(partition)?;
        let position = shelf.position();
        let (version, tables) = shelf.tables()?;
        Ok(Self {
            partition,
            index: index.clone(),
            shelf,
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
    /// When the disk fails; or when the record at the position was not in the log, which throws the index away.
    pub fn serve(&mut self) -> Result<(), SeenError> {
        if let (true, Some(position)) = (self.unproven, self.position) {
            return Err(self.foreign(position));
        }
        self.write()
    }

    /// Applies entries whose record is acknowledged, at this offset. Does not move the position.
    ///
    /// # Errors
    /// When the disk fails, or too many were not read back.
    pub fn acknowledge(&mut self, entries: &[SeenEntry], offset: u64) -> Result<(), SeenError> {
        if self.position.is_some_and(|position| offset <= position.offset) {
            // Read back before the acknowledgement was heard of: the index has them already.
            return Ok(());
        }
        for entry in entries {
            // Whoever else owned the partition may have let it through from nearer to a seed.
            if self.known(entry.fingerprint)?.is_none_or(|known| known > entry.depth) {
                self.acknowledged.insert(entry.fingerprint, entry.depth);
            }
        }
        if self.acknowledged.len() > ACKNOWLEDGED_ENTRIES {
            return Err(SeenError::Behind { partition: self.partition, entries: self.acknowledged.len() });
        }
        Ok(())
    }

    /// The depth at which this URL was let through, if it was. Where what the filters find is not verified, 0 stands for any.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn depth_of(&mut self, fingerprint: Fingerprint) -> Result<Option<u16>, SeenError> {
        let known = self.known(fingerprint)?;
        self.lookups.count(known.is_some());
        Ok(known)
    }

    /// Writes what was read back to the disk, with the position that it brings the index to, and waits until it is there.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn write(&mut self) -> Result<(), SeenError> {
        self.write_soon();
        self.shelf.settle()
    }

    /// Begins to write what was read back; waits only when the disk is far behind. A failure is told by the next look-up.
    pub fn write_soon(&mut self) {
        if std::mem::take(&mut self.moved) {
            let entries = std::mem::take(&mut self.read_back);
            self.shelf.add(Frozen { entries, position: self.position });
            self.index.write(&self.shelf);
        }
    }

    /// How its look-ups went so far.
    #[must_use]
    pub fn lookups(&self) -> Lookups {
        self.lookups
    }

    /// The number of entries; those that are written twice, as from nearer to a seed, count twice for a while.
    #[must_use]
    pub fn len(&self) -> usize {
        let tables = self.tables.iter().map(|table| match table {
            Table::Frozen(frozen) => frozen.entries.len(),
            Table::Run(run) => run.len() as usize,
        });
        self.in_memory() + tables.sum::<usize>()
    }

    /// Entries that are in memory alone, which have no filter.
    #[must_use]
    pub fn in_memory(&self) -> usize {
        self.acknowledged.len() + self.read_back.len()
    }

    /// Whether nothing was ever let through.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of the filters, in bytes.
    #[must_use]
    pub fn filter_bytes(&self) -> u64 {
        self.runs().map(|run| run.filter_bytes()).sum()
    }

    /// The number of runs on disk, each with a filter of its own.
    #[must_use]
    pub fn run_count(&self) -> usize {
        self.runs().count()
    }

    fn runs(&self) -> impl Iterator<Item = &crate::run::Run> {
        self.tables.iter().filter_map(|table| if let Table::Run(run) = table { Some(&**run) } else { None })
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
                // A run that was not kept open was merged into another one since the tables were looked at.
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.shelf.version() != self.version => {
                    self.refresh()?;
                }
                Err(error) => return Err(self.shelf.disk(&error)),
            }
        }
    }

    /// The younger a table, the less its depths: an entry that is known is taken in again only from nearer to a seed.
    fn search(&mut self, fingerprint: Fingerprint) -> io::Result<Option<u16>> {
        for table in self.tables.iter().rev() {
            match table {
                Table::Frozen(frozen) => {
                    if let Some(depth) = frozen.entries.get(&fingerprint) {
                        return Ok(Some(*depth));
                    }
                }
                Table::Run(run) if self.index.verify() == Verify::Never => {
                    if run.may_contain(fingerprint) {
                        self.lookups.unverified += 1;
                        return Ok(Some(0));
                    }
                }
                Table::Run(run) => {
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
        // What a filter only takes for known must be written all the same: another filter may be asked one day.
        let certain = self.index.verify() == Verify::OnDisk;
        if !certain || known.is_none_or(|known| known > entry.depth) {
            let known = self.read_back.entry(entry.fingerprint).or_insert(entry.depth);
            *known = entry.depth.min(*known);
        }
        Ok(())
    }

    /// Takes note of what was written and merged meanwhile.
    fn refresh(&mut self) -> Result<(), SeenError> {
        if self.shelf.version() != self.version {
            (self.version, self.tables) = self.shelf.tables()?;
        }
        Ok(())
    }

    fn foreign(&self, position: Position) -> SeenError {
        let foreign = SeenError::Foreign { partition: self.partition, offset: position.offset };
        self.shelf.close();
        self.index.discard(self.partition).err().unwrap_or(foreign)
    }
}

impl Drop for SeenPartition {
    fn drop(&mut self) {
        self.index.close(&self.shelf);
    }
}
