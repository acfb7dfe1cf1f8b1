//! Index on local disk: one store per process for all of its partitions, so that memory grows neither with their number
//! nor with the number of queued URLs.
//!
//! Changes are collected in memory and written atomically, together with the checkpoint to which they lead, so that a
//! URL that ends soon after its admission is never written. Nothing is synced: a power failure rolls each table back to
//! an earlier write, and the log has the rest. Each write stores a mark in every table; if the marks differ, the tables
//! were rolled back to different writes, and the index is discarded.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
};

use fjall::{
    Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch,
    config::{FilterPolicy, PartitioningPolicy},
};
use orbweaver_log::{Offset, Partition};
use orbweaver_messages::{FrontierUrl, Millis};
use orbweaver_stage::IndexCheckpoint;
use orbweaver_url::{Fingerprint, SLOTS};

use super::{
    END_RANK, Index, IndexEntry, IndexError, QueueKey, Rank,
    encoding::{
        Prefix, apart, delay_key, entry_key, entry_value, mark_key, mark_value, order_key, order_value, queue_key,
        read_entry, read_mark, read_order, read_outdated, read_record, record_key, record_value,
    },
};

/// Size of the cache of file blocks for all partitions, in bytes: the blocks with the positions of ten million records.
const CACHE_BYTES: u64 = 16 << 20;
/// Size at which a memtable of records is rotated, in bytes; one more may await its flush.
const RECORDS_MEMTABLE_BYTES: u64 = 2 << 20;
/// Size at which a memtable of entries, or of orders, is rotated, in bytes.
const KEYS_MEMTABLE_BYTES: u64 = 1 << 20;
/// Maximum size of the journal, in bytes; the minimum that the storage engine accepts.
const JOURNAL_BYTES: u64 = 64 << 20;
const OPEN_FILES: usize = 128;
/// Number of changed URLs per partition at which changes are written.
const CHANGES: usize = 1024;
/// Size of the records of changed URLs per partition at which changes are written, in bytes: a single record may have a
/// long chain of redirects.
const CHANGES_BYTES: usize = 1 << 20;
/// Number of records read ahead when records are requested approximately in log order.
const AHEAD: usize = 32;
/// Number of entries removed per write.
const DISCARD_CHUNK: usize = 16_384;
/// Table names with the version of their content: a store with any other table is discarded.
const TABLES: [&str; 3] = ["places-8", "records-8", "orders-8"];
/// File in the directory that marks the store as damaged.
const CONDEMNED: &str = "condemned";

/// Store of one process. Cheap to clone.
#[derive(Clone)]
pub struct FrontierIndex {
    pub(super) database: Database,
    /// Entries by fingerprint.
    pub(super) entries: Keyspace,
    /// Records by offset. Each is written once, in the order of the offsets, and removed once.
    pub(super) records: Keyspace,
    /// Entries in their orders.
    orders: Keyspace,
    path: Arc<PathBuf>,
}

impl std::fmt::Debug for FrontierIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrontierIndex").field("path", &self.path).finish_non_exhaustive()
    }
}

impl FrontierIndex {
    /// Opens the index in this directory, or creates it. A damaged one is discarded together with the directory, which
    /// must not contain anything else.
    pub fn open(path: &Path) -> Result<Self, IndexError> {
        if path.join(CONDEMNED).exists() {
            return Self::renew(path, &"it was marked as damaged");
        }
        match Self::try_open(path) {
            Ok(index) if index.database.list_keyspace_names().iter().all(|name| TABLES.contains(&&**name)) => Ok(index),
            Ok(index) => {
                drop(index);
                Self::renew(path, &"it was written by another version")
            }
            Err(fjall::Error::Locked) => Err(IndexError::InUse { path: path.display().to_string() }),
            Err(fjall::Error::Io(error)) if !is_damage(&error) => Err(failed(path, &error)),
            Err(error) => Self::renew(path, &error),
        }
    }

