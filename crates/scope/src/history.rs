//! What a writer keeps in mind of a versioned setting: which versions applied, and which records were passed over.
//!
//! A record that was passed over changes nothing for a reader of the whole log; but after compaction it may be the first that
//! is left, and would apply. So it must be named by a later one that applies.

use std::collections::{BTreeSet, VecDeque};

use crate::Version;

/// Records that were passed over and are kept in mind until one that applies names them; the last ones.
const UNCOVERED: usize = 64;

/// The records of one setting, up to where the log was read. `T` is what a record says, whatever it replaces.
#[derive(Debug)]
pub(crate) struct History<T> {
    won: BTreeSet<Version>,
    uncovered: VecDeque<(Version, Option<T>)>,
}

impl<T> Default for History<T> {
    fn default() -> Self {
        Self { won: BTreeSet::new(), uncovered: VecDeque::new() }
    }
}

impl<T: PartialEq> History<T> {
    /// A record applies from now on. One that replaces nothing in particular replaces all.
    pub(crate) fn applied(&mut self, version: Version, replaces: &[Version]) {
        self.won.insert(version);
        self.uncovered.retain(|(lost, _)| !replaces.is_empty() && !replaces.contains(lost));
    }

    /// The setting was deleted.
    pub(crate) fn deleted(&mut self) {
        self.uncovered.clear();
    }

    /// A record does not apply. `said` is `None` when it cannot be read.
    pub(crate) fn passed_over(&mut self, version: Version, said: Option<T>) {
        self.uncovered.push_back((version, said));
        if self.uncovered.len() > UNCOVERED {
            self.uncovered.pop_front();
        }
    }

    /// Whether the record at this offset applied at some time.
    pub(crate) fn has_applied(&self, version: Version) -> bool {
        self.won.contains(&version)
    }

    /// Whether what applies, and says this, is to be appended once more: a record that was passed over says otherwise.
    pub(crate) fn wants_repair(&self, says: &T) -> bool {
        self.uncovered.iter().any(|(_, lost)| lost.as_ref() != Some(says))
    }

    /// The versions that the next record has to name, where this one applies.
    pub(crate) fn to_replace(&self, applies: Option<Version>) -> Vec<Version> {
        applies.into_iter().chain(self.uncovered.iter().map(|(lost, _)| *lost)).collect()
    }
}
