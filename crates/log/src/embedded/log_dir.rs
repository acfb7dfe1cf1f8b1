//! The directory of a log: its lock, format version and topics.
//!
//! ```text
//! LOCK  FORMAT  failed  checkpoint.0  checkpoint.1  commits.N  topics/TOPIC/PARTITION/FIRST_OFFSET.log
//! ```
//! `failed` exists from a failed sync to the next recovery.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

use super::{
    files::{at, create, create_dir, sync_dir},
    recover::partition_dir,
};
use crate::{LogError, Partition, TopicSpec};

/// Format of the files. Since 2 there are compressed blocks; a log without them is one of this format as well.
const FORMAT: &str = "orbweaver log 2\n";
const WITHOUT_BLOCKS: &str = "orbweaver log 1\n";

/// Creates the directory if it is absent, locks it for this process, and checks that it is a log. The operating system
/// releases the lock when the process ends, however it ends.
pub(super) fn take(dir: &Path) -> Result<File, LogError> {
    create_dir(dir)?;
    let lock = create(&dir.join("LOCK"))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => LogError::Invalid(format!(
            "the log in `{}` is in use by another process; stop it first, or choose another directory",
            dir.display()
        )),
        error => at(dir)(error.into()),
    })?;
    let path = dir.join("FORMAT");
    match fs::read_to_string(&path) {
        Ok(format) if format == FORMAT => {}
        Ok(format) if format == WITHOUT_BLOCKS => write_format(dir, &path)?,
        Ok(format) => {
            return Err(LogError::Invalid(format!(
                "the log in `{}` has the format `{}`; this version reads `{}`",
                dir.display(),
                format.trim_end(),
                FORMAT.trim_end()
            )));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => begin(dir, &path)?,
        Err(error) => return Err(at(&path)(error)),
    }
    Ok(lock)
}

fn begin(dir: &Path, format: &Path) -> Result<(), LogError> {
    for entry in fs::read_dir(dir).map_err(at(dir))? {
        let name = entry.map_err(at(dir))?.file_name();
        if name != "LOCK" && name != "FORMAT.tmp" {
            return Err(LogError::Invalid(format!(
                "`{}` is neither a log nor empty: it contains `{}`; choose another directory",
                dir.display(),
                name.display()
            )));
        }
    }
    write_format(dir, format)
}

fn write_format(dir: &Path, format: &Path) -> Result<(), LogError> {
    let unfinished = dir.join("FORMAT.tmp");
    fs::write(&unfinished, FORMAT).map_err(at(&unfinished))?;
    File::open(&unfinished).and_then(|file| file.sync_all()).map_err(at(&unfinished))?;
    fs::rename(&unfinished, format).map_err(at(format))?;
    sync_dir(dir)
}

/// Returns the directory of a topic, creating it if it is absent.
pub(super) fn topic(dir: &Path, spec: &TopicSpec) -> Result<PathBuf, LogError> {
    let topics = dir.join("topics");
    let path = topics.join(spec.topic.0);
    match fs::read_dir(&path) {
        Ok(entries) => {
            let found = entries.filter(Result::is_ok).count();
            if found != spec.partitions as usize {
                return Err(LogError::Invalid(format!(
                    "`{}` has {found} partitions, not {}; use {found}, or create a log in another directory",
                    path.display(),
                    spec.partitions
                )));
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => make(dir, &topics, spec)?,
        Err(error) => return Err(at(&path)(error)),
    }
    Ok(path)
}

/// Creates all partitions in a temporary directory and renames it, so that a topic never exists with only some of them.
fn make(dir: &Path, topics: &Path, spec: &TopicSpec) -> Result<(), LogError> {
    let unfinished = dir.join("topic.tmp");
    match fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(at(&unfinished)(error)),
        _ => {}
    }
    fs::create_dir_all(topics).map_err(at(topics))?;
    fs::create_dir(&unfinished).map_err(at(&unfinished))?;
    for partition in 0..spec.partitions as Partition {
        let path = partition_dir(&unfinished, partition);
        fs::create_dir(&path).map_err(at(&path))?;
    }
    sync_dir(&unfinished)?;
    let path = topics.join(spec.topic.0);
    fs::rename(&unfinished, &path).map_err(at(&path))?;
    sync_dir(topics)?;
    sync_dir(dir)
}