    fn renew(path: &Path, reason: &dyn std::fmt::Display) -> Result<Self, IndexError> {
        tracing::warn!(path = %path.display(), %reason, "index discarded; rebuilding it from the log");
        std::fs::remove_dir_all(path).map_err(|error| failed(path, &error))?;
        Self::try_open(path).map_err(|error| failed(path, &error))
    }

    fn try_open(path: &Path) -> fjall::Result<Self> {
        let database = Database::builder(path)
            .cache_size(CACHE_BYTES)
            .max_journaling_size(JOURNAL_BYTES)
            .max_cached_files(Some(OPEN_FILES))
            .worker_threads(1)
            .open()?;
        // Partitioned at every level: a whole filter or index of a file is larger than the cache, and would be read for
        // each lookup.
        let options = |bytes| {
            KeyspaceCreateOptions::default()
                .max_memtable_size(bytes)
                .filter_block_partitioning_policy(PartitioningPolicy::all(true))
                .index_block_partitioning_policy(PartitioningPolicy::all(true))
        };
        // Most lookups of a fingerprint find nothing, which the filters detect; lookups in the other tables find an
        // entry.
        let entries = database.keyspace(TABLES[0], || options(KEYS_MEMTABLE_BYTES))?;
        let unfiltered = |bytes| options(bytes).filter_policy(FilterPolicy::disabled()).expect_point_read_hits(true);
        let records = database.keyspace(TABLES[1], || unfiltered(RECORDS_MEMTABLE_BYTES))?;
        let orders = database.keyspace(TABLES[2], || unfiltered(KEYS_MEMTABLE_BYTES))?;
        Ok(Self { database, entries, records, orders, path: Arc::new(path.to_owned()) })
    }

    /// Returns the checkpoint of this partition's index; `None` if there is none, or if it is damaged.
    pub fn position(&self, partition: Partition) -> Result<Option<IndexCheckpoint>, IndexError> {
        Ok(self.mark(prefix(partition)?)?.map(|(position, _)| position))
    }

    /// Returns the mark of a partition if all tables have the same one.
    fn mark(&self, partition: Prefix) -> Result<Option<(IndexCheckpoint, u64)>, IndexError> {
        let read = |table: &Keyspace| table.get(mark_key(partition)).map_err(|error| self.failed(&error));
        let marks = [read(&self.entries)?, read(&self.records)?, read(&self.orders)?];
        let [first, ..] = &marks;
        Ok(first.as_ref().filter(|_| marks.iter().all(|mark| mark == first)).and_then(|mark| read_mark(mark)))
    }

    /// Opens the index of this partition at its checkpoint. An index without a checkpoint cannot be verified and is
    /// discarded.
    pub fn partition(&self, partition: Partition) -> Result<DiskIndex, IndexError> {
        let mark = self.mark(prefix(partition)?)?;
        if mark.is_none() {
            self.discard(partition)?;
        }
        Ok(DiskIndex {
            index: self.clone(),
            partition: prefix(partition)?,
            changes: HashMap::new(),
            records: HashMap::new(),
            records_bytes: 0,
            outdated: self.outdated(prefix(partition)?)?,
            marked: BTreeSet::new(),
            ahead: VecDeque::new(),
            asked: 0,
            position: mark.map(|(position, _)| position),
            writes: mark.map_or(0, |(_, writes)| writes),
            moved: false,
        })
    }

    fn outdated(&self, partition: Prefix) -> Result<BTreeMap<Fingerprint, Offset>, IndexError> {
        let read = |item: fjall::Guard| {
            let (key, value) = item.into_inner().map_err(|error| self.failed(&error))?;
            read_outdated(&key, &value).ok_or_else(|| self.damaged(format!("invalid outdated entry, key {key:?}")))
        };
        self.entries.prefix(apart(partition)).map(read).collect()
    }

