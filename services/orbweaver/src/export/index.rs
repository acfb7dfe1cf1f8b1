//! On-disk index of the visits that have a line; needs little memory for a crawl of any size.

use std::{collections::HashMap, path::Path};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use orbweaver_store::remove_unfinished;
use orbweaver_url::Fingerprint;

/// Memory for cached blocks, in bytes.
const CACHE_BYTES: u64 = 2 << 20;
/// Memory for entries that are not in a table file yet, in bytes.
const MEMTABLE_BYTES: u64 = 2 << 20;

/// Entries per write: one by one, each would cost a system call.
const GATHERED: usize = 1_024;

/// The files.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Documents = 0,
    Urls = 1,
    Changes = 2,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Documents, Self::Urls, Self::Changes];

    /// Returns the name of the file.
    pub(super) fn file(self) -> &'static str {
        match self {
            Self::Documents => "documents.jsonl",
            Self::Urls => "urls.jsonl",
            Self::Changes => "changes.jsonl",
        }
    }
}

/// A visit to a URL; a line is written once for each.
pub(super) type Visit = (Fingerprint, u32);

/// Start of a line, and the run of the program that wrote it. Lines that a run wrote after its last checkpoint were
/// cut, and others took their place, so that the position alone is ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DocumentPosition {
    /// Number of the run.
    pub(super) run: u32,
    /// Position in the file, in bytes.
    pub(super) position: u64,
}

/// Kind of a file, a fingerprint, and the number of a visit if it is not the first one.
type Key = Vec<u8>;

/// Index from a visit to the start of its line.
pub(super) struct Index {
    database: Database,
    lines: Keyspace,
    /// Entries that are not written yet. A crash loses them together with their lines, which are after the last
    /// checkpoint.
    gathered: HashMap<Key, DocumentPosition>,
}

impl Index {
    pub(super) fn open(dir: &Path) -> fjall::Result<Self> {
        remove_unfinished(dir)?;
        let database =
            Database::builder(dir).cache_size(CACHE_BYTES).worker_threads(1).manual_journal_persist(true).open()?;
        let lines =
            database.keyspace("lines", || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES))?;
        Ok(Self { database, lines, gathered: HashMap::new() })
    }

    /// Returns the position at which the line of this visit was last written.
    pub(super) fn written_at(&self, kind: Kind, visit: Visit) -> fjall::Result<Option<DocumentPosition>> {
        let key = key(kind, visit);
        if let Some(written_at) = self.gathered.get(&key) {
            return Ok(Some(*written_at));
        }
        let value = self.lines.get(key)?;
        Ok(value.and_then(|value| {
            let (run, position) = value.split_at_checked(4)?;
            let run = u32::from_le_bytes(run.try_into().ok()?);
            Some(DocumentPosition { run, position: u64::from_le_bytes(position.try_into().ok()?) })
        }))
    }

    /// Stores the start of this visit's line.
    pub(super) fn insert(&mut self, kind: Kind, visit: Visit, written_at: DocumentPosition) -> fjall::Result<()> {
        self.gathered.insert(key(kind, visit), written_at);
        if self.gathered.len() >= GATHERED { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> fjall::Result<()> {
        let mut batch = self.database.batch();
        for (key, written_at) in self.gathered.drain() {
            let mut value = [0; 12];
            value[..4].copy_from_slice(&written_at.run.to_le_bytes());
            value[4..].copy_from_slice(&written_at.position.to_le_bytes());
            batch.insert(&self.lines, key, value);
        }
        batch.commit()
    }

    /// Writes the collected entries, and returns a function that makes all entries durable.
    pub(super) fn persister(&mut self) -> fjall::Result<impl FnOnce() -> fjall::Result<()> + Send + use<>> {
        self.write()?;
        let database = self.database.clone();
        Ok(move || database.persist(PersistMode::SyncData))
    }
}

fn key(kind: Kind, (fingerprint, visit): Visit) -> Key {
    let visit = visit.to_be_bytes();
    let visit = if visit == [0; 4] { &[][..] } else { &visit };
    [&[kind as u8], &fingerprint.0[..], visit].concat()
}
