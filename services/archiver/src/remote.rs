//! Objects of the archive in a store.
//!
//! A file has the suffix `.upload` from before the first request on until its object is either in the log of files or
//! removed: so one without an entry shows that an object, or a part of it, may have to be removed.

use std::{
    fmt, fs,
    fs::File,
    io::{self, ErrorKind, Read as _},
    path::Path,
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use object_store::{Error, ObjectStoreExt as _, PutMode, PutOptions, path::Path as Key};
use orbweaver_bucket::{Address, Store, connect_by_environment, reason};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::{
    ArchiveError, disk,
    file_name::{FileName, Upload},
};

/// Size of a part of an object but the last. Stores demand at least 5 MiB, and some that all are equal; an upload has at
/// most 10,000 parts, which are 78 GiB.
const PART_BYTES: usize = 8 << 20;

/// Maximum number of parts of an object that are being sent, each of which takes memory.
const MAX_SENDING: usize = 2;

/// Prefix in a bucket, used from blocking threads.
#[derive(Clone)]
pub(crate) struct Remote {
    address: Address,
    store: Store,
    part_bytes: usize,
    runtime: Handle,
    /// Canceled when the runtime ends.
    ended: CancellationToken,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Remote {
    /// Connects to the store that the environment describes, without a request.
    pub(crate) fn connect(address: &str) -> Result<Self, ArchiveError> {
        let address: Address = address.parse()?;
        let store = connect_by_environment(address.bucket())?;
        Ok(Self::on(store, address, PART_BYTES))
    }

    /// Creates a prefix on a store, with objects in parts of this size.
    pub(crate) fn on(store: Store, address: Address, part_bytes: usize) -> Self {
        let (runtime, ended) = (Handle::current(), CancellationToken::new());
        let end = ended.clone().drop_guard();
        runtime.spawn(async move {
            let _end = end;
            std::future::pending::<()>().await;
        });
        Self { address, store, part_bytes, runtime, ended }
    }

    /// Checks that the store can be used.
    pub(crate) fn check(&self) -> Result<(), ArchiveError> {
        self.wait(self.list()).map_err(|error| self.unusable(&error))
    }

    async fn list(&self) -> Result<(), Error> {
        self.store.list(Some(self.address.prefix())).try_next().await.map(drop)
    }

    fn unusable(&self, error: &Error) -> ArchiveError {
        ArchiveError::Store { object: self.address.to_string(), action: "list the objects", reason: reason(error) }
    }

    /// Uploads a durable file, after its index. Readers see an object once it is complete.
    pub(crate) fn upload(&self, root: &Path, name: &FileName) -> Result<(), ArchiveError> {
        name.uploads().iter().try_for_each(|upload| self.upload_one(root, upload))
    }

    fn upload_one(&self, root: &Path, upload: &Upload) -> Result<(), ArchiveError> {
        let path = root.join(&upload.file);
        let mut file = File::open(&path).map_err(ArchiveError::io(&path, "read"))?;
        let first = part(&mut file, self.part_bytes).map_err(ArchiveError::io(&path, "read"))?;
        let key = self.address.key(&upload.object);
        if first.len() < self.part_bytes {
            return self.wait(self.put(&key, first)).map_err(self.failed(upload, "upload"));
        }
        let id = self.wait(self.store.create_multipart(&key)).map_err(self.failed(upload, "upload"))?;
        // The store shows an incomplete upload by its id alone.
        disk::write_durably(root, &upload.id, &id)?;
        self.wait(self.send(&key, &id, first, file)).map_err(self.failed(upload, "upload"))
    }

    /// Removes the objects of a file and its index, complete or not, if there are any.
    pub(crate) fn remove(&self, root: &Path, name: &FileName) -> Result<(), ArchiveError> {
        name.uploads().iter().rev().try_for_each(|upload| self.remove_one(root, upload))
    }

    fn remove_one(&self, root: &Path, upload: &Upload) -> Result<(), ArchiveError> {
        let (key, path) = (self.address.key(&upload.object), root.join(&upload.id));
        let id = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            id => Some(id.map_err(ArchiveError::io(&path, "read"))?),
        };
        let removed = self.wait(async {
            if let Some(id) = id {
                // After its completion the upload does not exist any more.
                found(self.store.abort_multipart(&key, &id).await)?;
            }
            found(self.store.delete(&key).await)
        });
        removed.map_err(self.failed(upload, "delete"))
    }

    /// Waits for a request. One that waits when the runtime ends fails, since its timers and connections would panic.
    #[expect(clippy::disallowed_methods, reason = "jobs run on blocking threads, while the runtime drives the request")]
    fn wait<T>(&self, request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.ended.cancelled() => {
                    Err(Error::Generic { store: "runtime", source: "the process ends".into() })
                }
                result = request => result,
            }
        })
    }

    /// Writes an object of one part.
    async fn put(&self, key: &Key, content: Vec<u8>) -> Result<(), Error> {
        let put = |mode: PutMode| {
            self.store.put_opts(key, content.clone().into(), PutOptions { mode, ..PutOptions::default() })
        };
        match put(PutMode::Create).await {
            // By the setting AWS_CONDITIONAL_PUT=disabled. Names are unique.
            Err(Error::NotImplemented { .. }) => put(PutMode::Overwrite).await.map(drop),
            // An attempt whose response was lost may have succeeded before the one that failed.
            Err(Error::AlreadyExists { path, source }) => {
                let existing = self.store.get(key).await?.bytes().await?;
                if existing == content { Ok(()) } else { Err(Error::AlreadyExists { path, source }) }
            }
            written => written.map(drop),
        }
    }

    /// Sends an object in parts, and completes it.
    async fn send(&self, key: &Key, id: &String, first: Vec<u8>, mut file: File) -> Result<(), Error> {
        let mut next = Some(Ok(first));
        let parts = std::iter::from_fn(|| {
            let part = next.take().unwrap_or_else(|| part(&mut file, self.part_bytes));
            part.map(|part| (!part.is_empty()).then_some(part)).transpose()
        });
        let sent = stream::iter(parts.enumerate())
            .map(|(number, part)| async move {
                let part = part.map_err(|error| Error::Generic { store: "file", source: error.into() })?;
                self.store.put_part(key, id, number, part.into()).await
            })
            .buffered(MAX_SENDING)
            .try_collect()
            .await?;
        self.store.complete_multipart(key, id, sent).await.map(drop)
    }

    /// Returns a function that names the object and the operation of an error.
    fn failed(&self, upload: &Upload, action: &'static str) -> impl FnOnce(Error) -> ArchiveError {
        let object = format!("{}/{}", self.address, upload.object);
        move |error| ArchiveError::Store { object, action, reason: reason(&error) }
    }
}

