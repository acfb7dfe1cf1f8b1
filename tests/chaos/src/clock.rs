//! Wall clock of the instances, which can be set: libfaketime shifts the machine's clock by the amount in a file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// A wall clock that is shifted by the amount in a file.
#[derive(Debug, Clone)]
pub(crate) struct FakedClock {
    library: PathBuf,
    file: PathBuf,
}

impl FakedClock {
    /// Creates an unshifted clock that uses this library. The file is created in `dir`.
    pub(crate) fn new(library: &Path, dir: &Path) -> Result<Self> {
        let clock = Self { library: library.to_owned(), file: dir.join("clock") };
        clock.set("+0s")?;
        Ok(clock)
    }

    /// Returns the variables of a process that is to use this clock. Monotonic clocks are not shifted.
    pub(crate) fn variables(&self) -> [(String, String); 4] {
        let path = |path: &Path| path.display().to_string();
        [
            ("LD_PRELOAD", path(&self.library)),
            ("FAKETIME_TIMESTAMP_FILE", path(&self.file)),
            // Interval, in seconds, at which the file is read again.
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
    }

    /// Shifts the clock by this amount from the machine's: `-3600s`.
    pub(crate) fn set(&self, by: &str) -> Result<()> {
        // Atomic: a half-written file would contain another amount.
        let new = self.file.with_extension("new");
        fs::write(&new, by).and_then(|()| fs::rename(&new, &self.file)).with_context(|| self.file.display().to_string())
    }
}
