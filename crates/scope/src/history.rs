//! History of a versioned setting, as a writer needs it: the versions that have applied, and the skipped records.
//!
//! A skipped record changes nothing for a reader of the whole log. After compaction, however, it may be the first
//! record left and would apply. A later record that applies must therefore name it.

use std::collections::{BTreeSet, VecDeque};

use crate::Version;

/// Maximum number of records that are remembered: of those that have applied, and of skipped ones until an applied record
/// names them. The newest are kept; a writer reads its own record back at once.
const REMEMBERED: usize = 64;

/// Records of one setting, up to the offset that was read. `T` is the content of a record without the versions it
/// replaces.
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
    /// Notes a record that applies from now on. A record that names no versions replaces all of them.
    pub(crate) fn applied(&mut self, version: Version, replaces: &[Version]) {
        self.won.insert(version);
        if self.won.len() > REMEMBERED {
            self.won.pop_first();
        }
        self.uncovered.retain(|(lost, _)| !replaces.is_empty() && !replaces.contains(lost));
    }

    /// Notes the deletion of the setting.
    pub(crate) fn deleted(&mut self) {
        self.uncovered.clear();
    }

    /// Notes a record that does not apply. `said` is `None` if the record is unreadable.
    pub(crate) fn passed_over(&mut self, version: Version, said: Option<T>) {
        self.uncovered.push_back((version, said));
        if self.uncovered.len() > REMEMBERED {
            self.uncovered.pop_front();
        }
    }

    /// Returns `true` if the record at this offset has ever applied.
    pub(crate) fn has_applied(&self, version: Version) -> bool {
        self.won.contains(&version)
    }

    /// Returns `true` if the applied content `says` has to be appended again because a skipped record differs from it.
    pub(crate) fn wants_repair(&self, says: &T) -> bool {
        self.uncovered.iter().any(|(_, lost)| lost.as_ref() != Some(says))
    }

    /// Returns the versions that the next record has to name if `applies` is the version in force.
    pub(crate) fn to_replace(&self, applies: Option<Version>) -> Vec<Version> {
        applies.into_iter().chain(self.uncovered.iter().map(|(lost, _)| *lost)).collect()
    }
}
