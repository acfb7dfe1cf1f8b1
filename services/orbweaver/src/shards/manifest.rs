//! `manifest.json` of an export: its options, its shards, and its positions in the results.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{args::Kind, filter::Filter};
use crate::results::Position;

/// Version of the manifest that this program reads and writes.
pub(super) const FORMAT: u32 = 1;

/// Contents of `manifest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// Version of the manifest.
    pub(super) format: u32,
    pub(super) filter: Filter,
    pub(super) kinds: BTreeMap<Kind, Exported>,
}

/// Selected results: of another selection, the shards of one export would have gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selection {
    /// In the order of the kinds.
    pub(super) what: Vec<Kind>,
    pub(super) filter: Filter,
}

/// Exported results of a kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Exported {
    /// Position in the result file: the shards have all selected records before it.
    pub(super) position: Position,
    /// SHA-256 of the last bytes before the position, which identifies the result file.
    pub(super) check: String,
    pub(super) shards: Vec<Shard>,
}

/// A complete shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shard {
    /// Name of the file.
    pub(super) file: String,
    /// Number of lines.
    pub(super) records: u64,
    /// Size of the file.
    pub(super) bytes: u64,
    /// Size before compression.
    pub(super) uncompressed_bytes: u64,
    /// SHA-256 of the file, in hexadecimal digits.
    pub(super) sha256: String,
    /// Position in the result file before the line of the first record.
    pub(super) from: Position,
    /// Position after the last line that was read for the shard.
    pub(super) to: Position,
}

impl Manifest {
    /// Creates the manifest of an export without shards.
    pub(super) fn new(selection: Selection) -> Self {
        let kinds = selection.what.iter().map(|kind| (*kind, Exported::default())).collect();
        Self { format: FORMAT, filter: selection.filter, kinds }
    }

    /// Returns the selection of the export.
    pub(super) fn selection(&self) -> Selection {
        Selection { what: self.kinds.keys().copied().collect(), filter: self.filter.clone() }
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Filter { sites, status, languages, unique, since, until } = &self.filter;
        write!(f, "--what {}", joined(self.what.iter().map(|kind| kind.name())))?;
        for (option, values) in [("site", joined(sites)), ("status", joined(status)), ("language", joined(languages))] {
            if !values.is_empty() {
                write!(f, " --{option} {values}")?;
            }
        }
        if *unique {
            write!(f, " --unique")?;
        }
        for (option, time) in [("since", since), ("until", until)] {
            if let Some(time) = time {
                write!(f, " --{option} {time}")?;
            }
        }
        Ok(())
    }
}

fn joined<T: ToString>(values: impl IntoIterator<Item = T>) -> String {
    values.into_iter().map(|value| value.to_string()).collect::<Vec<_>>().join(",")
}
