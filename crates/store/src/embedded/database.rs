//! The tables on fjall, with limits that fjall alone does not enforce.

use std::fmt::Display;
use std::path::Path;
use std::time::{Duration, Instant};

use fjall::config::FilterPolicy;
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, OwnedWriteBatch, PersistMode,
};

use super::{FjallOptions, mark, names, remove_unfinished};
use crate::StoreError;

/// Table; the value is the index of its keyspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Table {
    /// Fingerprint to page.
    Pages,
    /// Fingerprint and time, newest first, to event; the newest event is the page itself.
    History,
    /// Fingerprint to links.
    Links,
    /// Fingerprint to redirect.
    Redirects,
    /// Authority to robots.txt.
    Robots,
    /// Fingerprint, time and owner epoch, newest first, to the location of a response.
    Captures,
    /// Content hash to the latest fetch with it.
    Contents,
    /// Crawl, site and fingerprint of each page, to its status.
    SitePages,
}

impl Table {
    pub(super) const ALL: [Self; 8] = [
        Self::Pages,
        Self::History,
        Self::Links,
        Self::Redirects,
        Self::Robots,
        Self::Captures,
        Self::Contents,
        Self::SitePages,
    ];

    /// Returns the name of its keyspace, also used in errors.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::History => "history",
            Self::Links => "links",
            Self::Redirects => "redirects",
            Self::Robots => "robots",
            Self::Captures => "captures",
            Self::Contents => "contents",
            Self::SitePages => "site_pages",
        }
    }

    /// Returns its share of the total memtable size, in sixteenths, according to the bytes written per page.
    fn share(self) -> u64 {
        match self {
            Self::Links => 6,
            Self::Pages => 4,
            Self::History | Self::Redirects | Self::Robots | Self::Captures | Self::Contents | Self::SitePages => 1,
        }
    }

    fn options(self) -> KeyspaceCreateOptions {
        // Memtables are rotated by `Tables::rotate_full_memtables`, not by fjall.
        let options = KeyspaceCreateOptions::default().max_memtable_size(u64::MAX);
        match self {
            // Read only by range, for which a filter is useless.
            Self::History => options.filter_policy(FilterPolicy::disabled()),
            // Large and rarely changed: stored separately, so that compactions do not copy them.
            Self::Links => {
                // The values are already compressed.
                let aside = KvSeparationOptions::default().compression(CompressionType::None);
                options.with_kv_separation(Some(aside.separation_threshold(SEPARATE_FROM)))
            }
            Self::Pages | Self::Redirects | Self::Robots | Self::Captures | Self::Contents | Self::SitePages => options,
        }
    }
}

/// Minimum size of links that are stored separately from their keys, in bytes.
const SEPARATE_FROM: u32 = 512;
/// A single worker: with several, fjall reserves the first for flushes, and that one takes each compaction request and
/// puts it back until another worker is free, in a loop that occupies a core. With one worker, a compaction delays
/// flushes instead; meanwhile two full memtables per table may wait.
const WORKER_THREADS: usize = 1;
/// Memory per row in a memtable in addition to key and value (skip list node, versions), in bytes.
const ROW_OVERHEAD: u64 = 96;
/// Maximum number of full memtables that wait to be flushed. At four, fjall sleeps in a loop that never ends if the
/// flush worker has failed.
const SEALED: usize = 2;
/// Number of tables in level 0 at which writes wait. At thirty, fjall sleeps in such a loop, too.
const LEVEL_0: usize = 20;
/// Maximum number of open files.
const OPEN_FILES: usize = 256;
/// Size of all journals from which fjall flushes memtables to delete old ones, in bytes: more than two of its segments.
const JOURNAL_BYTES: u64 = 160 << 20;
/// Maximum duration of a flush; after that the database is considered broken.
const STALLED: Duration = Duration::from_secs(120);

/// Open database.
pub(super) struct Tables {
    database: Database,
    keyspaces: [Keyspace; Table::ALL.len()],
}

/// Number of bytes in each memtable. fjall sends its workers a message per write to rotate them; a busy worker thus
/// lets them grow without bound (638 MB for 300,000 pages, measured), and a full message queue stops a single worker
/// indefinitely. The single writer counts and rotates instead.
#[derive(Debug, Default)]
pub(super) struct Fill([u64; Table::ALL.len()]);

