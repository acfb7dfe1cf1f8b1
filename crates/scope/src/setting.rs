//! One setting of which each record names the versions that it replaces.
//!
//! A record applies if it names the version in force or if none is in force. To change the setting, a writer reads the
//! log, appends a record that names [`Setting::to_replace`], and reads again: its record has applied if
//! [`Setting::has_applied`], and the setting must be appended once more while [`Setting::wants_repair`].

use crate::{Version, history::History};

/// The state of a setting, up to the offset that was read. `T` is the content of a record without the versions it
/// replaces.
#[derive(Debug)]
pub(crate) struct Setting<T> {
    last: Option<Version>,
    applied: Option<(Version, T)>,
    history: History<T>,
}

impl<T> Default for Setting<T> {
    fn default() -> Self {
        Self { last: None, applied: None, history: History::default() }
    }
}

/// Content of a record.
#[derive(Debug)]
pub(crate) enum Content<T> {
    /// The setting was deleted.
    Tombstone,
    /// The record cannot be read.
    Unreadable,
    /// A value, and the versions that it replaces.
    Value(T, Vec<Version>),
}

impl<T: PartialEq> Setting<T> {
    /// Applies a record. Records must be in log order. Returns `true` if another value applies from now on, or none.
    pub(crate) fn read(&mut self, version: Version, content: Content<T>) -> bool {
        if self.last.is_some_and(|last| last >= version) {
            return false;
        }
        self.last = Some(version);
        match content {
            Content::Tombstone => {
                self.history.deleted();
                self.applied.take().is_some()
            }
            Content::Unreadable => {
                self.history.passed_over(version, None);
                false
            }
            Content::Value(value, replaces) => {
                let applies = self.version().is_none_or(|version| replaces.contains(&version));
                if applies {
                    self.history.applied(version, &replaces);
                    self.applied = Some((version, value));
                } else {
                    self.history.passed_over(version, Some(value));
                }
                applies
            }
        }
    }

    /// Returns the version in force.
    pub(crate) fn version(&self) -> Option<Version> {
        self.applied.as_ref().map(|(version, _)| *version)
    }

    /// Returns the value in force.
    pub(crate) fn value(&self) -> Option<&T> {
        self.applied.as_ref().map(|(_, value)| value)
    }

    /// Returns `true` if the record at this offset has ever applied.
    pub(crate) fn has_applied(&self, version: Version) -> bool {
        self.history.has_applied(version)
    }

    /// Returns `true` if this value must be appended again, so that no skipped record can apply after compaction.
    pub(crate) fn wants_repair(&self, value: &T) -> bool {
        self.history.wants_repair(value)
    }

    /// Returns the versions that the next record must name.
    pub(crate) fn to_replace(&self) -> Vec<Version> {
        self.history.to_replace(self.version())
    }
}
