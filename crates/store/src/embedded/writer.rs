//! The single writer: a thread that collects queued writes, compares them with the stored rows, and commits them as one
//! batch.
//!
//! The thread is separate because a commit takes 6 µs at the median, but 4 ms in one of a thousand cases and 128 ms at
//! worst (it waits while the journal is synced), which would block a runtime thread. Writes are collected for a
//! millisecond, so that the thread wakes once per batch instead of once per write.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use fjall::Slice;
use orbweaver_messages::Millis;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::database::{Fill, Table, Tables, damaged, failed, unreadable};
use super::{Shared, encoding, mark};
use crate::StoreError;

/// Row to be written.
pub(super) struct Row {
    pub(super) table: Table,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// Event time: a newer row may already be stored.
    pub(super) at_ms: Millis,
}

/// Rows to be written together, and the channel for the result.
pub(super) struct Request {
    pub(super) rows: Vec<Row>,
    pub(super) done: oneshot::Sender<Result<(), StoreError>>,
    /// Share of the queue, in bytes; released with the request.
    pub(super) permit: OwnedSemaphorePermit,
}

/// Interval at which the journal is synced to the device: that of the log, since a page that is complete in the log must
/// be in the store.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// Time that a write waits for others to be committed with it.
const GATHER: Duration = Duration::from_millis(1);
/// Maximum size of a batch, in bytes: below the limit of the queue, so that the next batch can collect meanwhile.
const BATCH_BYTES: usize = 2 << 20;

/// Rows to put into each table, the last one per key. A batch may contain a key only once: all its rows get the same
/// sequence number.
type Puts = [HashMap<Vec<u8>, (Millis, Vec<u8>)>; Table::ALL.len()];

/// State of the thread.
pub(super) struct Writer<'a> {
    shared: &'a Shared,
    fill: Fill,
    /// Commit time of the oldest write that is not synced yet.
    unsynced: Option<Instant>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(shared: &'a Shared) -> Self {
        let fill = shared.with_tables(|tables| Ok(tables.fill())).unwrap_or_default();
        Self { shared, fill, unsynced: None }
    }

    /// Runs until the store is dropped; requests queued by then are written and synced.
    pub(super) fn run(mut self, queue: &Receiver<Request>) {
        loop {
            let due = |since: Instant| SYNC_EVERY.saturating_sub(since.elapsed());
            let wait = self.unsynced.map_or(Duration::from_secs(3600), due);
            match queue.recv_timeout(wait) {
                Ok(first) => self.write(gather(first, queue)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.unsynced.is_some_and(|since| since.elapsed() >= SYNC_EVERY) {
                self.sync();
            }
        }
        if self.unsynced.is_some() {
            self.sync();
        }
    }

    fn write(&mut self, mut requests: Vec<Request>) {
        let outcome = self.shared.with_tables_open(&mut self.fill, |tables, fill| {
            let mut puts = Puts::default();
            let rows = requests.iter_mut().map(|request| std::mem::take(&mut request.rows));
            let staged: Vec<_> = rows.map(|rows| stage(tables, rows, &mut puts)).collect();
            let mut batch = tables.batch();
            for (table, puts) in Table::ALL.into_iter().zip(puts) {
                for (key, (_, value)) in puts {
                    fill.add(table, key.len() + value.len());
                    batch.insert(tables.keyspace(table), key, value);
                }
            }
            tables.rotate_full_memtables(fill, &self.shared.options)?;
            batch.commit()?;
            Ok(staged)
        });
        match outcome {
            Ok(staged) => {
                self.unsynced.get_or_insert_with(Instant::now);
                for (request, staged) in requests.into_iter().zip(staged) {
                    // The receiver is gone if its caller was cancelled; the rows are written nevertheless.
                    let _ = request.done.send(staged);
                    drop(request.permit);
                }
            }
            Err(error) => {
                tracing::error!(%error, writes = requests.len(), "the store could not write");
                for request in requests {
                    let _ = request.done.send(Err(error.clone()));
                }
            }
        }
    }

    fn sync(&mut self) {
        self.unsynced = None;
        if let Err(error) = self.shared.sync() {
            tracing::error!(%error, "the store could not sync its journal");
        }
    }
}

/// Collects `first` and all requests that arrive within [`GATHER`], up to the size of a batch.
#[allow(clippy::disallowed_methods, reason = "the writer's own thread sleeps, so that it is woken once per batch")]
fn gather(first: Request, queue: &Receiver<Request>) -> Vec<Request> {
    std::thread::sleep(GATHER);
    let mut bytes = 0;
    let mut requests = vec![first];
    while let Some(last) = requests.last() {
        bytes += last.permit.num_permits();
        if bytes >= BATCH_BYTES {
            break;
        }
        let Ok(next) = queue.try_recv() else { break };
        requests.push(next);
    }
    requests
}

/// Stages those of `rows` that are not older than the stored or staged ones. If a row cannot be compared, only its
/// request fails.
///
/// Of two fetches of a page, the older one goes to the history: a page that is fetched once, as most are, takes one
/// key.
///
/// The entry of a page in the list of its site follows the page: it is put if the page is, and is not there already. The list
/// is not searched for the entry of a page that was never written.
fn stage(tables: &Tables, rows: Vec<Row>, puts: &mut Puts) -> Result<(), StoreError> {
    let mut page = Page::Older;
    for row in rows {
        if row.table == Table::SitePages {
            if page == Page::First || page == Page::Newest && !is_there(tables, &row, puts)? {
                puts[row.table as usize].insert(row.key, (row.at_ms, row.value));
            }
            continue;
        }
        page = Page::First;
        if let Some((there_ms, there)) = there(tables, &row, puts)? {
            page = if there_ms > row.at_ms { Page::Older } else { Page::Newest };
            if row.table == Table::Pages && there_ms != row.at_ms {
                let older: &[u8] = if there_ms > row.at_ms { &row.value } else { &there };
                let event = encoding::event_of(&row.key, older);
                let (key, event) = event.map_err(|reason| damaged(row.table, &row.key, reason))?;
                puts[Table::History as usize].insert(key.to_vec(), (there_ms.min(row.at_ms), event));
            }
            if there_ms > row.at_ms {
                continue;
            }
        }
        puts[row.table as usize].insert(row.key, (row.at_ms, row.value));
    }
    Ok(())
}

/// The row before an entry of a list, which is that of its page: among those of the same page that were written before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Page {
    First,
    Newest,
    Older,
}

