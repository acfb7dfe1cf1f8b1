//! The tables of one partition: memtables waiting to be written, and SSTables on disk.

use std::{
    collections::VecDeque,
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

use orbweaver_index_files::IndexFilesError;

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

/// All tables of a partition, older before newer; every SSTable is older than the frozen memtables.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tables {
    pub(crate) runs: Vec<Arc<SsTable>>,
    pub(crate) frozen: VecDeque<Arc<ImmutableMemtable>>,
}

/// The tables of a partition, shared with the threads that write them.
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
    tables: Tables,
    position: Option<IndexCheckpoint>,
    next_run: u64,
    /// Reason why writing has stopped.
    failed: Option<String>,
}

impl Contents {
    fn manifest(&self) -> Manifest {
        Manifest { position: self.position, runs: self.tables.runs.iter().map(|run| run.number).collect() }
    }
}

impl TableSet {
    /// Opens the SSTables named in the manifest, and removes all others. Damage, and SSTables without a checkpoint, are
    /// errors of the kind [`io::ErrorKind::InvalidData`].
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let manifest = Manifest::read(dir)?.unwrap_or_default();
        if manifest.position.is_none() && !manifest.runs.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the manifest lists SSTables but no checkpoint"));
        }
        let mut contents = Contents { position: manifest.position, ..Contents::default() };
        for number in &manifest.runs {
            let run = SsTable::open(&path_of(dir, *number), *number)?;
            contents.tables.runs.push(Arc::new(run));
            contents.next_run = contents.next_run.max(number + 1);
        }
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("run-")).and_then(|text| text.parse().ok());
            if number.is_some_and(|number| !manifest.runs.contains(&number)) {
                fs::remove_file(entry.path())?;
            }
        }
        let (contents, version) = (Mutex::new(contents), AtomicU64::new(1));
        let dir = dir.to_owned();
        Ok(Self { dir, contents, written: Condvar::new(), version, closed: AtomicBool::new(false) })
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until fewer than `most` tables wait to be written, or writing has stopped.
    fn wait_for(&self, most: usize) -> MutexGuard<'_, Contents> {
        let full = |contents: &mut Contents| contents.tables.frozen.len() >= most && contents.failed.is_none();
        self.written.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn disk(&self, reason: &dyn std::fmt::Display) -> SeenError {
        IndexFilesError::disk(&self.dir, reason).into()
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Returns the current tables and their version.
    pub(crate) fn tables(&self) -> Result<(u64, Tables), SeenError> {
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
        let mut contents = self.wait_for(TABLES_WAITING);
        contents.tables.frozen.push_back(Arc::new(frozen));
        self.version.fetch_add(1, Release);
    }

    /// Waits until all tables are written.
    pub(crate) fn settle(&self) -> Result<(), SeenError> {
        let contents = self.wait_for(1);
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
        self.lock().tables.frozen.front().cloned()
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
            return run.map_or(Ok(()), |run| run.delete());
        }
        let Some(frozen) = contents.tables.frozen.pop_front() else { return Ok(()) };
        contents.position = frozen.position.or(contents.position);
        contents.tables.runs.extend(run.map(Arc::new));
        contents.manifest().write(&self.dir)?;
        self.version.fetch_add(1, Release);
        self.written.notify_all();
        Ok(())
    }

    /// Returns the newest SSTables that are to be compacted.
    pub(crate) fn to_compact(&self) -> Vec<Arc<SsTable>> {
        let contents = self.lock();
        let runs = &contents.tables.runs;
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
        let is_first = |run: &Arc<SsTable>| old.first().is_some_and(|first| Arc::ptr_eq(run, first));
        let at = contents.tables.runs.iter().position(is_first);
        let Some(at) = at.filter(|_| !self.is_closed()) else { return merged.delete() };
        contents.tables.runs.splice(at..at + old.len(), [Arc::new(merged)]);
        contents.manifest().write(&self.dir)?;
        self.version.fetch_add(1, Release);
        drop(contents);
        old.iter().try_for_each(|run| run.delete())
    }
}

fn path_of(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("run-{number}"))
}
