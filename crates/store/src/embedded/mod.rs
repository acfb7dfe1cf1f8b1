//! The embedded store, on [fjall](https://docs.rs/fjall).
//!
//! ```text
//! write(rows) ── encode ──> queue (bounded in bytes) ──> writer thread ── compare, commit ──> journal ──> resolved
//!                                                              └── synced every second
//! ```
//!
//! A write resolves once the operating system has it (a killed process loses nothing). A power failure may lose the
//! last second, as with the log, which syncs the store before its checkpoints ([`FjallStore::syncer`]). While the disk
//! is full, every write fails with that reason; the first one after space was freed reopens the database and succeeds.
//! After a failed sync, nothing is written until the store is opened again (`mark`).
//!
//! Small single-row reads run on the caller's thread: for an absent row, the filters answer in 1 µs, otherwise a read
//! takes about 6 µs. History, links and lists, which may span many blocks, are read on the blocking pool.

mod creation;
mod database;
mod encoding;
mod mark;
mod names;
mod writer;

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, mpsc};
use std::thread::JoinHandle;

use futures::future::{BoxFuture, FutureExt, ready};
use orbweaver_url::{CrawlName, Fingerprint};
use tokio::sync::{Semaphore, oneshot};

pub use self::creation::remove_unfinished;
use self::database::{Table, Tables, damaged, failed, unreadable};
use self::writer::{Request, Row, Writer};
use crate::row::add_capture;
use crate::{
    CaptureRow, ContentRow, DeclaredCanonical, FetchEvent, LinksOut, PageRow, RedirectRow, RobotsRow, SitePage, Store,
    StoreError, Write,
};

/// Maximum size of the queued writes, in bytes.
const QUEUE_BYTES: usize = 4 << 20;

/// Resource limits of an embedded store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FjallOptions {
    /// Memory for the block cache, in bytes.
    pub block_cache_bytes: u64,
    /// Memory for the memtables, in bytes. Up to twice as much again may wait to be flushed.
    pub memtable_bytes: u64,
}

impl Default for FjallOptions {
    fn default() -> Self {
        Self { block_cache_bytes: 16 << 20, memtable_bytes: 24 << 20 }
    }
}

