//! Index on local disk: one store per process for all of its partitions, so that memory grows neither with their number
//! nor with the number of queued URLs.
//!
//! Changes are collected in memory and written atomically, together with the checkpoint to which they lead, so that a
//! URL that ends soon after its admission is never written. Their records are written before them, to files. Nothing is
//! synced: a power failure rolls each table back to an earlier write, and the log has the rest. Each write stores a mark
//! in every table; if the marks differ, the tables were rolled back to different writes, and the index is discarded. A
//! record that a power failure took is found damaged when it is read.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
};

use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch,
    compaction::Leveled,
    config::{CompressionPolicy, FilterPolicy, PartitioningPolicy},
};
use orbweaver_log::{Offset, Partition};
use orbweaver_messages::{FrontierUrl, Millis};
use orbweaver_stage::IndexCheckpoint;
use orbweaver_url::{Fingerprint, SLOTS};

use super::{
    END_RANK, Index, IndexEntry, IndexError, QueueKey, Rank,
    encoding::{
        Mark, Prefix, apart, delay_key, entry_key, entry_value, mark_key, order_key, order_value, queue_key,
        read_entry, read_fingerprint, read_order, read_outdated,
    },
    filters::Filters,
    records::Records,
};

/// Size of the cache of blocks of tables for all partitions, in bytes.
const CACHE_BYTES: u64 = 16 << 20;
/// Size at which a memtable is rotated, in bytes; one more of each table may await its flush.
const MEMTABLE_BYTES: u64 = 4 << 20;
/// Size of a file of a table, in bytes. A flush is merged with up to four of them, so that they must not be much larger than
/// a memtable.
const FILE_BYTES: u64 = 8 << 20;
/// Maximum size of the journal, in bytes; the minimum that the storage engine accepts.
const JOURNAL_BYTES: u64 = 64 << 20;
const OPEN_FILES: usize = 128;
/// Number of changed URLs per partition at which changes are written.
const CHANGES: usize = 1024;
/// Size of the records of changed URLs per partition at which changes are written, in bytes: a single record may have a
/// long chain of redirects.
const CHANGES_BYTES: usize = 1 << 20;
/// Number of entries removed per write.
const DISCARD_CHUNK: usize = 16_384;
/// Table names with the version of their content: a store with any other table is discarded.
const TABLES: [&str; 2] = ["places-11", "orders-11"];
/// Directory of the records, which has one for each partition.
const RECORDS: &str = "records";
/// File in the directory that marks the store as damaged.
const CONDEMNED: &str = "condemned";

