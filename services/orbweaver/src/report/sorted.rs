//! External sort: entries of any number, in bounded memory, sorted by key on disk.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use fjall::{Database, Guard, Keyspace, KeyspaceCreateOptions};
use serde::{Serialize, de::DeserializeOwned};
use tempfile::TempDir;

use super::error::ReportError;

/// Memory for cached blocks, in bytes.
const CACHE_BYTES: u64 = 16 << 20;
/// Size of the entries of a run, in bytes; in memory they take up to twice as much.
const RUN_BYTES: usize = 16 << 20;
/// Estimated overhead of an entry in memory, in bytes.
const ENTRY_BYTES: usize = 64;
/// Maximum length of a key, in bytes.
pub(super) const MAX_KEY_BYTES: usize = u16::MAX as usize;

/// Temporary directory with sorted tables, removed on drop.
pub(super) struct Temporary {
    // Dropped first: its threads end, and its files are closed.
    database: Database,
    _dir: TempDir,
}

impl Temporary {
    /// Creates a directory in `parent`.
    pub(super) fn create(parent: &Path) -> Result<Self, ReportError> {
        let failed = |source| ReportError::Temporary { path: PathBuf::from(parent), source };
        let dir = tempfile::Builder::new().prefix(".report-").tempdir_in(parent).map_err(failed)?;
        let database = Database::builder(dir.path().join("tables"));
        let database = database.cache_size(CACHE_BYTES).worker_threads(1).manual_journal_persist(true).open()?;
        Ok(Self { database, _dir: dir })
    }

    /// Creates a table.
    pub(super) fn table(&self, name: &str) -> Result<Filling, ReportError> {
        let keyspace = self.database.keyspace(name, KeyspaceCreateOptions::default)?;
        Ok(Filling { keyspace, run: BTreeMap::new(), bytes: 0 })
    }
}

/// Table that is being filled. Entries are sorted in memory, and written as a sorted run once they are many; runs are merged
/// in the background and when they are read.
pub(super) struct Filling {
    keyspace: Keyspace,
    run: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
}

impl Filling {
    /// Adds an entry, which replaces an earlier one of this key.
    pub(super) fn insert<T: Serialize>(&mut self, key: Vec<u8>, value: &T) -> Result<(), ReportError> {
        let value = serde_json::to_vec(value)?;
        self.bytes += key.len() + value.len() + ENTRY_BYTES;
        self.run.insert(key, value);
        if self.bytes >= RUN_BYTES { self.write_run() } else { Ok(()) }
    }

    /// Writes the last run, and returns the table for reading.
    pub(super) fn finish(mut self) -> Result<Table, ReportError> {
        self.write_run()?;
        Ok(Table(self.keyspace))
    }

    /// Writes the entries in memory as a table file, without a journal.
    fn write_run(&mut self) -> Result<(), ReportError> {
        self.bytes = 0;
        if self.run.is_empty() {
            return Ok(());
        }
        let mut file = self.keyspace.start_ingestion()?;
        for (key, value) in std::mem::take(&mut self.run) {
            file.write(key, value)?;
        }
        Ok(file.finish()?)
    }
}

/// Sorted table.
pub(super) struct Table(Keyspace);

impl Table {
    /// Returns the value of a key.
    pub(super) fn get<T: DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>, ReportError> {
        Ok(self.0.get(key)?.map(|value| serde_json::from_slice(&value)).transpose()?)
    }

    /// Returns the entries whose key begins with `prefix`, in the order of their keys.
    pub(super) fn prefix<T: DeserializeOwned>(
        &self,
        prefix: &[u8],
    ) -> impl Iterator<Item = Result<(Vec<u8>, T), ReportError>> + use<T> {
        let entry = |guard: Guard| -> Result<(Vec<u8>, T), ReportError> {
            let (key, value) = guard.into_inner()?;
            Ok((key.to_vec(), serde_json::from_slice(&value)?))
        };
        self.0.prefix(prefix).map(entry)
    }
}

/// Joins parts without a NUL to a key, so that keys are ordered by the first part, then by the second, and so on. Returns
/// `None` if it is empty or too long.
pub(super) fn key<const N: usize>(parts: [&[u8]; N]) -> Option<Vec<u8>> {
    let key = parts.join(&0);
    (1..=MAX_KEY_BYTES).contains(&key.len()).then_some(key)
}

/// Returns the first parts of a key, and the remainder.
pub(super) fn parts<const N: usize>(key: &[u8]) -> [String; N] {
    let mut parts = key.splitn(N, |byte| *byte == 0);
    std::array::from_fn(|_| String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_several_runs_is_sorted_and_the_last_value_of_a_key_counts() {
        let parent = tempfile::tempdir().unwrap();
        let temporary = Temporary::create(parent.path()).unwrap();
        let mut filling = temporary.table("numbers").unwrap();
        let key = |number: u32| format!("{:08}", number.wrapping_mul(7_919) % 40_000).into_bytes();
        for number in 0..80_000u32 {
            filling.insert(key(number), &0).unwrap();
            filling.insert(key(number), &number).unwrap();
            if number % 9_000 == 0 {
                filling.write_run().unwrap();
            }
        }
        let table = filling.finish().unwrap();
        let read: Vec<(Vec<u8>, u32)> = table.prefix(b"").collect::<Result<_, _>>().unwrap();
        assert_eq!(read.len(), 40_000);
        assert!(read.is_sorted_by(|a, b| a.0 < b.0));
        for (found, number) in read {
            assert!(number >= 40_000 && key(number) == found, "{number}");
        }
        assert_eq!(table.get::<u32>(b"00000000").unwrap(), Some(40_000));
        assert_eq!(table.get::<u32>(b"x").unwrap(), None);
        drop((table, temporary));
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn keys_are_ordered_by_their_parts() {
        let joined = |parts: [&str; 2]| key(parts.map(str::as_bytes)).unwrap();
        assert!(joined(["a", "z"]) < joined(["a!", "a"]));
        assert_eq!(parts(&joined(["a", "b"])), ["a", "b"].map(str::to_owned));
        assert_eq!(key([&[b'a'; MAX_KEY_BYTES], b""]), None);
        assert_eq!(key([b""]), None);
    }
}
