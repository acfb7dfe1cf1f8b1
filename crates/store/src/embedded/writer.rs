//! The one writer: a thread that takes what has gathered, compares it with what is there, and commits it as one batch.
//!
//! A thread of its own, because a commit takes 6 µs at the median, but 4 ms one time in a thousand and 128 ms at the worst
//! (it waits for the journal while that is synced), which would hold up a runtime's thread. And gathered for a millisecond,
//! so that the thread is woken once a batch and not once a write.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use fjall::Slice;
use orbweaver_messages::Millis;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::database::{Fill, Table, Tables, damaged, failed, unreadable};
use super::{Shared, encoding};
use crate::StoreError;

/// A row to be put.
pub(super) struct Row {
    pub(super) table: Table,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// The event's time: a newer row may already be there.
    pub(super) at_ms: Millis,
}

/// Rows to be put together, and who waits for it.
pub(super) struct Request {
    pub(super) rows: Vec<Row>,
    pub(super) done: oneshot::Sender<Result<(), StoreError>>,
    /// Its bytes in the queue; given back with it.
    pub(super) permit: OwnedSemaphorePermit,
}

/// So much is committed at once, at most: below the queue's bound, so that the next gathers meanwhile. In bytes.
const BATCH_BYTES: usize = 2 << 20;

/// What is to be put into each table, the last row of each key. One batch may hold a key but once: all its rows get one
/// sequence number.
type Puts = [HashMap<Vec<u8>, (Millis, Vec<u8>)>; Table::ALL.len()];

/// The state of the thread.
pub(super) struct Writer<'a> {
    shared: &'a Shared,
    fill: Fill,
    /// When the oldest write that is not synced yet was committed.
    unsynced: Option<Instant>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(shared: &'a Shared) -> Self {
        let fill = shared.with_tables(|tables| Ok(tables.fill())).unwrap_or_default();
        Self { shared, fill, unsynced: None }
    }

    /// Runs until the store is dropped; everything that is queued then is written and synced.
    pub(super) fn run(mut self, queue: &Receiver<Request>) {
        loop {
            let wait = self.unsynced.map_or(Duration::from_secs(3600), |since| {
                self.shared.options.sync_every.saturating_sub(since.elapsed())
            });
            match queue.recv_timeout(wait) {
                Ok(first) => self.write(gather(first, queue, self.shared.options.gather)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.unsynced.is_some_and(|since| since.elapsed() >= self.shared.options.sync_every) {
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
            tables.make_room(fill, &self.shared.options)?;
            batch.commit()?;
            Ok(staged)
        });
        match outcome {
            Ok(staged) => {
                self.unsynced.get_or_insert_with(Instant::now);
                for (request, staged) in requests.into_iter().zip(staged) {
                    // The receiver is gone when its caller was cancelled; the rows are written all the same.
                    let _ = request.done.send(staged);
                    drop(request.permit);
                }
            }
            Err(error) => {
                let reason = error.to_string();
                tracing::error!(error = %reason, writes = requests.len(), "the store could not write");
                for request in requests {
                    let _ = request.done.send(Err(again(&error)));
                }
            }
        }
    }

    fn sync(&mut self) {
        self.unsynced = None;
        let synced = self.shared.with_tables_open(&mut self.fill, |tables, _| tables.sync());
        if let Err(error) = synced {
            tracing::error!(%error, "the store could not sync its journal");
        }
    }
}

/// The same error once more.
fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::Failed(reason) => StoreError::Failed(reason.clone()),
        StoreError::Refused(reason) => StoreError::Refused(reason.clone()),
        StoreError::Damaged { key, reason } => StoreError::Damaged { key: key.clone(), reason: reason.clone() },
    }
}

/// `first` and what arrives within `time`, up to a batch.
#[allow(clippy::disallowed_methods, reason = "the writer's own thread sleeps, so that it is woken once a batch")]
fn gather(first: Request, queue: &Receiver<Request>, time: Duration) -> Vec<Request> {
    std::thread::sleep(time);
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

/// Takes over those of `rows` that are not older than what is there or about to be. A request with a row that cannot be
/// compared fails alone.
///
/// Of two fetches of a page the older one goes to the history: so a page that is fetched once, as most are, takes one key.
fn stage(tables: &Tables, rows: Vec<Row>, puts: &mut Puts) -> Result<(), StoreError> {
    for row in rows {
        if let Some((there_ms, there)) = there(tables, &row, puts)? {
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

/// The row that is there for a key, with its time. On a first visit the filters say that there is none, in less than 1 µs.
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
    /// Does something with the database, which is opened again when an earlier failure closed it, and closed when `act`
    /// fails: after a failed write fjall accepts no other until it was opened again.
    fn with_tables_open<T>(
        &self,
        fill: &mut Fill,
        act: impl FnOnce(&Tables, &mut Fill) -> fjall::Result<T>,
    ) -> Result<T, StoreError> {
        if self.tables().is_none() {
            let opened = Tables::open(&self.dir, &self.options)?;
            *fill = opened.fill();
            tracing::info!(dir = %self.dir.display(), "the store is open again");
            *self.tables_mut() = Some(opened);
        }
        let outcome = self.with_tables(|tables| Ok(act(tables, fill)))?;
        outcome.map_err(|error| {
            // Closed after the lock is given back: it takes a while, and readers need not wait for it.
            let closed = self.tables_mut().take();
            drop(closed);
            failed("writing to", &self.dir, &error)
        })
    }
}