/// Store of one process. Cheap to clone.
#[derive(Clone)]
pub struct FrontierIndex {
    pub(super) database: Database,
    /// Entries by fingerprint.
    pub(super) entries: Keyspace,
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
        // each lookup. Hashes cannot be compressed.
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(MEMTABLE_BYTES)
                .compaction_strategy(Arc::new(Leveled::default().with_table_target_size(FILE_BYTES)))
                .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
                .filter_block_partitioning_policy(PartitioningPolicy::all(true))
                .index_block_partitioning_policy(PartitioningPolicy::all(true))
        };
        // Before a partition is open, most lookups of a fingerprint find nothing, which these filters detect; then those in memory
        // do. The orders are only scanned.
        let entries = database.keyspace(TABLES[0], options)?;
        let unfiltered = || options().filter_policy(FilterPolicy::disabled()).expect_point_read_hits(true);
        let orders = database.keyspace(TABLES[1], unfiltered)?;
        Ok(Self { database, entries, orders, path: Arc::new(path.to_owned()) })
    }

    /// Returns the checkpoint of this partition's index; `None` if there is none, or if it is damaged.
    pub fn position(&self, partition: Partition) -> Result<Option<IndexCheckpoint>, IndexError> {
        Ok(self.mark(prefix(partition)?)?.map(|mark| mark.position))
    }

    /// Returns the mark of a partition if both tables have the same one.
    fn mark(&self, partition: Prefix) -> Result<Option<Mark>, IndexError> {
        let read = |table: &Keyspace| table.get(mark_key(partition)).map_err(|error| self.failed(&error));
        let [first, second] = [read(&self.entries)?, read(&self.orders)?];
        Ok(first.filter(|first| second.as_ref() == Some(first)).and_then(|mark| Mark::decode(&mark)))
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
            records: Records::open(self.records_of(partition)).map_err(|error| failed(&self.path, &error))?,
            filters: None,
            outdated: self.outdated(prefix(partition)?)?,
            marked: BTreeSet::new(),
            delayed_from_ms: 0,
            position: mark.map(|mark| mark.position),
            writes: mark.map_or(0, |mark| mark.writes),
            len: mark.map_or(0, |mark| mark.entries),
            moved: false,
        })
    }

    fn records_of(&self, partition: Partition) -> PathBuf {
        self.path.join(RECORDS).join(partition.to_string())
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
        Records::discard(&self.records_of(partition)).map_err(|error| failed(&self.path, &error))?;
        let (entries, orders) = (&self.entries, &self.orders);
        let apart = apart(prefix);
        let tables = [(entries, prefix), (entries, apart), (orders, prefix), (orders, apart)];
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
    records: Records,
    /// Filters of all entries. `None` until [`Index::each`] has read them.
    filters: Option<Filters>,
    /// The marked URLs.
    outdated: BTreeMap<Fingerprint, Offset>,
    /// URLs whose mark has changed since the last write.
    marked: BTreeSet<Fingerprint>,
    /// No delayed URL is due before this time. A scan from the start would pass all that have been released, whose
    /// tombstones are there until compaction.
    delayed_from_ms: Millis,
    position: Option<IndexCheckpoint>,
    /// Number of writes so far.
    writes: u64,
    /// Number of entries on disk.
    pub(super) len: u64,
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

    fn read(&self, item: fjall::Guard) -> Result<(Option<Fingerprint>, IndexEntry), IndexError> {
        let (key, value) = item.into_inner().map_err(|error| self.index.failed(&error))?;
        read_order(&key, &value).ok_or_else(|| self.index.damaged(format!("invalid entry of a queue, key {key:?}")))
    }

    /// Adds all changes to a batch, in the order of their keys: each then finds its place in the memtable close to that of
    /// the previous one.
    fn add_changes(&self, batch: &mut OwnedWriteBatch) {
        // Entries that were added and removed in between were never written.
        let mut changes: Vec<_> = self.changes.iter().filter(|(_, change)| change.before != change.now).collect();
        changes.sort_unstable_by_key(|(fingerprint, _)| **fingerprint);
        let mut orders = Vec::with_capacity(changes.len());
        for (fingerprint, Change { before, now }) in changes {
            let key = entry_key(self.partition, *fingerprint);
            match now {
                Some(now) => batch.insert(&self.index.entries, key, entry_value(now)),
                None => batch.remove(&self.index.entries, key),
            }
            let before = before.map(|before| order_key(self.partition, &before));
            let now = now.map(|now| (order_key(self.partition, &now), order_value(*fingerprint, &now)));
            orders.extend(before.map(|key| (key, None)));
            orders.extend(now.map(|(key, value)| (key, Some(value))));
        }
        orders.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (key, value) in orders {
            match value {
                Some(value) => batch.insert(&self.index.orders, key, value),
                None => batch.remove(&self.index.orders, key),
            }
        }
    }
}

impl Index for DiskIndex {
    fn entry(&mut self, fingerprint: Fingerprint) -> Result<Option<IndexEntry>, IndexError> {
        if let Some(change) = self.changes.get(&fingerprint) {
            return Ok(change.now);
        }
        if self.filters.as_ref().is_some_and(|filters| !filters.may_contain(fingerprint)) {
            return Ok(None);
        }
        let stored = self.index.entries.get(entry_key(self.partition, fingerprint));
        let Some(stored) = stored.map_err(|error| self.index.failed(&error))? else { return Ok(None) };
        let damaged = || self.index.damaged(format!("invalid entry of the URL {fingerprint}"));
        read_entry(&stored).map(Some).ok_or_else(damaged)
    }

    fn waiting(&mut self, offset: Offset) -> Result<FrontierUrl, IndexError> {
        let read = self.records.read(offset).map_err(|error| failed(&self.index.path, &error))?;
        read.ok_or_else(|| self.index.damaged(format!("missing or invalid record, offset {offset}")))
    }

