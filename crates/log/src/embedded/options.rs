//! Options of the embedded log.

use std::time::Duration;

use crate::{LogError, RECORD_LIMIT};

/// When appended data reaches the disk.
///
/// Under every policy a record is passed to the operating system before it is acknowledged, so it outlives the process,
/// however that ends. The policies differ in what a power cut (or a crash of the system) may lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPolicy {
    /// This long after the first append since the last flush. A power cut rolls the whole log, commits included, back
    /// to a single earlier moment, at most this long (plus the time the disk needs) ago: no effect survives without its
    /// cause. So does a failed sync.
    Every(Duration),
    /// Before each acknowledgement: a power cut loses nothing that was acknowledged. Costs one disk flush per append.
    EachAppend,
    /// When the log is closed. After a power cut the log may have lost anything since it was opened, or refuse to open:
    /// for tests and disposable crawls.
    Never,
}

/// Options of the embedded log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// When appended data reaches the disk.
    pub sync: SyncPolicy,
    /// Size in bytes at which a segment file is closed and a new one begun, 4 KiB to 1 GiB. Records are deleted by
    /// whole segments, so the log holds up to about this many bytes per partition beyond the needed ones.
    pub segment_bytes: u64,
    /// Maximum size of a record (key, value and headers), in bytes, at most 256 MiB; see
    /// [`Log::record_limit`](crate::Log::record_limit).
    pub record_limit: usize,
    /// Maximum number of records per batch read.
    pub batch_records: usize,
    /// A batch ends with the record that brings it to this size, in bytes.
    pub batch_bytes: usize,
    /// Maximum number of segment files kept open (briefly a few more while in use).
    pub open_files: usize,
    /// Minimum age of a tombstone before compaction removes it, so that slow readers of a compacted topic see it.
    pub tombstone_retention: Duration,
    /// Approximate number of keys that a compaction keeps in memory, at about 50 bytes each; more take several
    /// compactions.
    pub compaction_keys: usize,
    /// Interval of compaction checks; `None`: only by [`EmbeddedLog::maintain`](super::EmbeddedLog::maintain).
    pub maintain_every: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sync: SyncPolicy::Every(Duration::from_secs(1)),
            segment_bytes: 8 << 20,
            record_limit: RECORD_LIMIT,
            batch_records: 1_000,
            batch_bytes: 1 << 20,
            open_files: 256,
            tombstone_retention: Duration::from_secs(24 * 3_600),
            compaction_keys: 1_000_000,
            maintain_every: Some(Duration::from_secs(30)),
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
        let counts = [
            ("batch_records", self.batch_records),
            ("batch_bytes", self.batch_bytes),
            ("open_files", self.open_files),
            ("compaction_keys", self.compaction_keys),
        ];
        for (name, value) in counts {
            if value == 0 {
                return invalid(name, &value, "1 and more");
            }
        }
        for (name, period) in [("maintain_every", self.maintain_every), ("sync", Some(self.sync.period()))] {
            if period.is_some_and(|period| period.is_zero()) {
                return invalid(name, &"0 s", "1 ms and more");
            }
        }
        Ok(())
    }
}

impl SyncPolicy {
    /// Returns the delay from the first change to a flush (see `pass`).
    pub(super) fn period(self) -> Duration {
        match self {
            Self::Every(period) => period,
            Self::EachAppend | Self::Never => Duration::from_secs(1),
        }
    }

    /// Returns the name in a checkpoint.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Every(_) => "every",
            Self::EachAppend => "append",
            Self::Never => "never",
        }
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
            (Options { sync: SyncPolicy::Every(Duration::ZERO), ..Options::default() }, "sync = 0 s"),
        ];
        for (options, part) in bad {
            let error = options.check().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
