//! Request log.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Logged request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Time at which the response was decided, in microseconds since the web was started; never decreases.
    pub at_us: u64,
    /// `at_us` as microseconds since the Unix epoch.
    pub epoch_us: u64,
    pub host: String,
    /// Path and query, as sent.
    pub target: String,
    /// Status of the response; 0 for a connection that was reset.
    pub status: u16,
    pub agent: String,
    /// Version of the page, if its pages change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// Contents of the request log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Logging {
    /// Only the number of requests.
    #[default]
    Count,
    /// The last requests, up to this number.
    Memory(usize),
    /// All requests, appended to a file as lines of JSON as they arrive.
    File(PathBuf),
}

#[derive(Debug)]
enum Kept {
    Memory { entries: VecDeque<Entry>, most: usize },
    File(File),
}

/// Requests received by a web.
#[derive(Debug)]
pub struct RequestLog {
    count: AtomicU64,
    failures: AtomicU64,
    started: Instant,
    epoch: Duration,
    kept: Option<Mutex<Kept>>,
}

impl RequestLog {
    /// Creates an empty log.
    pub fn open(logging: &Logging) -> io::Result<Self> {
        let kept = match logging {
            Logging::Count => None,
            Logging::Memory(most) => Some(Kept::Memory { entries: VecDeque::new(), most: *most }),
            Logging::File(path) => Some(Kept::File(append(path)?)),
        };
        #[allow(clippy::disallowed_methods, reason = "the edge at which the web learns what time it is, once")]
        let now = SystemTime::now();
        Ok(Self {
            count: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            started: Instant::now(),
            epoch: now.duration_since(UNIX_EPOCH).unwrap_or_default(),
            kept: kept.map(Mutex::new),
        })
    }

    /// Returns the time since the web was started, in milliseconds.
    #[must_use]
    pub fn elapsed_ms(&self) -> u64 {
        micros(self.started.elapsed()) / 1_000
    }

    /// Returns the number of requests so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Returns the number of requests that could not be written to the file.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Acquire)
    }

    /// Returns the requests kept in memory, oldest first.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        match self.kept().as_deref() {
            Some(Kept::Memory { entries, .. }) => entries.iter().cloned().collect(),
            Some(Kept::File(_)) | None => Vec::new(),
        }
    }

    /// Logs a request at the current time. Calls `entry` only if something is kept.
    pub(crate) fn note(&self, entry: impl FnOnce(u64, u64) -> Entry) {
        // The clock is read under the lock, so entries are ordered by time.
        if let Some(mut kept) = self.kept() {
            let passed = self.started.elapsed();
            let entry = entry(micros(passed), micros(self.epoch + passed));
            match &mut *kept {
                Kept::Memory { entries, most } => {
                    if entries.len() >= *most {
                        entries.pop_front();
                    }
                    entries.push_back(entry);
                }
                Kept::File(file) => {
                    let line = serde_json::to_vec(&entry).map(|mut line| {
                        line.push(b'\n');
                        line
                    });
                    if line.map_err(io::Error::from).and_then(|line| file.write_all(&line)).is_err() {
                        self.failures.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
        self.count.fetch_add(1, Ordering::Release);
    }

    fn kept(&self) -> Option<MutexGuard<'_, Kept>> {
        self.kept.as_ref().map(|kept| kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn append(path: &Path) -> io::Result<File> {
    let opened = File::options().create(true).append(true).open(path);
    opened.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(log: &RequestLog, target: &str) {
        log.note(|at_us, epoch_us| Entry {
            at_us,
            epoch_us,
            host: "h".into(),
            target: target.into(),
            status: 200,
            agent: "a".into(),
            version: None,
        });
    }

    #[test]
    fn memory_keeps_the_last_requests_and_counts_all() {
        let log = RequestLog::open(&Logging::Memory(2)).unwrap();
        ["/1", "/2", "/3"].iter().for_each(|target| note(&log, target));
        let targets: Vec<_> = log.entries().into_iter().map(|entry| entry.target).collect();
        assert_eq!((targets, log.count()), (vec!["/2".into(), "/3".into()], 3));
    }

    #[test]
    fn a_file_holds_each_request_as_soon_as_it_is_noted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = RequestLog::open(&Logging::File(path.clone())).unwrap();
        for number in 1..4 {
            note(&log, "/1");
            let text = std::fs::read_to_string(&path).unwrap();
            let entries: Vec<Entry> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(entries.len(), number);
        }
        assert_eq!(log.failures(), 0);
    }
}
