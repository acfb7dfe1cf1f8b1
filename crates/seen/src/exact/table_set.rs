//! The tables of one partition: memtables waiting to be written, and SSTables on disk.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{AcqRel, Acquire, Release},
        },
    },
};

use super::{manifest::Manifest, sstable::SsTable};
use crate::{IndexCheckpoint, SeenError, keyed::ByFingerprint};

/// Maximum number of memtables waiting to be written; adding another one blocks, since the disk is then slower than the
/// log.
const TABLES_WAITING: usize = 4;
/// An SSTable is compacted with the newer ones when their total size exceeds its own divided by this: lookups search
/// few SSTables, and an entry is rewritten about five times per four-fold growth.
const GROWTH: u64 = 4;

/// Number of the newest SSTable of this process.
static LAST_RUN: AtomicU64 = AtomicU64::new(0);

/// An immutable memtable: entries that were read back and wait to be written, and the resulting checkpoint.
#[derive(Debug)]
pub(crate) struct ImmutableMemtable {
    pub(crate) entries: ByFingerprint<u16>,
    pub(crate) position: Option<IndexCheckpoint>,
}

#[derive(Debug, Clone)]
pub(crate) enum Table {
    ImmutableMemtable(Arc<ImmutableMemtable>),
    SsTable(Arc<SsTable>),
}

/// All tables of a partition: SSTables first, then frozen memtables; older before newer.
#[derive(Debug)]
pub(crate) struct TableSet {
    pub(crate) dir: PathBuf,
    contents: Mutex<Contents>,
    /// Signalled when a table was written, or cannot be.
    written: Condvar,
    /// Incremented with each change of the tables.
    version: AtomicU64,
    closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Contents {
    tables: Vec<Table>,
    position: Option<IndexCheckpoint>,
    next_run: u64,
    /// Reason why writing has stopped.
    failed: Option<String>,
}

impl Contents {
    fn waiting(&self) -> usize {
        self.tables.iter().filter(|table| matches!(table, Table::ImmutableMemtable(_))).count()
    }

    fn runs(&self) -> impl Iterator<Item = &Arc<SsTable>> {
        self.tables.iter().filter_map(|table| if let Table::SsTable(run) = table { Some(run) } else { None })
    }

