//! Log of the events of a run, one per line: enough to understand and to repeat it.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use orbweaver_messages::Millis;
use orbweaver_stage::{Clock as _, SystemClock};
use serde_json::Value;

/// Journal of a run: lines of JSON, each written to disk immediately.
#[derive(Debug)]
pub(crate) struct Journal {
    file: Mutex<File>,
    begun_ms: Millis,
}

impl Journal {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("{}", path.display()))?;
        Ok(Self { file: Mutex::new(file), begun_ms: SystemClock.now() })
    }

    #[allow(clippy::needless_pass_by_value, reason = "the note is created for this call")]
    /// Writes an event with its time; if that fails, prints it to stderr.
    pub(crate) fn note(&self, what: &str, about: Value) {
        let now = SystemClock.now();
        let line = serde_json::json!({ "ms": now - self.begun_ms, "epoch_ms": now, "what": what, "about": about });
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = writeln!(file, "{line}") {
            eprintln!("the journal cannot be written: {error}; lost: {line}");
        }
    }
}