    pub fn discard(&self, partition: Partition) -> Result<(), IndexError> {
        let prefix = prefix(partition)?;
        // A mark is removed first: without it nothing is trusted, so that a crash in between is harmless.
        self.entries.remove(mark_key(prefix)).map_err(|error| self.failed(&error))?;
        let (entries, records, orders) = (&self.entries, &self.records, &self.orders);
        let apart = apart(prefix);
        let tables = [(entries, prefix), (entries, apart), (records, prefix), (orders, prefix), (orders, apart)];
        for (table, prefix) in tables {
            // One pass over a snapshot: a new scan from the start would traverse everything removed before.
            let mut items = table.prefix(prefix);
            loop {
                let mut batch = self.database.batch();
                for item in items.by_ref().take(DISCARD_CHUNK) {
                    batch.remove(table, item.key().map_err(|error| self.failed(&error))?);
                }
                if batch.is_empty() {
                    break;
                }
                batch.commit().map_err(|error| self.failed(&error))?;
            }
        }
        Ok(())
    }

    /// Marks the store as damaged, so that the next [`FrontierIndex::open`] discards it.
    pub fn condemn(&self) {
        if let Err(error) = std::fs::write(self.path.join(CONDEMNED), "") {
            tracing::error!(
                path = %self.path.display(), %error,
                "damaged index could not be marked for a rebuild: delete its directory before the next start"
            );
        }
    }

    fn failed(&self, error: &fjall::Error) -> IndexError {
        use fjall::LsmError as Lsm;
        match error {
            fjall::Error::Storage(
                Lsm::ChecksumMismatch { .. }
                | Lsm::Decompress(_)
                | Lsm::InvalidTag(_)
                | Lsm::InvalidTrailer
                | Lsm::InvalidHeader(_)
                | Lsm::Utf8(_),
            ) => self.damaged(error.to_string()),
            error => failed(&self.path, error),
        }
    }

    fn damaged(&self, reason: String) -> IndexError {
        IndexError::Damaged { path: self.path.display().to_string(), reason }
    }
}

/// Entry of a URL on disk, and its present one.
#[derive(Debug, Clone, Copy)]
struct Change {
    before: Option<IndexEntry>,
    now: Option<IndexEntry>,
}

/// Index of one partition on disk.
#[derive(Debug)]
pub struct DiskIndex {
    index: FrontierIndex,
    partition: Prefix,
    /// Changes that are not written yet.
    changes: HashMap<Fingerprint, Change>,
    /// Records of changed URLs that are not written yet.
    records: HashMap<Offset, Vec<u8>>,
    /// Total size of the changes.
    records_bytes: usize,
    /// The marked URLs.
    outdated: BTreeMap<Fingerprint, Offset>,
    /// URLs whose mark has changed since the last write.
    marked: BTreeSet<Fingerprint>,
    /// Records that were read ahead, in order, and the offset requested last. Records never change.
    ahead: VecDeque<(Offset, fjall::UserValue)>,
    asked: Offset,
    position: Option<IndexCheckpoint>,
    /// Number of writes so far.
    writes: u64,
    /// Whether the checkpoint has changed since the last write.
    moved: bool,
}

impl DiskIndex {
    fn order(
        &mut self,
        range: RangeInclusive<Vec<u8>>,
        most: usize,
    ) -> Result<Vec<(Option<Fingerprint>, IndexEntry)>, IndexError> {
        // The scan reads only written entries, so changes are written first.
        self.write()?;
        let items = self.index.orders.range(range).take(most);
        items.map(|item| self.read(item)).collect()
    }

    /// Returns the record at `offset` as it is stored.
    fn stored(&mut self, offset: Offset) -> Result<Option<fjall::UserValue>, IndexError> {
        let near = (1..=AHEAD as u64).contains(&offset.wrapping_sub(std::mem::replace(&mut self.asked, offset)));
        while self.ahead.front().is_some_and(|(ahead, _)| near && *ahead < offset) {
            self.ahead.pop_front();
        }
        if let Some((_, record)) = self.ahead.pop_front_if(|(ahead, _)| *ahead == offset) {
            return Ok(Some(record));
        }
        if !near {
            let stored = self.index.records.get(record_key(self.partition, offset));
            return stored.map_err(|error| self.index.failed(&error));
        }
        self.ahead.clear();
        let range = record_key(self.partition, offset)..=record_key(self.partition, offset + AHEAD as u64);
        for item in self.index.records.range(range).take(AHEAD) {
            let (key, record) = item.into_inner().map_err(|error| self.index.failed(&error))?;
            let damaged = || self.index.damaged(format!("invalid key of a record, {key:?}"));
            let at = key.get(2..).and_then(|at| at.try_into().ok()).map(u64::from_be_bytes).ok_or_else(damaged)?;
            self.ahead.push_back((at, record));
        }
        Ok(self.ahead.pop_front_if(|(ahead, _)| *ahead == offset).map(|(_, record)| record))
    }

