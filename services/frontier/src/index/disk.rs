//! Index on local disk: one directory for each partition, so that memory does not grow with the number of queued URLs but by
//! some bits for each.
//!
//! Keys are collected in memory and written as a table, after the records that they belong to; a URL that ends before is never
//! written. Tables never change: whether a key still is that of a URL in its order is in the states, which are
//! kept in memory, and written with the checkpoint. Tables are merged in the background, without the keys of ended URLs.
//!
//! Nothing is synced: every file shows whether it is complete, and a damaged index is discarded, since the log has the rest. A
//! record that a power failure took is found damaged when it is read.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use foldhash::HashMap;
use orbweaver_index_files::{IndexFilesError, OpenPartition};
use orbweaver_log::Offset;
use orbweaver_messages::{FrontierUrl, Millis};
use orbweaver_stage::IndexCheckpoint;
use orbweaver_url::Fingerprint;

use super::{
    END_RANK, Index, IndexEntry, IndexError, QueueKey, Rank,
    checkpoint::{self, Checkpoint},
    filters::Filters,
    keys::{
        DelayedBytes, Order, QueuedBytes, delayed_from, delayed_key, queued_from, queued_key, read_delayed,
        read_queued, read_queued_rank, read_url, url_key,
    },
    merge::{Merge, MergedKeys, first_to_merge},
    records::Records,
    states::States,
    store::FrontierIndex,
    table::{self, Cursor, Table, TableWriter},
};

/// Number of keys that are merged per record of the log, at least; a merge ends within this number of writes.
const MERGED_PER_RECORD: u64 = 16;
const WRITES_PER_MERGE: u64 = 8;
/// Bounds of the number of keys per call.
const MERGE_STEP: (u64, u64) = if cfg!(test) { (1, 8) } else { (1024, 65_536) };
/// Number of tables at which a merge is completed at once.
const MOST_TABLES: usize = if cfg!(test) { 6 } else { 24 };

/// Index of one partition on disk.
#[derive(Debug)]
pub struct DiskIndex {
    index: FrontierIndex,
    dir: PathBuf,
    records: Records,
    states: States,
    /// Oldest first.
    tables: Vec<Arc<Table>>,
    next_table: u64,
    merge: Option<Merge>,
    /// Offsets of URLs since the last write, of ended ones as well.
    urls: HashMap<Fingerprint, Offset>,
    /// Keys since the last write.
    queued: BTreeSet<QueuedBytes>,
    delayed: BTreeSet<DelayedBytes>,
    /// Filters of all URLs.
    filters: Filters,
    /// The marked URLs.
    outdated: BTreeMap<Fingerprint, Offset>,
    /// No delayed URL is due before this time: a scan from the start would pass all keys of those that were.
    delayed_from_ms: Millis,
    position: Option<IndexCheckpoint>,
    /// Whether anything has changed since the last write.
    changed: bool,
    _open: OpenPartition,
}

impl DiskIndex {
    /// Opens the index in this directory at its checkpoint. Damage is an error like those of [`Table::open`].
    pub(super) fn open(index: &FrontierIndex, dir: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let checkpoint = Checkpoint::read(dir)?;
        let tables = checkpoint.iter().flat_map(|checkpoint| &checkpoint.tables);
        let tables: Vec<_> =
            tables.map(|number| Ok(Arc::new(Table::open(dir, *number)?))).collect::<io::Result<_>>()?;
        for entry in std::fs::read_dir(dir)? {
            if let Some(number) = entry?.file_name().to_str().and_then(table::number_of)
                && !tables.iter().any(|table| table.number == number)
            {
                Table::delete(dir, number)?;
            }
        }
        let next_table = tables.iter().map(|table| table.number + 1).max().unwrap_or_default();
        let position = checkpoint.as_ref().map(|checkpoint| checkpoint.position);
        let (outdated, states) =
            checkpoint.map(|checkpoint| (checkpoint.outdated, checkpoint.states)).unwrap_or_default();
        let mut filters = Filters::with_room(states.len());
        for table in &tables {
            table.each(Order::Urls, read_url, |(fingerprint, offset)| {
                if states.is_live(offset) {
                    filters.add(fingerprint, offset);
                }
            })?;
        }
        let records = dir.join("records");
        if position.is_none() {
            Records::discard(&records)?;
        }
        Ok(Self {
            index: index.clone(),
            records: Records::open(records)?,
            dir: dir.to_owned(),
            states,
            tables,
            next_table,
            merge: None,
            urls: HashMap::default(),
            queued: BTreeSet::new(),
            delayed: BTreeSet::new(),
            filters,
            outdated,
            delayed_from_ms: 0,
            position,
            changed: false,
            _open: index.count_open(),
        })
    }

