//! The indexes of one process: a directory for each partition, locked together.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use orbweaver_log::Partition;
use orbweaver_stage::IndexCheckpoint;
use orbweaver_url::SLOTS;

use super::{DiskIndex, IndexError, checkpoint::Checkpoint};

/// Format of an index. One of another format is discarded.
const VERSION: &str = "orbweaver-frontier 12\n";
/// File in the directory that marks the store as damaged.
const CONDEMNED: &str = "condemned";
/// Number of changed URLs at which the changes of a partition are written: that of all partitions, and the bounds for one.
/// Tests write soon.
const CHANGES: (usize, usize, usize) = if cfg!(test) { (8, 4, 8) } else { (65_536, 1024, 32_768) };
/// Bounds of the size of the records of changed URLs, in bytes, in the same order: a single one may have a long chain of redirects.
const CHANGES_BYTES: (usize, usize, usize) = (16 << 20, 256 << 10, 4 << 20);

/// The indexes of one process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct FrontierIndex(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    path: PathBuf,
    open: Arc<AtomicUsize>,
    _lock: File,
}

/// An open partition, while it is counted.
#[derive(Debug)]
pub(super) struct OpenCount(Arc<AtomicUsize>);

impl Drop for OpenCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl FrontierIndex {
    /// Opens the indexes in this directory, or creates it. If they are damaged or of another format, everything in the
    /// directory is deleted; it must not contain anything else.
    pub fn open(path: &Path) -> Result<Self, IndexError> {
        let failed = |error: &io::Error| failed(path, error);
        fs::create_dir_all(path).map_err(|error| failed(&error))?;
        let lock = File::create(path.join("lock")).map_err(|error| failed(&error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(IndexError::InUse { path: path.display().to_string() }),
            Err(TryLockError::Error(error)) => return Err(failed(&error)),
        }
        prepare(path).map_err(|error| failed(&error))?;
        Ok(Self(Arc::new(Opened { path: path.to_owned(), open: Arc::default(), _lock: lock })))
    }

    /// Returns the checkpoint of this partition's index; `None` if there is none, or if it is damaged.
    pub fn position(&self, partition: Partition) -> Result<Option<IndexCheckpoint>, IndexError> {
        let dir = self.dir(partition)?;
        let checkpoint = Checkpoint::read(&dir).map_err(|error| failed(&dir, &error))?;
        Ok(checkpoint.map(|checkpoint| checkpoint.position))
    }

    /// Opens the index of this partition at its checkpoint. A damaged one is discarded.
    pub fn partition(&self, partition: Partition) -> Result<DiskIndex, IndexError> {
        let dir = self.dir(partition)?;
        let opened = match DiskIndex::open(self, dir.clone()) {
            Err(error) if is_damage(&error) => {
                tracing::warn!(partition, %error, "index of a partition discarded; rebuilding it from the log");
                self.discard(partition)?;
                DiskIndex::open(self, dir.clone())
            }
            opened => opened,
        };
        opened.map_err(|error| failed(&dir, &error))
    }

    /// Discards the index of this partition, which must not be open.
    pub fn discard(&self, partition: Partition) -> Result<(), IndexError> {
        let dir = self.dir(partition)?;
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&dir, &error)),
            _ => Ok(()),
        }
    }

    /// Marks the indexes as damaged, so that the next [`FrontierIndex::open`] discards them.
    pub fn condemn(&self) {
        let path = &self.0.path;
        if let Err(error) = fs::write(path.join(CONDEMNED), "") {
            tracing::error!(
                path = %path.display(), %error,
                "damaged index could not be marked for a rebuild: delete its directory before the next start"
            );
        }
    }

    /// Counts a partition as open.
    pub(super) fn count_open(&self) -> OpenCount {
        self.0.open.fetch_add(1, Relaxed);
        OpenCount(self.0.open.clone())
    }

    /// Returns the number of changed URLs, and of bytes of their records, at which a partition writes its changes.
    pub(super) fn room(&self) -> (usize, usize) {
        let open = self.0.open.load(Relaxed).max(1);
        let share = |(all, least, most): (usize, usize, usize)| (all / open).clamp(least, most);
        (share(CHANGES), share(CHANGES_BYTES))
    }

    fn dir(&self, partition: Partition) -> Result<PathBuf, IndexError> {
        if partition >= Partition::from(SLOTS) {
            return Err(IndexError::Partition(partition));
        }
        Ok(self.0.path.join(format!("partition-{partition}")))
    }
}

/// Deletes everything in the directory but the lock if the format differs, or if the indexes are marked as damaged.
fn prepare(path: &Path) -> io::Result<()> {
    let version = path.join("version");
    if fs::read(&version).is_ok_and(|text| text == VERSION.as_bytes()) && !path.join(CONDEMNED).exists() {
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == "lock" {
            continue;
        }
        tracing::warn!(path = %entry.path().display(), "damaged, or not an index of this version; rebuilding it from the log");
        if entry.file_type()?.is_dir() { fs::remove_dir_all(entry.path())? } else { fs::remove_file(entry.path())? }
    }
    fs::write(version, VERSION)
}

pub(super) fn failed(path: &Path, error: &io::Error) -> IndexError {
    IndexError::Disk { path: path.display().to_string(), reason: error.to_string() }
}

/// Returns `true` if files are missing, truncated or invalid, rather than inaccessible.
fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
}