    fn read(&self, item: fjall::Guard) -> Result<(Option<Fingerprint>, IndexEntry), IndexError> {
        let (key, value) = item.into_inner().map_err(|error| self.index.failed(&error))?;
        read_order(&key, &value).ok_or_else(|| self.index.damaged(format!("invalid entry of a queue, key {key:?}")))
    }

    fn add(&self, batch: &mut OwnedWriteBatch, fingerprint: Fingerprint, Change { before, now }: Change) {
        let FrontierIndex { entries, records, orders, .. } = &self.index;
        if let Some(before) = before {
            batch.remove(orders, order_key(self.partition, &before));
            if now.is_none_or(|now| now.offset != before.offset) {
                batch.remove(records, record_key(self.partition, before.offset));
            }
        }
        let Some(now) = now else { return batch.remove(entries, entry_key(self.partition, fingerprint)) };
        batch.insert(orders, order_key(self.partition, &now), order_value(fingerprint, &now));
        batch.insert(entries, entry_key(self.partition, fingerprint), entry_value(&now));
    }
}

impl Index for DiskIndex {
    fn entry(&mut self, fingerprint: Fingerprint) -> Result<Option<IndexEntry>, IndexError> {
        if let Some(change) = self.changes.get(&fingerprint) {
            return Ok(change.now);
        }
        let stored = self.index.entries.get(entry_key(self.partition, fingerprint));
        let Some(stored) = stored.map_err(|error| self.index.failed(&error))? else { return Ok(None) };
        let damaged = || self.index.damaged(format!("invalid entry of the URL {fingerprint}"));
        read_entry(&stored).map(Some).ok_or_else(damaged)
    }

    fn waiting(&mut self, offset: Offset) -> Result<FrontierUrl, IndexError> {
        let read = match self.records.get(&offset) {
            Some(record) => read_record(record),
            None => self.stored(offset)?.and_then(|record| read_record(&record)),
        };
        read.ok_or_else(|| self.index.damaged(format!("missing or invalid record, offset {offset}")))
    }

    fn replace(&mut self, fingerprint: Fingerprint, old: Option<IndexEntry>, new: Option<(IndexEntry, &FrontierUrl)>) {
        if let Some(record) = old.and_then(|old| self.records.remove(&old.offset)) {
            self.records_bytes -= record.len();
        }
        if let Some((entry, waiting)) = new {
            let record = record_value(waiting);
            self.records_bytes += record.len();
            self.records.insert(entry.offset, record);
        }
        let now = new.map(|(entry, _)| entry);
        self.changes.entry(fingerprint).and_modify(|change| change.now = now).or_insert(Change { before: old, now });
    }

    fn make_due(&mut self, fingerprint: Fingerprint, entry: IndexEntry) {
        let now = Some(entry.queued());
        let change = Change { before: Some(entry), now };
        self.changes.entry(fingerprint).and_modify(|change| change.now = now).or_insert(change);
    }

    fn queued(&mut self, site: QueueKey, from: Rank, most: usize) -> Result<Vec<Rank>, IndexError> {
        let key = |rank| queue_key(self.partition, site, rank).to_vec();
        let found = self.order(key(from)..=key(END_RANK), most)?;
        Ok(found.into_iter().map(|(_, entry)| entry.rank()).collect())
    }