/// Returns whether an entry of a list is staged or stored as it is.
fn is_there(tables: &Tables, row: &Row, puts: &Puts) -> Result<bool, StoreError> {
    if let Some((_, value)) = puts[row.table as usize].get(&row.key) {
        return Ok(*value == row.value);
    }
    let stored = tables.keyspace(row.table).get(&row.key).map_err(|error| unreadable(row.table, &row.key, &error))?;
    Ok(stored.is_some_and(|value| *value == *row.value))
}

/// Returns the staged or stored row of a key, with its time. On a first visit, the filters detect its absence in less
/// than 1 µs.
fn there(tables: &Tables, row: &Row, puts: &Puts) -> Result<Option<(Millis, Slice)>, StoreError> {
    if let Some((at_ms, value)) = puts[row.table as usize].get(&row.key) {
        return Ok(Some((*at_ms, Slice::from(value))));
    }
    let stored = tables.keyspace(row.table).get(&row.key).map_err(|error| unreadable(row.table, &row.key, &error))?;
    let Some(value) = stored else { return Ok(None) };
    let at_ms = encoding::time_of(&value).map_err(|reason| damaged(row.table, &row.key, reason))?;
    Ok(Some((at_ms, value)))
}

impl Shared {
    /// Runs `act` on the database. Reopens it if an earlier failure closed it, and closes it if `act` fails: after a
    /// failed write, fjall rejects all others until it is reopened.
    fn with_tables_open<T>(
        &self,
        fill: &mut Fill,
        act: impl FnOnce(&Tables, &mut Fill) -> fjall::Result<T>,
    ) -> Result<T, StoreError> {
        self.alive()?;
        if self.tables().is_none() {
            let opened = Tables::open(&self.dir, &self.options)?;
            *fill = opened.fill();
            tracing::info!(dir = %self.dir.display(), "the store is open again");
            *self.tables_mut() = Some(opened);
        }
        let outcome = self.with_tables(|tables| Ok(act(tables, fill)))?;
        outcome.map_err(|error| {
            // fjall's worker may have failed to sync a journal, and the sync of closing it may fail.
            mark::set(&self.dir, &error.to_string());
            // Closed after the lock is released: this takes a while, and readers need not wait for it.
            let closed = self.tables_mut().take();
            drop(closed);
            failed("writing to", &self.dir, &error)
        })
    }
}