impl Tables {
    pub(super) fn open(dir: &Path, options: &FjallOptions) -> Result<Self, StoreError> {
        let builder = Database::builder(dir)
            .cache_size(options.block_cache_bytes)
            .worker_threads(WORKER_THREADS)
            .max_cached_files(Some(OPEN_FILES))
            .max_journaling_size(JOURNAL_BYTES);
        let opening = |error: fjall::Error| {
            // The error may be a failed sync; the sync of a later opening would succeed.
            if matches!(error, fjall::Error::Io(_) | fjall::Error::Storage(fjall::LsmError::Io(_))) {
                mark::set(dir, &error.to_string());
            }
            failed("opening", dir, &error)
        };
        let opening_io = |error| opening(fjall::Error::Io(error));
        remove_unfinished(dir).map_err(opening)?;
        let marked = mark::is_set(dir).map_err(opening_io)?;
        if marked {
            tracing::warn!(dir = %dir.display(), "an earlier write or sync failed; writing the journals again");
            mark::rewrite_journals(dir).map_err(opening)?;
        }
        let database = builder.open().map_err(opening)?;
        let open = |table: Table| database.keyspace(table.name(), || table.options()).map_err(opening);
        let [pages, history, links, redirects, robots, captures, contents, site_pages] = Table::ALL.map(open);
        let keyspaces = [pages?, history?, links?, redirects?, robots?, captures?, contents?, site_pages?];
        names::sync(dir).map_err(opening_io)?;
        if marked {
            mark::clear(dir).map_err(opening_io)?;
        }
        Ok(Self { database, keyspaces })
    }

    pub(super) fn keyspace(&self, table: Table) -> &Keyspace {
        &self.keyspaces[table as usize]
    }

    pub(super) fn batch(&self) -> OwnedWriteBatch {
        self.database.batch().durability(Some(PersistMode::Buffer))
    }

    pub(super) fn sync(&self) -> fjall::Result<()> {
        self.database.persist(PersistMode::SyncData)
    }

    /// Returns the initial fill. The size per table is unknown after opening: each table is counted as if it held
    /// everything.
    pub(super) fn fill(&self) -> Fill {
        Fill([self.database.write_buffer_size(); Table::ALL.len()])
    }

    /// Rotates full memtables, and waits while too many of them wait to be flushed. Blocks.
    #[allow(clippy::disallowed_methods, reason = "called from the writer's own thread, which may block")]
    pub(super) fn rotate_full_memtables(&self, fill: &mut Fill, options: &FjallOptions) -> fjall::Result<()> {
        for table in Table::ALL {
            let (keyspace, bytes) = (self.keyspace(table), &mut fill.0[table as usize]);
            if *bytes < options.memtable_bytes / 16 * table.share() {
                continue;
            }
            let since = Instant::now();
            while keyspace.sealed_memtable_count() >= SEALED || keyspace.l0_table_count() >= LEVEL_0 {
                // Fails after a failed flush or compaction; there is no other notification.
                self.database.persist(PersistMode::Buffer)?;
                if since.elapsed() > STALLED {
                    return Err(fjall::Error::Poisoned);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            keyspace.rotate_memtable()?;
            *bytes = 0;
        }
        Ok(())
    }
}

impl Fill {
    /// Counts a written row.
    pub(super) fn add(&mut self, table: Table, bytes: usize) {
        self.0[table as usize] += bytes as u64 + ROW_OVERHEAD;
    }
}

/// Returns the error of an operation on the database in `dir`.
pub(super) fn failed(doing: &str, dir: &Path, error: &fjall::Error) -> StoreError {
    let reason: &dyn Display = match error {
        fjall::Error::Io(io) | fjall::Error::Storage(fjall::LsmError::Io(io)) => {
            use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
            if matches!(io.kind(), StorageFull | QuotaExceeded | FileTooLarge) {
                &format!("the disk is full ({io}); free some space, and writing resumes")
            } else {
                io
            }
        }
        fjall::Error::Poisoned => &"an earlier write, flush or compaction failed, usually because the disk is full",
        fjall::Error::Locked => &"another process uses it; one crawl directory can be used by one process at a time",
        other => other,
    };
    StoreError::Failed(format!("{doing} {}: {reason}", dir.display()))
}

/// Returns the error of reading the value at a key.
pub(super) fn unreadable(table: Table, key: &[u8], error: &fjall::Error) -> StoreError {
    use fjall::LsmError as Lsm;
    match error {
        fjall::Error::Storage(
            Lsm::ChecksumMismatch { .. }
            | Lsm::Decompress(_)
            | Lsm::InvalidTag(_)
            | Lsm::InvalidTrailer
            | Lsm::InvalidHeader(_)
            | Lsm::Utf8(_),
        ) => damaged(table, key, error.to_string()),
        other => StoreError::Failed(format!("reading {}: {other}", place(table, key))),
    }
}

/// Returns the error of a value that cannot be decoded.
pub(super) fn damaged(table: Table, key: &[u8], reason: String) -> StoreError {
    StoreError::Damaged { key: place(table, key), reason }
}

/// Formats table and key for messages: text as text, everything else as hexadecimal digits.
fn place(table: Table, key: &[u8]) -> String {
    let text = std::str::from_utf8(key).ok().filter(|text| table == Table::Robots && !text.contains(char::is_control));
    let key = text.map_or_else(|| key.iter().map(|byte| format!("{byte:02x}")).collect(), str::to_owned);
    format!("{}/{key}", table.name())
}
