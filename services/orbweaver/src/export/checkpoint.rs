//! Up to where the log is in the files.

use std::{collections::BTreeMap, path::Path};

use orbweaver_log::{Offset, TopicPartition};
use serde::{Deserialize, Serialize};

use super::Tally;
use crate::exit::Failure;

/// Up to where the log is in the files, and what they hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The next offset to be read, by `topic/partition`.
    pub positions: BTreeMap<String, Offset>,
    /// Length of `documents.jsonl`, in bytes.
    pub documents_bytes: u64,
    /// Length of `urls.jsonl`, in bytes.
    pub urls_bytes: u64,
    /// For each earlier run of the program: the lengths of both files at its last checkpoint. What it wrote behind was cut.
    pub runs: Vec<(u64, u64)>,
    /// What the lines say.
    pub tally: Tally,
}

impl Checkpoint {
    /// Reads the last checkpoint; the beginning when there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::Output(format!("{}: {error}", path.display()));
        match std::fs::read(path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| failed(&error)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Begins a run: what the one before wrote behind this checkpoint is cut. Write it before anything else.
    pub fn begin_run(&mut self) {
        self.runs.push((self.documents_bytes, self.urls_bytes));
    }

    /// The number of this run.
    #[must_use]
    pub fn run(&self) -> u32 {
        u32::try_from(self.runs.len()).unwrap_or(u32::MAX)
    }

    /// The lengths of both files when `run` ended; `None` while it lasts.
    #[must_use]
    pub fn end_of(&self, run: u32) -> Option<(u64, u64)> {
        self.runs.get(usize::try_from(run).ok()?).copied()
    }

    /// The next offset of a partition to be read; `None` when nothing was read of it.
    #[must_use]
    pub fn known(&self, place: TopicPartition) -> Option<Offset> {
        self.positions.get(&place.to_string()).copied()
    }

    /// The next offset of a partition to be read.
    #[must_use]
    pub fn position(&self, place: TopicPartition) -> Offset {
        self.positions.get(&place.to_string()).copied().unwrap_or_default()
    }

    /// Records that all below `next` is in the files.
    pub fn advance(&mut self, place: TopicPartition, next: Offset) {
        self.positions.insert(place.to_string(), next);
    }
}
