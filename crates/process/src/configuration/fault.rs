//! What is wrong with a configuration.

use std::{fmt, path::Path};

use super::given::Origin;

/// What is wrong: the key, its value, where it came from, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Fault {
    path: String,
    value: Option<String>,
    origin: Option<Origin>,
    problem: String,
}

impl fmt::Display for Fault {
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

impl Fault {
    /// Something is wrong with the key `path`. Its value and origin are added by the settings, when they have them.
    #[must_use]
    pub fn new(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { path: path.into(), value: None, origin: None, problem: problem.into() }
    }

    /// A value is not allowed; this is.
    #[must_use]
    pub fn allowed(path: impl Into<String>, allowed: impl fmt::Display) -> Self {
        Self::new(path, format!("allowed is {allowed}"))
    }

    pub(crate) fn of_file(path: &Path, line: Option<usize>, problem: &str) -> Self {
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        Self::new(format!("{}{line}", path.display()), problem)
    }

    pub(crate) fn at(self, origin: Origin) -> Self {
        Self { origin: Some(origin), ..self }
    }

    /// With a value as it may be shown.
    pub(crate) fn with_value(self, value: String) -> Self {
        Self { value: Some(value), ..self }
    }

    /// The key.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn has_origin(&self) -> bool {
        self.origin.is_some()
    }
}

/// The candidate that a misspelt word is nearest to, when it is near enough to be meant.
pub(crate) fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Comparing costs the product of both lengths; nobody misspells a key by a thousand letters.
    let word: String = word.chars().take(64).collect();
    let scored = candidates.map(|candidate| (strsim::jaro_winkler(&word, candidate), candidate));
    let best = scored.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(score, _)| *score >= 0.75).map(|(_, candidate)| candidate)
}
