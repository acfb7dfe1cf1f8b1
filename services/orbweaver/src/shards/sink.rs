//! Destination of an export: the directory with the shards and the manifest.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

use super::{
    error::ShardsError,
    manifest::{FORMAT, Manifest, Selection},
};
use crate::durable::{create_dir, read_whole, sync_dir, write_whole};

const MANIFEST: &str = "manifest.json";

/// Destination of shards. An unfinished shard has no final name, and nothing depends on it.
pub(super) trait Sink {
    /// An unfinished shard.
    type File: Write;

    /// Begins a shard; replaces an unfinished one of this name.
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// Makes a shard durable, and then gives it its final name.
    fn publish(&self, file: Self::File, name: &str) -> io::Result<()>;

    /// Replaces the manifest atomically and durably.
    fn save(&self, manifest: &Manifest) -> Result<(), ShardsError>;
}

/// Directory of an export.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Held while this process exports; the operating system releases it however the process ends.
    _lock: File,
}

impl Directory {
    /// Opens or creates a directory, and returns it with its manifest. Removes shards that an interrupted run did not
    /// complete.
    pub(super) fn open(path: &Path, selection: Selection) -> Result<(Self, Manifest), ShardsError> {
        create_dir(path)?;
        let refused = |message: &str| output(path, io::Error::other(message));
        let lock = File::open(path).map_err(|source| output(path, source))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(refused("another process is exporting to it")),
            Err(error) => return Err(output(path, error.into())),
        }
        let directory = Self { path: path.to_owned(), _lock: lock };
        let Some(manifest) = read_whole::<Manifest>(&path.join(MANIFEST))? else {
            directory.check_unused()?;
            let manifest = Manifest::new(selection);
            directory.save(&manifest)?;
            return Ok((directory, manifest));
        };
        if manifest.format != FORMAT {
            return Err(refused(&format!("its manifest has the format {}, not {FORMAT}", manifest.format)));
        }
        let stored = manifest.selection();
        if stored != selection {
            let (stored, given) = (stored.to_string(), selection.to_string());
            return Err(ShardsError::Selection { dir: path.to_owned(), stored, given });
        }
        directory.remove_unfinished(&manifest)?;
        Ok((directory, manifest))
    }

    /// Removes the shards that the manifest does not name: an interrupted run leaves at most one of each kind.
    pub(super) fn remove_unfinished(&self, manifest: &Manifest) -> Result<(), ShardsError> {
        for (kind, exported) in &manifest.kinds {
            let name = kind.shard(exported.shards.len());
            for path in [self.unfinished(&name), self.path.join(&name)] {
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(output(&path, error)),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Checks that a directory without a manifest has no other files.
    fn check_unused(&self) -> Result<(), ShardsError> {
        for entry in fs::read_dir(&self.path).map_err(|source| output(&self.path, source))? {
            // A process that is killed while it creates the manifest leaves this file.
            if entry.map_err(|source| output(&self.path, source))?.file_name() != "manifest.json.new" {
                let message = "it is not empty and has no export; give another --to";
                return Err(output(&self.path, io::Error::other(message)));
            }
        }
        Ok(())
    }

    fn unfinished(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.tmp"))
    }
}

fn output(path: &Path, source: io::Error) -> ShardsError {
    ShardsError::Output { path: path.to_owned(), source }
}

impl Sink for Directory {
    type File = File;

    fn create(&self, name: &str) -> io::Result<File> {
        File::create(self.unfinished(name))
    }

    fn publish(&self, file: File, name: &str) -> io::Result<()> {
        file.sync_all()?;
        fs::rename(self.unfinished(name), self.path.join(name))?;
        sync_dir(&self.path)
    }

    fn save(&self, manifest: &Manifest) -> Result<(), ShardsError> {
        Ok(write_whole(&self.path.join(MANIFEST), manifest)?)
    }
}
