//! Mark of a store after a failed write, sync or opening.
//!
//! After a failed sync, the system may treat pages as written that are not on disk: they can be read, a later sync of
//! them succeeds, and a power cut loses them and everything appended after them. fjall does not report each failed sync
//! of its journals (those of its worker and of an opening look like any other failure; that of closing is only logged).
//! Therefore any failed write, sync or opening marks the store, and an opening that finds the mark writes the journals
//! again before fjall reads them. All other files are synced before anything refers to them, and abandoned if that
//! fails.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// Name of the mark.
const NAME: &str = "failed";
/// Name of fjall's lock.
const LOCK: &str = "lock";
/// Size of a read, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// Marks the store, as durably as the disk allows. The file is the mark, even an empty one; its content is for the
/// user.
pub(super) fn set(dir: &Path, reason: &str) {
    let write = |mut file: File| file.write_all(reason.as_bytes()).and_then(|()| file.sync_all());
    let marked = File::create(dir.join(NAME)).and_then(write);
    if let Err(error) = marked.and(sync(dir)) {
        tracing::warn!(dir = %dir.display(), %error, "the mark of the failed store may not be durable");
    }
}

/// Returns whether a write, a sync or an opening failed since the store was last opened.
pub(super) fn is_set(dir: &Path) -> io::Result<bool> {
    dir.join(NAME).try_exists()
}

/// Removes the mark, once the store is open and durable.
pub(super) fn clear(dir: &Path) -> io::Result<()> {
    fs::remove_file(dir.join(NAME)).and_then(|()| sync(dir))
}

/// Writes all journals again, and syncs them. The database is closed.
pub(super) fn rewrite_journals(dir: &Path) -> fjall::Result<()> {
    // Another process would append meanwhile.
    let lock = lock(dir)?;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            rewrite(&File::options().read(true).write(true).open(&path)?)?;
        }
    }
    lock.unlock()?;
    Ok(())
}

/// Locks the database as fjall does, which also waits: threads of a database that was just closed may still hold the
/// lock.
#[allow(clippy::disallowed_methods, reason = "called where fjall sleeps, too")]
pub(super) fn lock(dir: &Path) -> fjall::Result<File> {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(dir.join(LOCK))?;
    for _ in 0..3 {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(error.into()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
    Err(fjall::Error::Locked)
}

fn rewrite(file: &File) -> io::Result<()> {
    let mut buffer = vec![0; PIECE_BYTES];
    let mut position = 0;
    loop {
        let count = file.read_at(&mut buffer, position)?;
        if count == 0 {
            return file.sync_all();
        }
        let piece = buffer.get(..count).unwrap_or_default();
        // After its content a journal is a hole of zeros, which occupies no space.
        let content = piece.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        file.write_all_at(piece.get(..content).unwrap_or_default(), position)?;
        position += count as u64;
    }
}

fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use orbweaver_url::Fingerprint;

    use super::super::{FjallOptions, FjallStore};
    use super::*;
    use crate::{LinksOut, Store as _, StoreError, Write, contract};

    fn links(number: u8) -> LinksOut {
        contract::links(Fingerprint([number; 16]), 1, 1)
    }

    fn open(dir: &Path) -> FjallStore {
        FjallStore::open(dir, FjallOptions::default()).unwrap()
    }

    #[test]
    fn a_journal_is_written_again_up_to_the_end_of_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.jnl");
        let mut content: Vec<u8> = (0..3 * PIECE_BYTES + 7).map(|at| (at % 251) as u8).collect();
        content[PIECE_BYTES - 5..2 * PIECE_BYTES + 5].fill(0);
        fs::write(&path, &content).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        // Reserved, as by fjall.
        let reserved = content.len() + 8 * PIECE_BYTES;
        file.set_len(reserved as u64).unwrap();
        content.resize(reserved, 0);
        file.set_modified(UNIX_EPOCH).unwrap();
        rewrite_journals(dir.path()).unwrap();
        assert!(fs::read(&path).unwrap() == content);
        assert_ne!(file.metadata().unwrap().modified().unwrap(), UNIX_EPOCH);
    }

    #[tokio::test]
    async fn a_store_whose_sync_failed_is_neither_written_nor_synced_until_it_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let sync = store.syncer();
        store.write(vec![Write::Links(links(1))]).await.unwrap();
        sync().unwrap();
        let error = store.shared.synced(Err(fjall::Error::Io(io::Error::other("broken disk")))).unwrap_err();
        assert!(error.to_string().contains("broken disk"), "{error}");
        for error in [store.write(vec![Write::Links(links(2))]).await.unwrap_err(), sync().unwrap_err()] {
            let refused = matches!(&error, StoreError::Refused(reason) if reason.contains("broken disk"));
            assert!(refused && error.to_string().contains(&*dir.path().to_string_lossy()), "no retry helps: {error}");
        }
        drop(store);
        assert!(is_set(dir.path()).unwrap());

        let store = open(dir.path());
        assert!(!is_set(dir.path()).unwrap());
        assert_eq!(store.links(links(1).fingerprint).await.unwrap(), Some(links(1)));
        assert_eq!(store.links(links(2).fingerprint).await.unwrap(), None);
        store.write(vec![Write::Links(links(2))]).await.unwrap();
        store.syncer()().unwrap();
    }

    #[tokio::test]
    async fn only_a_marked_store_writes_its_journals_again_when_it_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path()).write(vec![Write::Links(links(1))]).await.unwrap();
        // The first opening cuts off the reserved space.
        drop(open(dir.path()));
        let journal = File::options().write(true).open(dir.path().join("0.jnl")).unwrap();
        let written_again = || {
            journal.set_modified(UNIX_EPOCH).unwrap();
            drop(open(dir.path()));
            journal.metadata().unwrap().modified().unwrap() != UNIX_EPOCH
        };
        assert!(!written_again());
        set(dir.path(), "broken disk");
        assert!(written_again());
        assert!(!written_again(), "the mark is gone");
        let store = open(dir.path());
        assert_eq!(store.links(links(1).fingerprint).await.unwrap(), Some(links(1)));
    }

    #[test]
    fn a_store_that_could_not_be_opened_is_marked_until_it_can() {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path()));
        let (keyspaces, aside) = (dir.path().join("keyspaces"), dir.path().join("aside"));
        fs::rename(&keyspaces, &aside).unwrap();
        File::create(&keyspaces).unwrap();
        assert!(FjallStore::open(dir.path(), FjallOptions::default()).is_err());
        assert!(is_set(dir.path()).unwrap(), "the sync of its journal may have failed");
        fs::remove_file(&keyspaces).unwrap();
        fs::rename(&aside, &keyspaces).unwrap();
        drop(open(dir.path()));
        assert!(!is_set(dir.path()).unwrap());
    }

    #[test]
    fn a_marked_store_in_use_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        set(dir.path(), "broken disk");
        let error = FjallStore::open(dir.path(), FjallOptions::default()).err().unwrap().to_string();
        assert!(error.contains("another process uses it"), "{error}");
        assert!(is_set(dir.path()).unwrap());
        drop(store);
        open(dir.path());
    }
}
