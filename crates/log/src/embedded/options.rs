//! Options of the embedded log.

use std::time::Duration;

use crate::{LogError, RECORD_LIMIT};

/// Options of the embedded log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Delay from the first change since the last flush to the next one.
    ///
    /// A record is passed to the operating system before it is acknowledged, so it outlives the process, however that
    /// ends. A power cut (or a crash of the system) rolls the whole log, commits included, back to a single earlier
    /// moment, at most this long (plus the time the disk needs) ago: no effect survives without its cause. So does a
    /// failed sync.
    pub sync_every: Duration,
    /// Size in bytes at which a segment file is closed and a new one begun, 4 KiB to 1 GiB. Records are deleted by
    /// whole segments, so the log holds up to about this many bytes per partition beyond the needed ones.
    pub segment_bytes: u64,
    /// Maximum size of a record (key, value and headers), in bytes, at most 256 MiB; see
    /// [`Log::record_limit`](crate::Log::record_limit).
    pub record_limit: usize,
    /// Maximum number of segment files kept open (briefly a few more while in use).
    pub open_files: usize,
    /// Minimum age of a tombstone before compaction removes it, so that slow readers of a compacted topic see it.
    pub tombstone_retention: Duration,
    /// Approximate number of keys that a compaction keeps in memory, at about 50 bytes each; more take several
    /// compactions.
    pub compaction_keys: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sync_every: Duration::from_secs(1),
            segment_bytes: 8 << 20,
            record_limit: RECORD_LIMIT,
            open_files: 256,
            tombstone_retention: Duration::from_secs(24 * 3_600),
            compaction_keys: 1_000_000,
        }
    }
}

impl Options {
    /// Validates the options before anything is opened.
    pub(super) fn check(&self) -> Result<(), LogError> {
        let invalid = |name, value: &dyn std::fmt::Display, allowed| {
            Err(LogError::Invalid(format!("the log option {name} = {value}; allowed: {allowed}")))
        };
        if !(4 << 10..=1 << 30).contains(&self.segment_bytes) {
            return invalid("segment_bytes", &self.segment_bytes, "4096 (4 KiB) to 1073741824 (1 GiB)");
        }
        if !(1..=256 << 20).contains(&self.record_limit) {
            return invalid("record_limit", &self.record_limit, "1 to 268435456 (256 MiB)");
        }
        for (name, value) in [("open_files", self.open_files), ("compaction_keys", self.compaction_keys)] {
            if value == 0 {
                return invalid(name, &value, "1 and more");
            }
        }
        if self.sync_every.is_zero() {
            return invalid("sync_every", &"0 s", "1 ms and more");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_cannot_work_is_refused_by_name() {
        Options::default().check().unwrap();
        let bad = [
            (Options { segment_bytes: 100, ..Options::default() }, "segment_bytes = 100"),
            (Options { record_limit: usize::MAX, ..Options::default() }, "record_limit"),
            (Options { open_files: 0, ..Options::default() }, "open_files = 0"),
            (Options { sync_every: Duration::ZERO, ..Options::default() }, "sync_every = 0 s"),
        ];
        for (options, part) in bad {
            let error = options.check().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
