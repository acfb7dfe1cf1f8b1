//! An object that is being uploaded: in parts of one size, or with one request if it is smaller.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    rc::Rc,
};

use object_store::{Error, ObjectStoreExt as _, Result, multipart::PartId, path::Path as Key};
use tokio::task::JoinSet;

use super::{OTHER_RUN, other, requests::Requests};

/// Maximum number of parts of an object that are being sent, each of which takes memory.
const MAX_SENDING: usize = 2;

/// Object that is being uploaded. Readers see it once it is complete.
pub(in crate::shards) struct Upload<'a> {
    requests: Rc<Requests<'a>>,
    key: Key,
    /// Object that has the id of the upload until it is complete.
    record: Key,
    buffer: Vec<u8>,
    parts: Option<Parts>,
}

/// Parts of an object.
struct Parts {
    id: String,
    begun: usize,
    sent: BTreeMap<usize, PartId>,
    sending: JoinSet<Result<(usize, PartId)>>,
}

impl<'a> Upload<'a> {
    /// Creates an empty object, without a request.
    pub(super) fn new(requests: Rc<Requests<'a>>, key: Key, record: Key) -> Self {
        Self { requests, key, record, buffer: vec![], parts: None }
    }

    /// Sends the rest of an object that has parts.
    pub(super) fn send_rest(mut self) -> io::Result<Self> {
        if self.parts.is_some() && !self.buffer.is_empty() {
            self.send_part().map_err(failed)?;
        }
        if let Some(parts) = &mut self.parts {
            parts.wait_for(&self.requests, 0).map_err(failed)?;
        }
        Ok(self)
    }

    /// Makes the object visible.
    pub(super) fn complete(self) -> io::Result<()> {
        let Self { requests, key, record, buffer, parts } = self;
        let store = requests.store();
        let completed = match parts {
            None => requests.wait(store.put(&key, buffer.into())).map(|_| ()),
            Some(Parts { id, sent, .. }) => requests
                .wait(store.complete_multipart(&key, &id, sent.into_values().collect()))
                .and_then(|_| requests.wait(store.delete(&record))),
        };
        completed.map_err(failed)
    }

    /// Begins to send the buffer as a part.
    fn send_part(&mut self) -> Result<()> {
        let parts = match &mut self.parts {
            Some(parts) => parts,
            none => none.insert(Parts::begin(&self.requests, &self.key, &self.record)?),
        };
        parts.wait_for(&self.requests, MAX_SENDING - 1)?;
        let (store, key, id) = (self.requests.store().clone(), self.key.clone(), parts.id.clone());
        let (number, part) = (parts.begun, std::mem::take(&mut self.buffer));
        parts.begun += 1;
        let send = async move { Ok((number, store.put_part(&key, &id, number, part.into()).await?)) };
        parts.sending.spawn_on(send, self.requests.background());
        Ok(())
    }
}

impl Parts {
    /// Begins an upload in parts, and records its id: the store does not show it otherwise.
    fn begin(requests: &Requests<'_>, key: &Key, record: &Key) -> Result<Self> {
        let store = requests.store();
        let id = requests.wait(store.create_multipart(key))?;
        requests.wait(store.put(record, id.clone().into_bytes().into()))?;
        Ok(Self { id, begun: 0, sent: BTreeMap::new(), sending: JoinSet::new() })
    }

    /// Waits until at most this number of parts is being sent.
    fn wait_for(&mut self, requests: &Requests<'_>, remaining: usize) -> Result<()> {
        while self.sending.len() > remaining {
            let Some(sent) =
                requests.wait(async { self.sending.join_next().await.transpose().map_err(Error::from) })?
            else {
                break;
            };
            let (number, part) = requests.wait(std::future::ready(sent))?;
            self.sent.insert(number, part);
        }
        Ok(())
    }
}

impl Write for Upload<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let taken = text.len().min(self.requests.part_bytes() - self.buffer.len());
        self.buffer.extend_from_slice(&text[..taken]);
        if self.buffer.len() == self.requests.part_bytes() {
            self.send_part().map_err(failed)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Removes an object, and aborts its upload if that is incomplete.
pub(super) fn remove(requests: &Requests<'_>, key: &Key, record: &Key) -> io::Result<()> {
    let store = requests.store();
    let read = async { store.get(record).await?.bytes().await };
    if let Some(id) = found(requests.wait(read))? {
        let id = String::from_utf8_lossy(&id).into_owned();
        // A run that was killed after it had completed the upload leaves the record, too.
        found(requests.wait(store.abort_multipart(key, &id)))?;
        found(requests.wait(store.delete(record)))?;
    }
    found(requests.wait(store.delete(key)))?;
    Ok(())
}

/// Returns the error of an upload.
fn failed(error: Error) -> io::Error {
    match error {
        // The store has it until it is complete.
        Error::NotFound { .. } => io::Error::other(format!("its upload does not exist any more: {OTHER_RUN}")),
        error => other(&error),
    }
}

/// Returns `None` for an object or upload that does not exist.
fn found<T>(result: Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}
