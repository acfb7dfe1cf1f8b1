//! The wall clock of the instances, which can be set: libfaketime gives them the machine's, moved by the amount in a file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// A wall clock that is moved by as much as a file says.
#[derive(Debug, Clone)]
pub(crate) struct FakedClock {
    library: PathBuf,
    file: PathBuf,
}

impl FakedClock {
    /// The machine's clock for now, through this library. The file is created in `dir`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn new(library: &Path, dir: &Path) -> Result<Self> {
        let clock = Self { library: library.to_owned(), file: dir.join("clock") };
        clock.set("+0s")?;
        Ok(clock)
    }

    /// Variables of a process that is to use this clock. Clocks that cannot be set stay as they are.
    pub(crate) fn variables(&self) -> [(String, String); 4] {
        let path = |path: &Path| path.display().to_string();
        [
            ("LD_PRELOAD", path(&self.library)),
            ("FAKETIME_TIMESTAMP_FILE", path(&self.file)),
            // The file is read again after this number of seconds.
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
    }

    /// Moves the clock by this amount from the machine's: `-3600s`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn set(&self, by: &str) -> Result<()> {
        // In one step: a half-written file would be another time.
        let new = self.file.with_extension("new");
        fs::write(&new, by).and_then(|()| fs::rename(&new, &self.file)).with_context(|| self.file.display().to_string())
    }
}