    fn manifest(&self) -> Manifest {
        Manifest { position: self.position, runs: self.runs().map(|run| run.number).collect() }
    }
}

impl TableSet {
    /// Opens the SSTables named in the manifest, and removes all others. Damage, and SSTables without a checkpoint, are
    /// errors of the kind [`io::ErrorKind::InvalidData`].
    pub(crate) fn open(dir: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&dir)?;
        let manifest = Manifest::read(&dir)?.unwrap_or_default();
        if manifest.position.is_none() && !manifest.runs.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the manifest lists SSTables but no checkpoint"));
        }
        let mut contents = Contents { position: manifest.position, ..Contents::default() };
        for number in &manifest.runs {
            let run = SsTable::open(&path_of(&dir, *number), *number)?;
            contents.tables.push(Table::SsTable(Arc::new(run)));
            contents.next_run = contents.next_run.max(number + 1);
        }
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("run-")).and_then(|text| text.parse().ok());
            if number.is_some_and(|number| !manifest.runs.contains(&number)) {
                fs::remove_file(entry.path())?;
            }
        }
        let (contents, version) = (Mutex::new(contents), AtomicU64::new(1));
        Ok(Self { dir, contents, written: Condvar::new(), version, closed: AtomicBool::new(false) })
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn disk(&self, reason: &dyn std::fmt::Display) -> SeenError {
        SeenError::Disk { path: self.dir.display().to_string(), reason: reason.to_string() }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Returns the current tables and their version.
    pub(crate) fn tables(&self) -> Result<(u64, Vec<Table>), SeenError> {
        let contents = self.lock();
        match &contents.failed {
            Some(reason) => Err(self.disk(reason)),
            None => Ok((self.version(), contents.tables.clone())),
        }
    }

    pub(crate) fn position(&self) -> Option<IndexCheckpoint> {
        self.lock().position
    }

    /// Adds a table to be written; waits while too many are queued.
    pub(crate) fn add(&self, frozen: ImmutableMemtable) {
        let mut contents = self.lock();
        while contents.waiting() >= TABLES_WAITING && contents.failed.is_none() {
            contents = self.written.wait(contents).unwrap_or_else(PoisonError::into_inner);
        }
        contents.tables.push(Table::ImmutableMemtable(Arc::new(frozen)));
        self.version.fetch_add(1, Release);
    }

    /// Waits until all tables are written.
    pub(crate) fn settle(&self) -> Result<(), SeenError> {
        let mut contents = self.lock();
        while contents.waiting() > 0 && contents.failed.is_none() {
            contents = self.written.wait(contents).unwrap_or_else(PoisonError::into_inner);
        }
        contents.failed.as_ref().map_or(Ok(()), |reason| Err(self.disk(reason)))
    }

    /// Prevents all further changes, in memory and in the directory.
    pub(crate) fn close(&self) {
        let _contents = self.lock();
        self.closed.store(true, Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Acquire)
    }

    pub(crate) fn fail(&self, reason: String) {
        self.lock().failed.get_or_insert(reason);
        self.version.fetch_add(1, Release);
        self.written.notify_all();
    }

    /// Returns the table to be written next.
    pub(crate) fn next_frozen(&self) -> Option<Arc<ImmutableMemtable>> {
        self.lock()
            .tables
            .iter()
            .find_map(|table| if let Table::ImmutableMemtable(frozen) = table { Some(frozen.clone()) } else { None })
    }

    /// Returns the path and number of a new SSTable. Numbers are unique within the process, since an obsolete
    /// compaction may still be writing when its partition is opened again.
    pub(crate) fn new_run(&self) -> (PathBuf, u64) {
        let least = self.lock().next_run;
        let after = |last: u64| last.saturating_add(1).max(least);
        let last = LAST_RUN.fetch_update(AcqRel, Acquire, |last| Some(after(last))).unwrap_or_default();
        let number = after(last);
        (path_of(&self.dir, number), number)
    }

    /// Replaces the oldest frozen memtable by its SSTable (none if it held no entry), and writes the manifest with its
    /// checkpoint.
    pub(crate) fn was_written(&self, run: Option<SsTable>) -> io::Result<()> {
        let mut contents = self.lock();
        if self.is_closed() {
            return run.map_or(Ok(()), |run| fs::remove_file(run.path));
        }
        let Some(at) = contents.tables.iter().position(|table| matches!(table, Table::ImmutableMemtable(_))) else {
            return Ok(());
        };
        if let Table::ImmutableMemtable(frozen) = &contents.tables[at]
            && let Some(position) = frozen.position
        {
            contents.position = Some(position);
        }
        contents.tables.splice(at..=at, run.map(|run| Table::SsTable(Arc::new(run))));
        contents.manifest().write(&self.dir)?;
        self.version.fetch_add(1, Release);
        self.written.notify_all();
        Ok(())
    }

    /// Returns the newest SSTables that are to be compacted.
    pub(crate) fn to_compact(&self) -> Vec<Arc<SsTable>> {
        let contents = self.lock();
        let runs = contents.runs().cloned().collect::<Vec<_>>();
        let mut entries = 0;
        let few = runs.iter().rev().take_while(|run| {
            let merge = entries == 0 || run.len() < entries * GROWTH;
            entries += run.len();
            merge
        });
        let from = runs.len() - few.count();
        if runs.len() - from < 2 { vec![] } else { runs[from..].to_vec() }
    }

    /// Replaces these SSTables by the compacted one.
    pub(crate) fn compacted(&self, old: &[Arc<SsTable>], merged: SsTable) -> io::Result<()> {
        let mut contents = self.lock();
        let is_first = |table: &Table| matches!((table, old.first()), (Table::SsTable(run), Some(first)) if Arc::ptr_eq(run, first));
        let at = contents.tables.iter().position(is_first);
        let Some(at) = at.filter(|_| !self.is_closed()) else { return fs::remove_file(merged.path) };
        contents.tables.splice(at..at + old.len(), [Table::SsTable(Arc::new(merged))]);
        contents.manifest().write(&self.dir)?;
        self.version.fetch_add(1, Release);
        drop(contents);
        old.iter().try_for_each(|run| fs::remove_file(&run.path))
    }
}

fn path_of(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("run-{number}"))
}
