//! Durable names: without its name, a synced file is lost in a power cut.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Makes the names of an open store's files durable.
///
/// fjall syncs the content: each journal before it begins the next, and the last journal when it opens the database,
/// including the bytes that a killed process had written to it. It never syncs the names of the store and of new
/// keyspaces, nor those that were just created or replaced when a process was killed.
pub(super) fn sync(dir: &Path) -> io::Result<()> {
    directories(dir)?.iter().try_for_each(|directory| File::open(directory)?.sync_all())
}

/// Returns the directories to sync. Others need no sync: a table's name is synced before anything refers to it, and
/// names of separate values are synced at each opening.
fn directories(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let parent = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let keyspaces = dir.join("keyspaces");
    let mut found = vec![parent.to_path_buf(), dir.to_path_buf()];
    for entry in fs::read_dir(&keyspaces)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    found.push(keyspaces);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::FjallOptions;
    use super::super::database::Tables;
    use super::*;

    /// Also fails if a new version of fjall has other directories.
    #[test]
    fn every_name_that_fjall_may_leave_unsynced_is_synced_at_the_opening() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("store");
        drop(Tables::open(&dir, &FjallOptions::default()).unwrap());
        let synced = directories(&dir).unwrap();
        assert!(synced.contains(&parent.path().to_path_buf()), "the name of the store: {synced:?}");
        let mut left = vec![dir];
        let mut journals = 0;
        while let Some(directory) = left.pop() {
            let by_fjall = directory.ends_with("tables") || directory.ends_with("blobs");
            assert!(by_fjall || synced.contains(&directory), "{}", directory.display());
            for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
                journals += usize::from(entry.path().extension().is_some_and(|extension| extension == "jnl"));
                if entry.file_type().unwrap().is_dir() {
                    left.push(entry.path());
                }
            }
        }
        assert_eq!(journals, 1);
    }
}