/// Store in a directory, used by one process at a time. Dropping it waits until everything is written and synced.
pub struct FjallStore {
    shared: Arc<Shared>,
    queue: Option<Sender<Request>>,
    room: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

/// State shared by writer and readers.
struct Shared {
    dir: PathBuf,
    options: FjallOptions,
    /// `None` after a failure, until the next write reopens the database.
    tables: RwLock<Option<Tables>>,
    /// Held during a sync. The system reports a failed write-back once: the next sync must see this failure first.
    syncing: Mutex<()>,
    /// Reason for refusing writes: a sync failed.
    sync_failed: OnceLock<String>,
}

impl Shared {
    fn tables(&self) -> RwLockReadGuard<'_, Option<Tables>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn tables_mut(&self) -> RwLockWriteGuard<'_, Option<Tables>> {
        self.tables.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_tables<T>(&self, act: impl FnOnce(&Tables) -> Result<T, StoreError>) -> Result<T, StoreError> {
        match &*self.tables() {
            Some(tables) => act(tables),
            None => {
                let dir = self.dir.display();
                Err(StoreError::Failed(format!("{dir} is closed after a failed write, until the next one succeeds")))
            }
        }
    }

    /// Returns an error once a sync has failed: it is unknown which of the acknowledged writes are on disk.
    fn alive(&self) -> Result<(), StoreError> {
        self.sync_failed.get().map_or(Ok(()), |reason| Err(StoreError::Refused(reason.clone())))
    }

    /// Makes all acknowledged writes durable.
    fn sync(&self) -> Result<(), StoreError> {
        let _syncing = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.alive()?;
        self.with_tables(|tables| self.synced(tables.sync()))
    }

    /// Handles the result of a sync. If fjall only reports an earlier failure, the next write fails too, and the one
    /// after it reopens the database.
    fn synced(&self, result: fjall::Result<()>) -> Result<(), StoreError> {
        result.map_err(|error| {
            mark::set(&self.dir, &error.to_string());
            if let fjall::Error::Io(error) = &error {
                let dir = self.dir.display();
                let remedy = "nothing is written until the store is opened again; check the disk, then restart";
                let _ = self.sync_failed.set(format!("a sync of {dir} failed: {error}; {remedy}"));
            }
            failed("syncing", &self.dir, &error)
        })
    }

    /// Reads the value at `key`.
    fn get<T>(
        &self,
        table: Table,
        key: &[u8],
        decode: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<Option<T>, StoreError> {
        self.with_tables(|tables| {
            let value = tables.keyspace(table).get(key).map_err(|error| unreadable(table, key, &error))?;
            value.map(|value| decode(&value)).transpose().map_err(|reason| damaged(table, key, reason))
        })
    }

    fn history(&self, fingerprint: Fingerprint, limit: usize) -> Result<Vec<FetchEvent>, StoreError> {
        // The page is read first: if it is overwritten meanwhile, its event is found in the history, and counts once.
        let newest = self.get(Table::Pages, &fingerprint.0, |value| {
            let (key, event) = encoding::event_of(&fingerprint.0, value)?;
            encoding::read_event(&key, &event)
        })?;
        let is_older = |event: &FetchEvent| newest.as_ref().is_none_or(|newest| event.at_ms < newest.at_ms);
        let older = self.with_tables(|tables| {
            let events = tables.keyspace(Table::History).prefix(fingerprint.0).map(|entry| {
                let entry = entry.into_inner();
                let (key, value) = entry.map_err(|error| unreadable(Table::History, &fingerprint.0, &error))?;
                encoding::read_event(&key, &value).map_err(|reason| damaged(Table::History, &key, reason))
            });
            let older = events.filter(|event| event.as_ref().map_or(true, is_older));
            older.take(limit).collect::<Result<Vec<_>, _>>()
        })?;
        Ok(newest.into_iter().chain(older).take(limit).collect())
    }

    fn captures(&self, fingerprint: Fingerprint, limit: usize) -> Result<Vec<CaptureRow>, StoreError> {
        self.with_tables(|tables| {
            let rows = tables.keyspace(Table::Captures).prefix(fingerprint.0).map(|entry| {
                let entry = entry.into_inner();
                let (key, value) = entry.map_err(|error| unreadable(Table::Captures, &fingerprint.0, &error))?;
                encoding::read_capture(&key, &value).map_err(|reason| damaged(Table::Captures, &key, reason))
            });
            let mut captures: Vec<CaptureRow> = vec![];
            for row in rows {
                if add_capture(&mut captures, row?, limit).is_break() {
                    break;
                }
            }
            Ok(captures)
        })
    }

    fn site_pages(
        &self,
        (crawl, site): (&CrawlName, &str),
        after: Option<Fingerprint>,
        limit: usize,
    ) -> Result<Vec<SitePage>, StoreError> {
        let at = |fingerprint| encoding::site_page_key(crawl, site, fingerprint);
        let last = at(Fingerprint([0xff; 16]));
        let first = after.map_or(Bound::Included(at(Fingerprint([0; 16]))), |after| Bound::Excluded(at(after)));
        let table = Table::SitePages;
        self.with_tables(|tables| {
            let entries = tables.keyspace(table).range((first, Bound::Included(last.clone())));
            let pages = entries.filter_map(|entry| match entry.into_inner() {
                Ok((key, value)) => encoding::site_page_of(&last, &key).map(|fingerprint| {
                    let page = encoding::read_site_page(fingerprint, &value);
                    page.map_err(|reason| damaged(table, &key, reason))
                }),
                Err(error) => Some(Err(unreadable(table, &last, &error))),
            });
            pages.take(limit).collect()
        })
    }
}

impl FjallStore {
    /// Opens the store in `dir`, which is created if it is missing.
    ///
    /// # Errors
    /// Returns an error if another process uses it, if it is unreadable, or if there is no space.
    pub fn open(dir: impl AsRef<Path>, options: FjallOptions) -> Result<Self, StoreError> {
        let dir = dir.as_ref().to_path_buf();
        let tables = RwLock::new(Some(Tables::open(&dir, &options)?));
        let shared = Arc::new(Shared { dir, options, tables, syncing: Mutex::default(), sync_failed: OnceLock::new() });
        let (queue, requests) = mpsc::channel();
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || Writer::new(&of_thread).run(&requests))
            .map_err(|error| StoreError::Failed(format!("the writer's thread cannot be started: {error}")))?;
        let room = Arc::new(Semaphore::new(QUEUE_BYTES));
        Ok(Self { shared, queue: Some(queue), room, thread: Some(thread) })
    }

    /// Returns a function that makes all acknowledged writes durable while the store is open. For callers that record
    /// elsewhere that these writes exist. After a failed sync all others fail, too. The writes of earlier processes,
    /// killed or not, are durable once the store is open.
    pub fn syncer(&self) -> impl Fn() -> Result<(), StoreError> + Send + Sync + use<> {
        let shared = Arc::downgrade(&self.shared);
        move || {
            let Some(shared) = shared.upgrade() else { return Ok(()) };
            shared.sync()
        }
    }

    async fn put(&self, rows: Vec<Row>) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        let gone = || StoreError::Failed(format!("the writer of {} has ended", self.shared.dir.display()));
        let bytes: usize = rows.iter().map(|row| size_of::<Row>() + row.key.len() + row.value.len()).sum();
        // A request larger than the queue takes all of it.
        let permits = u32::try_from(bytes.min(QUEUE_BYTES)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.room).acquire_many_owned(permits).await.map_err(|_| gone())?;
        let (done, result) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        queue.send(Request { rows, done, permit }).map_err(|_| gone())?;
        result.await.map_err(|_| gone())?
    }
}

impl Drop for FjallStore {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the writer of the store panicked");
        }
    }
}

