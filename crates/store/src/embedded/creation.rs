//! Databases whose creation was cut short.
//!
//! fjall creates the first journal before the file `version`, which makes a directory a database, and refuses to create
//! a journal that exists: a directory whose process was killed in between could never be opened again. The first
//! keyspace is created when that file is durable. From then on, fjall itself completes an unfinished creation.

use std::fs;
use std::io;
use std::path::Path;

use super::mark;

/// Removes what a process left behind that was killed while it created the database in `dir`; nothing was stored in it.
///
/// # Errors
/// When the directory cannot be read or written, or another process uses the database.
pub fn remove_unfinished(dir: &Path) -> fjall::Result<()> {
    let unfinished = [dir.join("0.jnl"), dir.join("version")];
    if has_keyspaces(dir)? || !unfinished.iter().any(|path| path.exists()) {
        return Ok(());
    }
    let lock = mark::lock(dir)?;
    // Another process may have created the database before the lock was free.
    if !has_keyspaces(dir)? {
        tracing::warn!(dir = %dir.display(), "the database was never completely created; creating it again");
        for path in unfinished {
            fs::remove_file(path).or_else(|error| ignore_absent(error, ()))?;
        }
    }
    lock.unlock()?;
    Ok(())
}

fn has_keyspaces(dir: &Path) -> io::Result<bool> {
    let is_empty = |mut entries: fs::ReadDir| entries.next().is_none();
    fs::read_dir(dir.join("keyspaces")).map(is_empty).or_else(|error| ignore_absent(error, true)).map(|empty| !empty)
}

fn ignore_absent<T>(error: io::Error, value: T) -> io::Result<T> {
    if error.kind() == io::ErrorKind::NotFound { Ok(value) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::super::{FjallOptions, FjallStore};
    use super::*;

    fn open(dir: &Path) -> FjallStore {
        FjallStore::open(dir, FjallOptions::default()).unwrap()
    }

    /// The files of a database, in the order in which fjall creates them.
    const CREATED: [&str; 4] = ["lock", "keyspaces", "0.jnl", "version"];

    #[test]
    fn a_creation_that_was_cut_short_at_any_file_is_completed_by_the_next_opening() {
        let whole = tempfile::tempdir().unwrap();
        drop(open(whole.path()));
        for count in 0..=CREATED.len() {
            for truncated in [false, true] {
                let dir = tempfile::tempdir().unwrap();
                for name in &CREATED[..count] {
                    let (from, to) = (whole.path().join(name), dir.path().join(name));
                    if from.is_dir() {
                        fs::create_dir(to).unwrap();
                    } else {
                        fs::copy(from, to).unwrap();
                    }
                }
                if truncated && let Some(last) = CREATED[..count].last().filter(|name| **name != "keyspaces") {
                    fs::write(dir.path().join(last), "").unwrap();
                }
                drop(open(dir.path()));
                assert!(has_keyspaces(dir.path()).unwrap(), "{count} files, the last one truncated: {truncated}");
            }
        }
    }

    #[test]
    fn a_database_keeps_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let version = dir.path().join("version");
        let before = fs::metadata(&version).unwrap().modified().unwrap();
        remove_unfinished(dir.path()).unwrap();
        assert_eq!(fs::metadata(&version).unwrap().modified().unwrap(), before);
        drop(store);
    }
}
