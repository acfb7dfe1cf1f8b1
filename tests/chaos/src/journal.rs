//! What happened in a run, line by line: enough to understand it, and to repeat it.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use orbweaver_messages::Millis;
use orbweaver_stage::{Clock as _, SystemClock};
use serde_json::Value;

/// The journal of a run: lines of JSON, each on disk as soon as it is noted.
#[derive(Debug)]
pub(crate) struct Journal {
    file: Mutex<File>,
    begun_ms: Millis,
}

impl Journal {
    /// A new journal.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("{}", path.display()))?;
        Ok(Self { file: Mutex::new(file), begun_ms: SystemClock.now() })
    }

    #[allow(clippy::needless_pass_by_value, reason = "what is noted is made for it")]
    /// Notes something with its time; what cannot be written is said on stderr.
    pub(crate) fn note(&self, what: &str, about: Value) {
        let now = SystemClock.now();
        let line = serde_json::json!({ "ms": now - self.begun_ms, "epoch_ms": now, "what": what, "about": about });
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = writeln!(file, "{line}") {
            eprintln!("the journal cannot be written: {error}; lost: {line}");
        }
    }
}
