//! Checkpoint of the result files.

use std::collections::BTreeMap;

use orbweaver_log::{Offset, TopicPartition};
use serde::{Deserialize, Serialize};

use super::Tally;

/// Log positions and lengths of the result files at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Next offset to take, by `topic/partition`.
    pub positions: BTreeMap<String, Offset>,
    /// Length of `documents.jsonl`, in bytes.
    pub documents_bytes: u64,
    /// Length of `urls.jsonl`, in bytes.
    pub urls_bytes: u64,
    /// Length of `changes.jsonl`, in bytes.
    #[serde(default)]
    pub changes_bytes: u64,
    /// Lengths of the files, in this order, at the last checkpoint of each earlier run of the program. Lines that the run
    /// wrote after it were cut.
    pub runs: Vec<Vec<u64>>,
    /// Counts of the lines.
    pub tally: Tally,
}

impl Checkpoint {
    /// Starts a run: lines that the previous run wrote after this checkpoint are cut. Must be written before anything
    /// else.
    pub fn begin_run(&mut self) {
        self.runs.push(self.lengths().to_vec());
    }

    /// Returns the number of this run.
    #[must_use]
    pub fn run(&self) -> u32 {
        u32::try_from(self.runs.len()).unwrap_or(u32::MAX)
    }

    /// Returns the lengths of the files.
    #[must_use]
    pub fn lengths(&self) -> [u64; 3] {
        [self.documents_bytes, self.urls_bytes, self.changes_bytes]
    }

    /// Sets the lengths of the files.
    pub fn set_lengths(&mut self, lengths: [u64; 3]) {
        [self.documents_bytes, self.urls_bytes, self.changes_bytes] = lengths;
    }

    /// Returns the length of the file of this number at the end of `run`, or `None` while it lasts.
    #[must_use]
    pub fn end_of(&self, run: u32, file: usize) -> Option<u64> {
        let lengths = self.runs.get(usize::try_from(run).ok()?)?;
        Some(lengths.get(file).copied().unwrap_or_default())
    }

    /// Returns the next offset of a topic-partition to take, or `None` if nothing of it was taken.
    #[must_use]
    pub fn position(&self, tp: TopicPartition) -> Option<Offset> {
        self.positions.get(&tp.to_string()).copied()
    }

    /// Records that the files contain everything below these offsets.
    pub fn set_positions(&mut self, positions: &BTreeMap<TopicPartition, Offset>) {
        self.positions = positions.iter().map(|(tp, next)| (tp.to_string(), *next)).collect();
    }
}