    fn failed(&self, error: &io::Error) -> IndexError {
        IndexFilesError::disk(&self.dir, error).into()
    }

    fn damaged(&self, reason: String) -> IndexError {
        IndexError::Damaged { path: self.dir.display().to_string(), reason }
    }

    fn find(&self, fingerprint: Fingerprint) -> io::Result<Option<Offset>> {
        let live = |offset: &Offset| self.states.is_live(*offset);
        if let Some(offset) = self.urls.get(&fingerprint) {
            return Ok(Some(*offset).filter(live));
        }
        if !self.filters.may_contain(fingerprint) {
            return Ok(None);
        }
        for table in self.tables.iter().rev() {
            let mut cursor = table.seek(Order::Urls, &fingerprint.0)?;
            while let Some((_, offset)) = cursor.key().and_then(read_url).filter(|(url, _)| *url == fingerprint) {
                if live(&offset) {
                    return Ok(Some(offset));
                }
                cursor.advance()?;
            }
        }
        Ok(None)
    }

    fn add_key(&mut self, fingerprint: Fingerprint, entry: &IndexEntry) {
        if entry.is_delayed() {
            self.delayed.insert(delayed_key(fingerprint, entry));
            self.delayed_from_ms = self.delayed_from_ms.min(entry.not_before_ms);
        } else {
            self.queued.insert(queued_key(entry));
        }
    }

    /// Removes a key that is not written yet.
    fn remove_key(&mut self, fingerprint: Fingerprint, entry: &IndexEntry) {
        if entry.is_delayed() {
            self.delayed.remove(&delayed_key(fingerprint, entry));
        } else {
            self.queued.remove(&queued_key(entry));
        }
    }

    fn try_queued(&self, queues: &[(QueueKey, Rank)], most: usize) -> io::Result<Vec<Vec<Rank>>> {
        let in_memory = |(site, from): &(QueueKey, Rank)| {
            let keys = self.queued.range(first_of(&queued_from(*site, *from))..).map_while(|key| read_queued_rank(key));
            let ranks = keys.take_while(|(of, _)| of == site).map(|(_, rank)| rank);
            ranks.filter(|rank| self.states.is_queued(*rank)).take(most).collect()
        };
        let mut found: Vec<Vec<Rank>> = queues.iter().map(in_memory).collect();
        for table in &self.tables {
            let mut cursor = Cursor::new(table, Order::Queued);
            for (queue, found) in queues.iter().zip(&mut found) {
                self.add_queued(&mut cursor, *queue, most, found)?;
            }
        }
        Ok(found)
    }

    /// Adds the ranks of a queue in a table, as far as they are among the first `most`.
    fn add_queued(
        &self,
        cursor: &mut Cursor,
        (site, from): (QueueKey, Rank),
        most: usize,
        found: &mut Vec<Rank>,
    ) -> io::Result<()> {
        // The oldest table is the largest: its ranks bound what the others can add.
        let last = if found.len() < most { END_RANK } else { found.last().copied().unwrap_or_default() };
        let before = found.len();
        cursor.seek(&queued_from(site, from))?;
        while found.len() - before < most
            && let Some((of, rank)) = cursor.key().and_then(read_queued_rank)
            && of == site
            && rank < last
        {
            if self.states.is_queued(rank) {
                found.push(rank);
            }
            cursor.advance()?;
        }
        if before > 0 && found.len() > before {
            found.sort_unstable();
            found.dedup();
            found.truncate(most);
        }
        Ok(())
    }

    /// Returns the delayed URLs of each table, the first `most` from a key on until a time; not sorted.
    fn delayed_on_disk(
        &self,
        from: &[u8],
        until_ms: Millis,
        most: usize,
    ) -> io::Result<Vec<(Fingerprint, IndexEntry)>> {
        let mut found = vec![];
        for table in &self.tables {
            let (mut cursor, start) = (table.seek(Order::Delayed, from)?, found.len());
            while found.len() - start < most
                && let Some(delayed) = cursor.key().and_then(read_delayed)
                && delayed.1.not_before_ms <= until_ms
            {
                if self.states.is_current(&delayed.1) {
                    found.push(delayed);
                }
                cursor.advance()?;
            }
        }
        Ok(found)
    }

    /// Continues a merge by some of its keys.
    fn merge(&mut self, records: u64) -> io::Result<()> {
        let changes = self.most_changes() as u64;
        let Some(merge) = &mut self.merge else { return Ok(()) };
        let per_record = MERGED_PER_RECORD.max(merge.all_keys() / (WRITES_PER_MERGE * changes));
        let keys = records.saturating_mul(per_record).clamp(MERGE_STEP.0, MERGE_STEP.1);
        merge.step(keys as usize, &self.states).map(|_| ())
    }