    fn delayed(
        &mut self,
        after: Option<IndexEntry>,
        until_ms: Millis,
        most: usize,
    ) -> Result<Vec<(Fingerprint, IndexEntry)>, IndexError> {
        if until_ms < after.map_or(0, |after| after.not_before_ms) {
            return Ok(vec![]);
        }
        // A prefix of the next time's keys sorts before all of them.
        let key = |moment| delay_key(self.partition, moment).to_vec();
        // The first key after that of an entry has one more byte.
        let from = after.map_or_else(|| key(0), |after| [&*order_key(self.partition, &after), &[0]].concat());
        let found = self.order(from..=key(until_ms.saturating_add(1)), most)?;
        let damaged = || self.index.damaged("entry of a delayed URL without fingerprint".to_owned());
        found.into_iter().map(|(fingerprint, entry)| Ok((fingerprint.ok_or_else(damaged)?, entry))).collect()
    }

    fn each(&mut self, each: &mut dyn FnMut(IndexEntry)) -> Result<(), IndexError> {
        self.write()?;
        for prefix in [self.partition, apart(self.partition)] {
            for item in self.index.orders.prefix(prefix) {
                each(self.read(item)?.1);
            }
        }
        Ok(())
    }

    fn mark(&mut self, fingerprint: Fingerprint, since: Option<Offset>) {
        match since {
            Some(since) if !self.outdated.contains_key(&fingerprint) => self.outdated.insert(fingerprint, since),
            None if self.outdated.contains_key(&fingerprint) => self.outdated.remove(&fingerprint),
            _ => return,
        };
        self.marked.insert(fingerprint);
    }

    fn outdated(&self) -> &BTreeMap<Fingerprint, Offset> {
        &self.outdated
    }

    fn applied(&mut self, position: IndexCheckpoint) -> Result<(), IndexError> {
        self.position = Some(position);
        self.moved = true;
        let is_large = self.changes.len() >= CHANGES || self.records_bytes >= CHANGES_BYTES;
        if is_large { self.write() } else { Ok(()) }
    }

    fn position(&self) -> Option<IndexCheckpoint> {
        self.position
    }

    fn write(&mut self) -> Result<(), IndexError> {
        if !self.moved && self.changes.is_empty() && self.marked.is_empty() {
            return Ok(());
        }
        let mut batch = self.index.database.batch();
        for (fingerprint, change) in &self.changes {
            // Entries that were added and removed in between were never written.
            if change.before != change.now {
                self.add(&mut batch, *fingerprint, *change);
            }
        }
        for (offset, record) in self.records.drain() {
            batch.insert(&self.index.records, record_key(self.partition, offset), record);
        }
        for fingerprint in &self.marked {
            let key = entry_key(apart(self.partition), *fingerprint);
            match self.outdated.get(fingerprint) {
                Some(since) => batch.insert(&self.index.entries, key, since.to_be_bytes()),
                None => batch.remove(&self.index.entries, key),
            }
        }
        if let Some(position) = self.position {
            let FrontierIndex { entries, records, orders, .. } = &self.index;
            let mark = mark_value(position, self.writes + 1);
            for table in [entries, records, orders] {
                batch.insert(table, mark_key(self.partition), mark);
            }
        }
        batch.commit().map_err(|error| self.index.failed(&error))?;
        self.writes += 1;
        self.changes.clear();
        self.marked.clear();
        self.records_bytes = 0;
        self.moved = false;
        Ok(())
    }
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> IndexError {
    IndexError::Disk { path: path.display().to_string(), reason: error.to_string() }
}

/// Returns `true` if files are missing or truncated, or if the creation was cut short (fjall then refuses to create the
/// journal again), rather than inaccessible.
fn is_damage(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{AlreadyExists, InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), NotFound | UnexpectedEof | InvalidData | AlreadyExists)
}

fn prefix(partition: Partition) -> Result<Prefix, IndexError> {
    let number = u16::try_from(partition).ok().filter(|number| *number < SLOTS);
    Ok(number.ok_or(IndexError::Partition(partition))?.to_be_bytes())
}
