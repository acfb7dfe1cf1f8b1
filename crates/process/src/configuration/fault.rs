//! Faults of a configuration.

use std::{fmt, path::Path};

use super::given::Origin;

/// Fault of a setting: the key, its value, its origin, and the allowed values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SettingError {
    path: String,
    value: Option<String>,
    origin: Option<Origin>,
    problem: String,
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if let Some(value) = &self.value {
            write!(f, " = {value}")?;
        }
        match &self.origin {
            None => {}
            Some(Origin::Default) => f.write_str(" (the default)")?,
            Some(origin) => write!(f, " (from {origin})")?,
        }
        write!(f, ": {}", self.problem)
    }
}

impl SettingError {
    /// Creates a fault of the key `path`. [`Settings::fault`](super::Settings::fault) adds value and origin if known.
    #[must_use]
    pub fn new(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { path: path.into(), value: None, origin: None, problem: problem.into() }
    }

    /// Creates a fault for a value outside of `allowed`.
    #[must_use]
    pub fn allowed(path: impl Into<String>, allowed: impl fmt::Display) -> Self {
        Self::new(path, format!("allowed: {allowed}"))
    }

    pub(crate) fn of_file(path: &Path, line: Option<usize>, problem: &str) -> Self {
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        Self::new(format!("{}{line}", path.display()), problem)
    }

    pub(crate) fn at(self, origin: Origin) -> Self {
        Self { origin: Some(origin), ..self }
    }

    /// Adds the value, redacted if it is a secret.
    pub(crate) fn with_value(self, value: String) -> Self {
        Self { value: Some(value), ..self }
    }

    /// Returns the key.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// Returns the candidate most similar to a misspelt word, if it is similar enough.
pub(crate) fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // The comparison costs the product of both lengths, and no plausible misspelling is longer.
    let word: String = word.chars().take(64).collect();
    let scored = candidates.map(|candidate| (strsim::jaro_winkler(&word, candidate), candidate));
    let best = scored.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(score, _)| *score >= 0.75).map(|(_, candidate)| candidate)
}