    /// Returns the number of changed URLs at which they are written. The states are written as a whole: with more URLs,
    /// more rarely.
    fn most_changes(&self) -> usize {
        self.index.room().0.max(self.states.len() / 256)
    }

    fn is_full(&self) -> bool {
        let bytes = self.index.room().1;
        let keys = self.urls.len().max(self.queued.len() + self.delayed.len());
        keys >= self.most_changes() || self.records.pending_bytes() >= bytes.max(self.states.len() / 2)
    }

    /// Writes the keys that are in memory as a table, if there are any.
    fn write_table(&mut self) -> io::Result<()> {
        let mut urls: Vec<_> = self.urls.iter().filter(|(_, offset)| self.states.is_live(**offset)).collect();
        if urls.is_empty() && self.queued.is_empty() && self.delayed.is_empty() {
            return Ok(());
        }
        urls.sort_unstable();
        let mut writer = TableWriter::create(&self.dir, self.next_table)?;
        urls.iter().try_for_each(|(url, offset)| writer.push(Order::Urls, &url_key(**url, **offset)))?;
        self.queued.iter().try_for_each(|key| writer.push(Order::Queued, key))?;
        self.delayed.iter().try_for_each(|key| writer.push(Order::Delayed, key))?;
        self.tables.push(Arc::new(writer.finish()?));
        self.next_table += 1;
        Ok(())
    }

    /// Puts a merged table in the place of the tables that it was merged from, and returns these.
    fn end_merge(&mut self) -> io::Result<Vec<Arc<Table>>> {
        let Some(merge) = self.merge.take() else { return Ok(vec![]) };
        let (merged, old) = merge.finish()?;
        let start = self.tables.iter().position(|table| old.first().is_some_and(|first| Arc::ptr_eq(table, first)));
        let start = start.unwrap_or_default();
        self.tables.splice(start..start + old.len(), [Arc::new(merged)]);
        Ok(old)
    }

    fn try_write(&mut self, position: IndexCheckpoint) -> io::Result<()> {
        // Written first: an entry always has its record.
        self.records.write()?;
        let is_merged = match &mut self.merge {
            Some(merge) if self.tables.len() >= MOST_TABLES => merge.step(usize::MAX, &self.states)?,
            Some(merge) => merge.step(0, &self.states)?,
            None => false,
        };
        // With the states that it was merged by, or later ones: the keys that it lacks must not come back.
        let merged = if is_merged { self.end_merge()? } else { vec![] };
        self.write_table()?;
        let numbers: Vec<u64> = self.tables.iter().map(|table| table.number).collect();
        checkpoint::write(&self.dir, position, &numbers, &self.outdated, &self.states)?;
        (self.urls, self.queued, self.delayed) = Default::default();
        merged.iter().try_for_each(|table| Table::delete(&self.dir, table.number))?;
        self.records.delete_ended(&self.states)?;
        if let Some(first) = self.states.first() {
            self.filters.drop_below(first);
        }
        if self.merge.is_none()
            && let Some(first) = first_to_merge(&self.tables, &self.states)
        {
            let keys: u64 = self.tables.iter().map(|table| table.keys(Order::Urls)).sum();
            // A look at the state of each key takes as long as the rest of a merge.
            let drops = keys > self.states.len() as u64 / 8 * 9;
            self.merge = Some(Merge::start(self.tables[first..].to_vec(), &self.dir, self.next_table, drops)?);
            self.next_table += 1;
        }
        Ok(())
    }

    fn try_each(&self, each: &mut dyn FnMut(IndexEntry)) -> io::Result<()> {
        let mut pass = |entry: Option<IndexEntry>| {
            entry.filter(|entry| self.states.is_current(entry)).into_iter().for_each(&mut *each);
            Ok(())
        };
        let mut queued = MergedKeys::of(&self.tables, Order::Queued)?;
        while queued.next(|key| pass(read_queued(key)))? {}
        let mut delayed = MergedKeys::of(&self.tables, Order::Delayed)?;
        while delayed.next(|key| pass(read_delayed(key).map(|(_, entry)| entry)))? {}
        Ok(())
    }
}

impl Index for DiskIndex {
    fn offset(&mut self, fingerprint: Fingerprint) -> Result<Option<Offset>, IndexError> {
        self.find(fingerprint).map_err(|error| self.failed(&error))
    }

    fn entry(&mut self, fingerprint: Fingerprint) -> Result<Option<IndexEntry>, IndexError> {
        let Some(offset) = self.offset(fingerprint)? else { return Ok(None) };
        let waiting = self.waiting(offset)?;
        Ok(Some(self.states.entry(&waiting, offset)))
    }