/// Checks that the store which the environment describes can be used for an archive at this address.
///
/// # Errors
/// Fails if the address or the settings are not valid, or if the store refuses or does not respond.
pub async fn check_upload(address: &str) -> Result<(), ArchiveError> {
    let remote = Remote::connect(address)?;
    remote.list().await.map_err(|error| remote.unusable(&error))
}

/// Reads a part; a shorter one is the last.
fn part(file: &mut File, part_bytes: usize) -> io::Result<Vec<u8>> {
    let mut part = vec![];
    file.take(part_bytes as u64).read_to_end(&mut part)?;
    Ok(part)
}

/// Ignores an object or upload that does not exist.
fn found(result: Result<(), Error>) -> Result<(), Error> {
    if matches!(result, Err(Error::NotFound { .. })) { Ok(()) } else { result }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        panic::{AssertUnwindSafe, catch_unwind},
        sync::{Arc, mpsc},
        time::Duration,
    };

    use object_store::memory::InMemory;
    use tokio::{runtime::Builder, time::sleep};

    use super::*;

    #[test]
    fn a_request_that_waits_when_the_runtime_ends_fails_without_a_panic() {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let address = "s3://archive/a".parse().unwrap();
        let remote = runtime.block_on(async { Remote::on(Arc::new(InMemory::new()), address, PART_BYTES) });
        let (report, reported) = mpsc::channel();
        runtime.spawn_blocking(move || {
            // After its first poll the timer is known to the runtime, whose end wakes the request.
            let (mut begun, mut timer) = (Some(report.clone()), Box::pin(sleep(Duration::from_secs(3600))));
            let request = poll_fn(move |context| {
                let polled = timer.as_mut().poll(context).map(Ok);
                if let Some(begun) = begun.take() {
                    begun.send(Ok(Ok(()))).unwrap();
                }
                polled
            });
            report.send(catch_unwind(AssertUnwindSafe(|| remote.wait(request)))).unwrap();
        });
        assert!(matches!(reported.recv(), Ok(Ok(Ok(())))));
        runtime.shutdown_timeout(Duration::from_secs(60));
        let result = reported.recv().unwrap();
        assert!(matches!(result, Ok(Err(_))), "panicked: {}", result.is_err());
    }
}
