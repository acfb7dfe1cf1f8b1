//! Which fingerprints have a line already, on disk: a crawl of any size needs little memory for it.

use std::{collections::HashMap, path::Path};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use orbweaver_url::Fingerprint;

/// Memory for cached blocks, in bytes.
const CACHE_BYTES: u64 = 2 << 20;
/// Memory for what is not yet in a table file, in bytes.
const MEMTABLE_BYTES: u64 = 2 << 20;

/// So many entries are gathered before they are written together: one by one, each is a call to the system.
const GATHERED: usize = 1_024;

/// The two files that have an index.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// `documents.jsonl`.
    Documents = 0,
    /// `urls.jsonl`.
    Urls = 1,
}

/// Where a line begins, and in which run of the program it was written. Lines that a run wrote behind its last checkpoint
/// were cut, and their place was taken by others: the position alone would not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of the run.
    pub(super) run: u32,
    /// The position in the file, in bytes.
    pub(super) position: u64,
}

/// A file's kind and a fingerprint.
type Key = [u8; 17];

/// Fingerprint → where its line begins.
pub(super) struct Index {
    database: Database,
    lines: Keyspace,
    /// What was not written yet. If it is lost, so are the lines: both are behind the last checkpoint.
    gathered: HashMap<Key, Place>,
}

impl Index {
    /// Opens or creates the index.
    pub(super) fn open(folder: &Path) -> fjall::Result<Self> {
        let database =
            Database::builder(folder).cache_size(CACHE_BYTES).worker_threads(1).manual_journal_persist(true).open()?;
        let lines =
            database.keyspace("lines", || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES))?;
        Ok(Self { database, lines, gathered: HashMap::new() })
    }

    /// Where the line of this fingerprint was written last.
    pub(super) fn place(&self, kind: Kind, fingerprint: Fingerprint) -> fjall::Result<Option<Place>> {
        let key = key(kind, fingerprint);
        if let Some(place) = self.gathered.get(&key) {
            return Ok(Some(*place));
        }
        let value = self.lines.get(key)?;
        Ok(value.and_then(|value| {
            let (run, position) = value.split_at_checked(4)?;
            let run = u32::from_le_bytes(run.try_into().ok()?);
            Some(Place { run, position: u64::from_le_bytes(position.try_into().ok()?) })
        }))
    }

    /// Remembers where the line of this fingerprint begins.
    pub(super) fn insert(&mut self, kind: Kind, fingerprint: Fingerprint, place: Place) -> fjall::Result<()> {
        self.gathered.insert(key(kind, fingerprint), place);
        if self.gathered.len() >= GATHERED { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> fjall::Result<()> {
        let mut batch = self.database.batch();
        for (key, place) in self.gathered.drain() {
            let mut value = [0; 12];
            value[..4].copy_from_slice(&place.run.to_le_bytes());
            value[4..].copy_from_slice(&place.position.to_le_bytes());
            batch.insert(&self.lines, key, value);
        }
        batch.commit()
    }

    /// Writes what was gathered, and gives a handle with which to make all durable.
    pub(super) fn persister(&mut self) -> fjall::Result<impl FnOnce() -> fjall::Result<()> + Send + use<>> {
        self.write()?;
        let database = self.database.clone();
        Ok(move || database.persist(PersistMode::SyncData))
    }
}

fn key(kind: Kind, fingerprint: Fingerprint) -> Key {
    let mut key = [0; 17];
    key[0] = kind as u8;
    key[1..].copy_from_slice(&fingerprint.0);
    key
}