    fn waiting(&mut self, offset: Offset) -> Result<Box<FrontierUrl>, IndexError> {
        let read = self.records.read(offset).map_err(|error| self.failed(&error))?;
        read.ok_or_else(|| self.damaged(format!("missing or invalid record, offset {offset}")))
    }

    fn replace(&mut self, fingerprint: Fingerprint, old: Option<IndexEntry>, new: Option<(IndexEntry, &FrontierUrl)>) {
        self.changed = true;
        if let Some(old) = old {
            self.remove_key(fingerprint, &old);
            self.states.remove(old.offset);
        }
        // The entry of a demoted URL changes, and its record does not.
        let is_same = old.map(|old| old.offset) == new.map(|(new, _)| new.offset);
        if let Some(old) = old.filter(|_| !is_same) {
            self.records.drop_pending(old.offset);
            self.urls.insert(fingerprint, old.offset);
        }
        let Some((entry, waiting)) = new else { return };
        self.states.set(&entry);
        self.add_key(fingerprint, &entry);
        if !is_same {
            self.records.add(entry.offset, waiting);
            self.urls.insert(fingerprint, entry.offset);
            self.filters.add(fingerprint, entry.offset);
        }
    }

    fn make_due(&mut self, fingerprint: Fingerprint, entry: IndexEntry) {
        self.changed = true;
        self.remove_key(fingerprint, &entry);
        self.states.set(&entry.queued());
        self.add_key(fingerprint, &entry.queued());
    }

    fn queued(&mut self, queues: &[(QueueKey, Rank)], most: usize) -> Result<Vec<Vec<Rank>>, IndexError> {
        self.try_queued(queues, most).map_err(|error| self.failed(&error))
    }

    fn delayed(
        &mut self,
        after: Option<IndexEntry>,
        until_ms: Millis,
        most: usize,
    ) -> Result<Vec<(Fingerprint, IndexEntry)>, IndexError> {
        if until_ms < after.map_or(self.delayed_from_ms, |after| after.not_before_ms) {
            return Ok(vec![]);
        }
        let from = match after {
            Some(after) => delayed_from(after.not_before_ms, after.offset.saturating_add(1)),
            None => delayed_from(self.delayed_from_ms, 0),
        };
        let in_memory = self.delayed.range(first_of(&from)..).map_while(|key| read_delayed(key));
        let is_due = |(_, entry): &(Fingerprint, IndexEntry)| entry.not_before_ms <= until_ms;
        let is_delayed = |(_, entry): &(_, IndexEntry)| self.states.is_current(entry);
        let mut found: Vec<_> = in_memory.take_while(is_due).filter(is_delayed).take(most).collect();
        let on_disk = self.delayed_on_disk(&from, until_ms, most);
        found.extend(on_disk.map_err(|error| self.failed(&error))?);
        found.sort_unstable_by_key(|(_, entry)| (entry.not_before_ms, entry.offset));
        found.dedup_by_key(|(_, entry)| entry.offset);
        found.truncate(most);
        if after.is_none() && most > 0 {
            let first = found.first().map_or(until_ms.saturating_add(1), |(_, entry)| entry.not_before_ms);
            self.delayed_from_ms = self.delayed_from_ms.max(first);
        }
        Ok(found)
    }

    fn each(&mut self, each: &mut dyn FnMut(IndexEntry)) -> Result<(), IndexError> {
        self.write()?;
        self.try_each(each).map_err(|error| self.failed(&error))
    }

    fn mark(&mut self, fingerprint: Fingerprint, since: Option<Offset>) {
        let changed = match since {
            Some(since) if !self.outdated.contains_key(&fingerprint) => {
                self.outdated.insert(fingerprint, since);
                true
            }
            Some(_) => false,
            None => self.outdated.remove(&fingerprint).is_some(),
        };
        self.changed |= changed;
    }

    fn outdated(&self) -> &BTreeMap<Fingerprint, Offset> {
        &self.outdated
    }

    fn applied(&mut self, position: IndexCheckpoint) -> Result<(), IndexError> {
        let records = self.position.map_or(0, |before| position.offset.saturating_sub(before.offset));
        self.position = Some(position);
        self.changed = true;
        self.merge(records).map_err(|error| self.failed(&error))?;
        if self.is_full() { self.write() } else { Ok(()) }
    }

    fn position(&self) -> Option<IndexCheckpoint> {
        self.position
    }

    fn write(&mut self) -> Result<(), IndexError> {
        let Some(position) = self.position.filter(|_| self.changed) else { return Ok(()) };
        self.try_write(position).map_err(|error| self.failed(&error))?;
        self.changed = false;
        Ok(())
    }
}

/// Returns the lowest key that begins with `start`.
fn first_of<const N: usize>(start: &[u8]) -> [u8; N] {
    let mut key = [0; N];
    key[..start.len()].copy_from_slice(start);
    key
}
