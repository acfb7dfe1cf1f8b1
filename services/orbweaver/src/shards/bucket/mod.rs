//! Export to an S3-compatible object store.
//!
//! A shard is one object, which the store shows once its upload is complete. A larger one is uploaded in parts; the object
//! `NAME.upload` has the id of the upload while it is incomplete, so that the next run can abort it.
//!
//! A store has no locks. Each run claims the export by a name of its own in the manifest, and replaces only a manifest that
//! this run wrote itself: an earlier run fails at its next shard.
//!
//! | module | contents |
//! |---|---|
//! | `requests` | requests that end when the export is stopped |
//! | `upload` | an object that is being uploaded |

mod requests;
#[cfg(test)]
mod tests;
mod upload;

use std::{cell::RefCell, io, rc::Rc, sync::atomic::AtomicBool};

use futures::StreamExt as _;
use object_store::{Error, ObjectStoreExt as _, PutMode, PutOptions, UpdateVersion, path::Path as Key};
use orbweaver_bucket::{Store, connect_by_environment, reason};
use serde::Serialize;

use self::{requests::Requests, upload::Upload};
use super::{
    destination::Destination,
    error::ShardsError,
    manifest::Manifest,
    sink::{MANIFEST, Sink},
};
use crate::exit::Failure;

/// Maximum size of a shard in a bucket before compression: an upload has at most 10,000 parts.
pub(super) const MAX_SHARD_BYTES: u64 = 64 << 30;

/// Size of a part of an object but the last. Stores demand at least 5 MiB, and some that all are equal.
const PART_BYTES: usize = 8 << 20;

const OTHER_RUN: &str = "another process is exporting to it, or has changed the manifest";

/// Export below a prefix of a bucket.
pub(super) struct Bucket<'a> {
    to: &'a Destination,
    prefix: Key,
    requests: Rc<Requests<'a>>,
    /// Random name of this run, stored in the manifest.
    run: String,
    /// Version of the manifest that this run has read or written.
    version: RefCell<Option<UpdateVersion>>,
}

/// The manifest with the run that has claimed the export.
#[derive(Serialize)]
struct Claimed<'a> {
    #[serde(flatten)]
    manifest: &'a Manifest,
    run: &'a str,
}

impl<'a> Bucket<'a> {
    /// Connects to the store that the environment describes, without a request.
    pub(super) fn connect(to: &'a Destination, bucket: &str, stop: &'a AtomicBool) -> Result<Self, ShardsError> {
        Self::on((connect_by_environment(bucket)?, PART_BYTES), to, stop)
    }

    /// Creates the destination on a store, with objects in parts of this size.
    pub(super) fn on(
        (store, part_bytes): (Store, usize),
        to: &'a Destination,
        stop: &'a AtomicBool,
    ) -> Result<Self, ShardsError> {
        let requests = Requests::new(store, part_bytes, stop);
        let requests = Rc::new(requests.map_err(|source| ShardsError::Output { output: to.to_string(), source })?);
        let prefix = match to {
            Destination::Bucket(address) => address.prefix().clone(),
            Destination::Directory(_) => Key::default(),
        };
        let run = format!("{:016x}", fastrand::u64(..));
        Ok(Self { to, prefix, requests, run, version: RefCell::new(None) })
    }

    fn key(&self, name: &str) -> Key {
        self.prefix.clone().join(name)
    }

    fn failed(&self, name: &str, error: &Error) -> ShardsError {
        self.output(name, reason(error))
    }

    fn output(&self, name: &str, message: impl Into<String>) -> ShardsError {
        ShardsError::Output { output: self.to.join(name), source: io::Error::other(message.into()) }
    }

    /// Checks that no other run has claimed the export. A run that has lost it must not touch the shards.
    fn check_claim(&self) -> io::Result<()> {
        let key = self.key(MANIFEST);
        let found = self.requests.wait(self.requests.store().head(&key)).map_err(|error| other(&error))?;
        let own = self.version.borrow().as_ref().and_then(|version| version.e_tag.clone());
        if own.is_none() || found.e_tag != own { Err(io::Error::other(OTHER_RUN)) } else { Ok(()) }
    }