/// Adds the rows of a write.
fn add_rows(rows: &mut Vec<Row>, write: &Write) -> Result<(), StoreError> {
    let row = |table, key: &[u8], at_ms, value: Result<Vec<u8>, String>| match value {
        Ok(value) => Ok(Row { table, key: key.to_vec(), value, at_ms }),
        Err(reason) => Err(StoreError::Refused(format!("a row of {} cannot be written: {reason}", table.name()))),
    };
    let added = match write {
        Write::Page { crawl, row: page } => {
            // The page is first: the writer lists it if it is the newest.
            rows.push(row(Table::Pages, &page.fingerprint.0, page.fetched_at_ms, encoding::write_page(page))?);
            let key = encoding::site_page_key(crawl, &page.site, page.fingerprint);
            let value = encoding::write_site_page(page.status);
            Ok(Row { table: Table::SitePages, key, value, at_ms: page.fetched_at_ms })
        }
        Write::Links(links) => row(Table::Links, &links.fingerprint.0, links.at_ms, encoding::write_links(links)),
        Write::Redirect(redirect) => {
            row(Table::Redirects, &redirect.fingerprint.0, redirect.at_ms, encoding::write_redirect(redirect))
        }
        Write::Robots(robots) => {
            row(Table::Robots, robots.authority.as_bytes(), robots.fetched_at_ms, encoding::write_robots(robots))
        }
        Write::Capture(capture) => {
            if let Some(content) = capture.content() {
                let (hash, value) = (content.content_hash.as_bytes(), encoding::write_content(&content));
                rows.push(row(Table::Contents, hash, content.at_ms, value)?);
            }
            let key = encoding::capture_key(capture);
            row(Table::Captures, &key, capture.at_ms, encoding::write_capture(capture))
        }
    };
    rows.push(added?);
    Ok(())
}

impl Store for FjallStore {
    fn write_shared(&self, writes: Arc<[Write]>) -> BoxFuture<'_, Result<(), StoreError>> {
        let mut rows = Vec::with_capacity(writes.len());
        let added = writes.iter().try_for_each(|write| add_rows(&mut rows, write));
        async move {
            added?;
            self.put(rows).await
        }
        .boxed()
    }

    fn page(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<PageRow>, StoreError>> {
        let decode = |value: &[u8]| encoding::read_page(fingerprint, value);
        ready(self.shared.get(Table::Pages, &fingerprint.0, decode)).boxed()
    }

    fn history(&self, fingerprint: Fingerprint, limit: usize) -> BoxFuture<'_, Result<Vec<FetchEvent>, StoreError>> {
        let shared = Arc::clone(&self.shared);
        on_pool(move || shared.history(fingerprint, limit))
    }

    fn links(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<LinksOut>, StoreError>> {
        let shared = Arc::clone(&self.shared);
        on_pool(move || shared.get(Table::Links, &fingerprint.0, |value| encoding::read_links(fingerprint, value)))
    }

    fn canonical(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<DeclaredCanonical>, StoreError>> {
        let read = self.shared.get(Table::Links, &fingerprint.0, encoding::read_canonical);
        ready(read.map(Option::flatten)).boxed()
    }

    fn redirect(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<RedirectRow>, StoreError>> {
        let decode = |value: &[u8]| encoding::read_redirect(fingerprint, value);
        ready(self.shared.get(Table::Redirects, &fingerprint.0, decode)).boxed()
    }

    fn robots<'a>(&'a self, authority: &'a str) -> BoxFuture<'a, Result<Option<RobotsRow>, StoreError>> {
        let decode = |value: &[u8]| encoding::read_robots(authority, value);
        ready(self.shared.get(Table::Robots, authority.as_bytes(), decode)).boxed()
    }

    fn captures(&self, fingerprint: Fingerprint, limit: usize) -> BoxFuture<'_, Result<Vec<CaptureRow>, StoreError>> {
        let shared = Arc::clone(&self.shared);
        on_pool(move || shared.captures(fingerprint, limit))
    }

    fn content<'a>(&'a self, content_hash: &'a str) -> BoxFuture<'a, Result<Option<ContentRow>, StoreError>> {
        let decode = |value: &[u8]| encoding::read_content(content_hash, value);
        ready(self.shared.get(Table::Contents, content_hash.as_bytes(), decode)).boxed()
    }

    fn site_pages<'a>(
        &'a self,
        crawl: &'a CrawlName,
        site: &'a str,
        after: Option<Fingerprint>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<SitePage>, StoreError>> {
        let (shared, crawl, site) = (Arc::clone(&self.shared), crawl.clone(), site.to_owned());
        on_pool(move || shared.site_pages((&crawl, &site), after, limit))
    }
}

/// Runs `read` on the blocking pool.
fn on_pool<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> BoxFuture<'static, Result<T, StoreError>> {
    async move {
        let ended = |error| StoreError::Failed(format!("the task of a read failed: {error}"));
        tokio::task::spawn_blocking(read).await.map_err(ended)?
    }
    .boxed()
}
