//! The tables on fjall, kept within bounds that fjall alone does not keep.

use std::fmt::Display;
use std::path::Path;
use std::time::{Duration, Instant};

use fjall::config::FilterPolicy;
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, OwnedWriteBatch, PersistMode,
};

use super::FjallOptions;
use crate::StoreError;

/// A table and the place of its keyspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Table {
    /// Fingerprint to page.
    Pages,
    /// Fingerprint and time, newest first, to event; the newest one is the page itself.
    History,
    /// Fingerprint to links.
    Links,
    /// Fingerprint to redirect.
    Redirects,
    /// Authority to robots.txt.
    Robots,
}

impl Table {
    pub(super) const ALL: [Self; 5] = [Self::Pages, Self::History, Self::Links, Self::Redirects, Self::Robots];

    /// The name of its keyspace, also in errors.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::History => "history",
            Self::Links => "links",
            Self::Redirects => "redirects",
            Self::Robots => "robots",
        }
    }

    /// What its memtable may take of the whole, in sixteenths: by the bytes a page that go there.
    fn share(self) -> u64 {
        match self {
            Self::Links => 8,
            Self::Pages => 4,
            Self::History => 2,
            Self::Redirects | Self::Robots => 1,
        }
    }

    fn options(self) -> KeyspaceCreateOptions {
        // Memtables are rotated by `Tables::make_room`, not by fjall.
        let options = KeyspaceCreateOptions::default().max_memtable_size(u64::MAX);
        match self {
            // Read by range alone, for which a filter is of no use.
            Self::History => options.filter_policy(FilterPolicy::disabled()),
            // Large and hardly ever changed: kept aside, so that a compaction does not copy them.
            Self::Links => {
                // They are compressed already.
                let aside = KvSeparationOptions::default().compression(CompressionType::None);
                options.with_kv_separation(Some(aside.separation_threshold(SEPARATE_FROM)))
            }
            Self::Pages | Self::Redirects | Self::Robots => options,
        }
    }
}

/// Links from this size on are kept aside of their keys. In bytes.
const SEPARATE_FROM: u32 = 512;
/// One alone: of several, fjall keeps the first for flushes, and that one takes every request for a compaction and puts it
/// back until another worker is free, in a loop that takes a core for as long. A compaction holds up flushes instead; two
/// full memtables of each table may wait meanwhile.
const WORKER_THREADS: usize = 1;
/// What a row takes in a memtable beyond key and value: skip list node, versions. In bytes.
const ROW_OVERHEAD: u64 = 96;
/// Full memtables that may wait to be flushed. At four, fjall sleeps in a loop that a dead flush worker never ends.
const SEALED: usize = 2;
/// Tables in level 0 from which writes wait. At thirty runs, fjall sleeps in such a loop, too.
const LEVEL_0: usize = 20;
/// Files that are kept open.
const OPEN_FILES: usize = 256;
/// Journals may take so much, the least that fjall allows apart from twice its segment. In bytes.
const JOURNAL_BYTES: u64 = 160 << 20;
/// So long a flush may take before the database is taken for broken.
const STALLED: Duration = Duration::from_secs(120);

/// An open database.
pub(super) struct Tables {
    database: Database,
    keyspaces: [Keyspace; 5],
}

/// How full the memtables are. fjall asks its workers to rotate them, one message a write, so that a busy worker lets
/// them grow without bound (638 MB for 300,000 pages, measured) and a full queue of messages stops a lone worker for ever.
/// The one writer counts instead, and rotates itself.
#[derive(Debug, Default)]
pub(super) struct Fill([u64; 5]);

impl Tables {
    pub(super) fn open(dir: &Path, options: &FjallOptions) -> Result<Self, StoreError> {
        let builder = Database::builder(dir)
            .cache_size(options.block_cache_bytes)
            .worker_threads(WORKER_THREADS)
            .max_cached_files(Some(OPEN_FILES))
            .max_journaling_size(JOURNAL_BYTES);
        let opening = |error| failed("opening", dir, &error);
        let database = builder.open().map_err(opening)?;
        let open = |table: Table| database.keyspace(table.name(), || table.options()).map_err(opening);
        let [pages, history, links, redirects, robots] = Table::ALL.map(open);
        let keyspaces = [pages?, history?, links?, redirects?, robots?];
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

    /// What the memtables hold after opening is not known by table: each is counted as if all were its own.
    pub(super) fn fill(&self) -> Fill {
        Fill([self.database.write_buffer_size(); 5])
    }

    /// Rotates the memtables that are full, and waits while too many of them wait to be flushed. Blocks.
    #[allow(clippy::disallowed_methods, reason = "called from the writer's own thread, which may block")]
    pub(super) fn make_room(&self, fill: &mut Fill, options: &FjallOptions) -> fjall::Result<()> {
        for table in Table::ALL {
            let (keyspace, bytes) = (self.keyspace(table), &mut fill.0[table as usize]);
            if *bytes < options.memtable_bytes / 16 * table.share() {
                continue;
            }
            let since = Instant::now();
            while keyspace.sealed_memtable_count() >= SEALED || keyspace.l0_table_count() >= LEVEL_0 {
                // Fails when a flush or compaction has failed, which is how its end is learnt of.
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
    /// Counts a row that was written.
    pub(super) fn add(&mut self, table: Table, bytes: usize) {
        self.0[table as usize] += bytes as u64 + ROW_OVERHEAD;
    }
}

/// The error of an operation on the database in `dir`.
pub(super) fn failed(doing: &str, dir: &Path, error: &fjall::Error) -> StoreError {
    let reason: &dyn Display = match error {
        fjall::Error::Io(io) | fjall::Error::Storage(fjall::LsmError::Io(io)) => {
            use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
            if matches!(io.kind(), StorageFull | QuotaExceeded | FileTooLarge) {
                &format!("the disk is full ({io}); make room there, and it goes on")
            } else {
                io
            }
        }
        fjall::Error::Poisoned => &"an earlier write, flush or compaction failed, mostly since the disk is full",
        fjall::Error::Locked => &"another process uses it; one crawl directory can be used by one process at a time",
        other => other,
    };
    StoreError::Failed(format!("{doing} {}: {reason}", dir.display()))
}

/// The error of reading the value at a key.
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

/// The error of a value that cannot be decoded.
pub(super) fn damaged(table: Table, key: &[u8], reason: String) -> StoreError {
    StoreError::Damaged { key: place(table, key), reason }
}

/// Table and key for people: text as text, all else as hexadecimal digits.
fn place(table: Table, key: &[u8]) -> String {
    let text = std::str::from_utf8(key).ok().filter(|text| table == Table::Robots && !text.contains(char::is_control));
    let key = text.map_or_else(|| key.iter().map(|byte| format!("{byte:02x}")).collect(), str::to_owned);
    format!("{}/{key}", table.name())
}
