//! Export to a directory: an unfinished shard is a file with the suffix `.tmp`, which is synced and renamed.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

use super::{
    error::ShardsError,
    manifest::Manifest,
    sink::{MANIFEST, Sink},
};
use crate::durable::{create_dir, read_whole, sync_dir, write_whole};

/// Directory of an export.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Held while this process exports; the operating system releases it however the process ends.
    _lock: File,
}

impl Directory {
    /// Opens or creates a directory, unless another process exports to it.
    pub(super) fn open(path: &Path) -> Result<Self, ShardsError> {
        create_dir(path)?;
        let lock = File::open(path).map_err(|source| output(path, source))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                Err(output(path, io::Error::other("another process is exporting to it")))
            }
            Err(error) => Err(output(path, error.into())),
        }
    }

    fn unfinished(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.tmp"))
    }
}

fn output(path: &Path, source: io::Error) -> ShardsError {
    ShardsError::Output { output: path.display().to_string(), source }
}

impl Sink for Directory {
    type File = File;

    fn load(&self) -> Result<Option<Manifest>, ShardsError> {
        Ok(read_whole(&self.path.join(MANIFEST))?)
    }

    fn check_unused(&self) -> Result<(), ShardsError> {
        for entry in fs::read_dir(&self.path).map_err(|source| output(&self.path, source))? {
            // A process that is killed while it creates the manifest leaves this file.
            if entry.map_err(|source| output(&self.path, source))?.file_name() != "manifest.json.new" {
                let message = "it is not empty and has no export; give another destination";
                return Err(output(&self.path, io::Error::other(message)));
            }
        }
        Ok(())
    }

    /// Does nothing: the lock excludes other runs.
    fn claim(&self, _manifest: &Manifest) -> Result<(), ShardsError> {
        Ok(())
    }

    fn create(&self, name: &str) -> io::Result<File> {
        File::create(self.unfinished(name))
    }

    fn publish(&self, file: File, name: &str) -> io::Result<()> {
        file.sync_all()?;
        fs::rename(self.unfinished(name), self.path.join(name))?;
        sync_dir(&self.path)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        for path in [self.unfinished(name), self.path.join(name)] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn save(&self, manifest: &Manifest) -> Result<(), ShardsError> {
        Ok(write_whole(&self.path.join(MANIFEST), manifest)?)
    }
}