    /// Reads the manifest and its version.
    fn read(&self) -> Result<Option<(Vec<u8>, UpdateVersion)>, Error> {
        let (store, key) = (self.requests.store(), self.key(MANIFEST));
        let read = async {
            let found = store.get(&key).await?;
            let version = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
            Ok((found.bytes().await?.to_vec(), version))
        };
        match self.requests.wait(read) {
            Ok(found) => Ok(Some(found)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the manifest if it is the version of this run, and returns the new one.
    fn replace(&self, text: &[u8]) -> Result<UpdateVersion, Error> {
        let (store, key) = (self.requests.store(), self.key(MANIFEST));
        let put = |mode: PutMode| {
            let put = store.put_opts(&key, text.to_vec().into(), PutOptions { mode, ..PutOptions::default() });
            self.requests.wait(put).map(UpdateVersion::from)
        };
        let written = match self.version.borrow().clone() {
            None => put(PutMode::Create),
            Some(version) => put(PutMode::Update(version)),
        };
        match written {
            // By the setting AWS_CONDITIONAL_PUT=disabled.
            Err(Error::NotImplemented { .. }) => put(PutMode::Overwrite),
            // An attempt whose response was lost may have succeeded before the one that failed.
            Err(error) => match self.read() {
                Ok(Some((found, version))) if found == text => Ok(version),
                _ => Err(error),
            },
            written => written,
        }
    }
}

fn other(error: &Error) -> io::Error {
    io::Error::other(reason(error))
}

impl<'a> Sink for Bucket<'a> {
    type File = Upload<'a>;

    fn load(&self) -> Result<Option<Manifest>, ShardsError> {
        let Some((text, version)) = self.read().map_err(|error| self.failed(MANIFEST, &error))? else {
            return Ok(None);
        };
        let manifest = serde_json::from_slice(&text).map_err(|error| self.output(MANIFEST, error.to_string()))?;
        self.version.replace(Some(version));
        Ok(Some(manifest))
    }

    fn check_unused(&self) -> Result<(), ShardsError> {
        let found = |result: Result<Option<_>, Error>| {
            let failed = |error| ShardsError::Output { output: self.to.to_string(), source: other(&error) };
            result.map_err(failed)
        };
        let mut objects = self.requests.store().list(Some(&self.prefix));
        let first = self.requests.wait(async { objects.next().await.transpose() });
        if found(first)?.is_none() {
            return Ok(());
        }
        let source = io::Error::other("it is not empty and has no export; give another destination");
        Err(ShardsError::Output { output: self.to.to_string(), source })
    }

    fn claim(&self, manifest: &Manifest) -> Result<(), ShardsError> {
        self.save(manifest)
    }

    fn create(&self, name: &str) -> io::Result<Upload<'a>> {
        Ok(Upload::new(Rc::clone(&self.requests), self.key(name), self.key(&record(name))))
    }

    fn publish(&self, file: Upload<'a>, _name: &str) -> io::Result<()> {
        let sent = file.send_rest()?;
        // Not before the parts are sent: from here on the time to the new manifest is that of a few requests.
        self.check_claim()?;
        sent.complete()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check_claim()?;
        upload::remove(&self.requests, &self.key(name), &self.key(&record(name)))
    }

    fn save(&self, manifest: &Manifest) -> Result<(), ShardsError> {
        let invalid = |error: serde_json::Error| Failure::Output(format!("{}: {error}", self.to.join(MANIFEST)));
        let mut text = serde_json::to_vec_pretty(&Claimed { manifest, run: &self.run }).map_err(invalid)?;
        text.push(b'\n');
        match self.replace(&text) {
            Ok(version) => {
                self.version.replace(Some(version));
                Ok(())
            }
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Err(self.output(MANIFEST, OTHER_RUN)),
            Err(error) => Err(self.failed(MANIFEST, &error)),
        }
    }
}

/// Returns the name of the object that has the id of the upload of a shard.
fn record(name: &str) -> String {
    format!("{name}.upload")
}
