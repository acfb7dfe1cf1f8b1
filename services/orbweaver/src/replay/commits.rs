//! Commits for the generated records: a small file, rewritten at each commit.

use std::{
    collections::BTreeMap,
    fs, io,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use orbweaver_log::{Commit, LogError, Offset, Partition, TopicPartition};
use orbweaver_messages::topic;
use serde::{Deserialize, Serialize};

/// Commits of a replay, in place of those that the log would hold if it held the records.
#[derive(Debug)]
pub(super) struct Commits {
    path: PathBuf,
    kept: Mutex<BTreeMap<Partition, Kept>>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Kept {
    offset: Offset,
    metadata: String,
}

impl Commits {
    /// Reads the commits, if there are any.
    pub(super) fn open(path: PathBuf) -> Result<Self, LogError> {
        let kept = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        };
        match kept {
            Ok(kept) => Ok(Self { path, kept: Mutex::new(kept) }),
            Err(source) => Err(LogError::Io { path: path.display().to_string(), source }),
        }
    }

    pub(super) fn get(&self, tp: TopicPartition) -> Option<Commit> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.get(&tp.partition).filter(|_| tp.topic == topic::DISCOVERED)?;
        Some(Commit { offset: kept.offset, metadata: kept.metadata.clone() })
    }

    pub(super) fn commit(&self, commits: Vec<(TopicPartition, Commit)>) -> Result<(), LogError> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let generated = commits.into_iter().filter(|(tp, _)| tp.topic == topic::DISCOVERED);
        kept.extend(generated.map(|(tp, Commit { offset, metadata })| (tp.partition, Kept { offset, metadata })));
        let fresh = self.path.with_extension("new");
        let text = serde_json::to_vec(&*kept).unwrap_or_default();
        let written = fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &self.path));
        written.map_err(|source| LogError::Io { path: self.path.display().to_string(), source })
    }
}