    fn replace(&mut self, fingerprint: Fingerprint, old: Option<IndexEntry>, new: Option<(IndexEntry, &FrontierUrl)>) {
        let now = new.map(|(entry, _)| entry);
        // The entry of a demoted URL changes, and its record does not.
        if old.map(|old| old.offset) != now.map(|now| now.offset) {
            if let Some(old) = old {
                self.records.drop_pending(old.offset);
            }
            if let Some((entry, waiting)) = new {
                self.records.add(entry.offset, waiting);
                if let Some(filters) = &mut self.filters {
                    filters.add(fingerprint, entry.offset);
                }
            }
        }
        if let Some(delayed) = now.filter(IndexEntry::is_delayed) {
            self.delayed_from_ms = self.delayed_from_ms.min(delayed.not_before_ms);
        }
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
        if until_ms < after.map_or(self.delayed_from_ms, |after| after.not_before_ms) {
            return Ok(vec![]);
        }
        // A prefix of the next time's keys sorts before all of them.
        let key = |moment| delay_key(self.partition, moment).to_vec();
        // The first key after that of an entry has one more byte.
        let from = match after {
            Some(after) => [&*order_key(self.partition, &after), &[0]].concat(),
            None => key(self.delayed_from_ms),
        };
        let found = self.order(from..=key(until_ms.saturating_add(1)), most)?;
        if after.is_none() && most > 0 {
            let first = found.first().map_or(until_ms.saturating_add(1), |(_, entry)| entry.not_before_ms);
            self.delayed_from_ms = self.delayed_from_ms.max(first);
        }
        let damaged = || self.index.damaged("entry of a delayed URL without fingerprint".to_owned());
        found.into_iter().map(|(fingerprint, entry)| Ok((fingerprint.ok_or_else(damaged)?, entry))).collect()
    }

    fn each(&mut self, each: &mut dyn FnMut(Fingerprint, IndexEntry)) -> Result<(), IndexError> {
        self.write()?;
        self.records.start_count();
        let mut filters = Filters::with_room(usize::try_from(self.len).unwrap_or(usize::MAX));
        for item in self.index.entries.prefix(self.partition) {
            let (key, value) = item.into_inner().map_err(|error| self.index.failed(&error))?;
            let damaged = || self.index.damaged(format!("invalid entry, key {key:?}"));
            let (fingerprint, entry) = read_fingerprint(&key).zip(read_entry(&value)).ok_or_else(damaged)?;
            self.records.count(entry.offset);
            filters.add(fingerprint, entry.offset);
            each(fingerprint, entry);
        }
        self.filters = Some(filters);
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
        let is_large = self.changes.len() >= CHANGES || self.records.pending_bytes() >= CHANGES_BYTES;
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
        self.add_changes(&mut batch);
        // Written first: an entry always has its record.
        self.records.write().map_err(|error| failed(&self.index.path, &error))?;
        for fingerprint in &self.marked {
            let key = entry_key(apart(self.partition), *fingerprint);
            match self.outdated.get(fingerprint) {
                Some(since) => batch.insert(&self.index.entries, key, since.to_be_bytes()),
                None => batch.remove(&self.index.entries, key),
            }
        }
        let changed = |is: fn(&Change) -> Option<IndexEntry>| self.changes.values().filter_map(is).count() as u64;
        let len = (self.len + changed(|change| change.now)).saturating_sub(changed(|change| change.before));
        if let Some(position) = self.position {
            let FrontierIndex { entries, orders, .. } = &self.index;
            let mark = Mark { position, writes: self.writes + 1, entries: len }.encode();
            for table in [entries, orders] {
                batch.insert(table, mark_key(self.partition), mark);
            }
        }
        batch.commit().map_err(|error| self.index.failed(&error))?;
        self.writes += 1;
        self.len = len;
        for Change { before, now } in self.changes.values() {
            if let Some(before) = before.filter(|before| now.is_none_or(|now| now.offset != before.offset)) {
                self.records.end(before.offset);
            }
        }
        self.records.delete_ended().map_err(|error| failed(&self.index.path, &error))?;
        if let (Some(filters), Some(first)) = (&mut self.filters, self.records.first()) {
            filters.drop_below(first);
        }
        self.changes.clear();
        self.marked.clear();
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
