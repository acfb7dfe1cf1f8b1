//! Requests to a store, each awaited until it ends or the export is stopped.

use std::{
    cell::Cell,
    io,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use object_store::{Error, Result};
use orbweaver_bucket::Store;
use tokio::runtime::{Builder, Handle, Runtime};

/// Time between two looks at the flag that stops the export.
const LOOK: Duration = Duration::from_millis(50);

/// Maximum time of a request after the export was stopped or a request failed: such requests remove unfinished shards,
/// which the next run does otherwise.
const LAST_REQUEST: Duration = Duration::from_secs(10);

/// Requests of an export, which is synchronous.
pub(super) struct Requests<'a> {
    store: Store,
    /// Sends parts while the export compresses the next ones.
    runtime: Runtime,
    stop: &'a AtomicBool,
    has_failed: Cell<bool>,
    /// Size of a part of an object but the last, in bytes.
    part_bytes: usize,
}

impl<'a> Requests<'a> {
    /// Starts a thread for requests.
    pub(super) fn new(store: Store, part_bytes: usize, stop: &'a AtomicBool) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("object-store").enable_all().build()?;
        Ok(Self { store, runtime, stop, has_failed: Cell::new(false), part_bytes })
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn part_bytes(&self) -> usize {
        self.part_bytes
    }

    /// Returns the runtime for requests that are not awaited at once.
    pub(super) fn background(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Waits for a request.
    pub(super) fn wait<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        // Before the request begins, during which the export may be stopped.
        let is_last = self.has_failed.get() || self.stop.load(Ordering::Relaxed);
        let result = self.runtime.block_on(async {
            tokio::select! {
                biased;
                result = request => result,
                reason = self.limit(is_last) => Err(Error::Generic { store: "S3", source: reason.into() }),
            }
        });
        self.has_failed.set(matches!(&result, Err(error) if !matches!(error, Error::NotFound { .. })));
        result
    }

    /// Waits until a request has to end, and returns the reason.
    async fn limit(&self, is_last: bool) -> &'static str {
        if is_last {
            tokio::time::sleep(LAST_REQUEST).await;
            return "no response";
        }
        while !self.stop.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK).await;
        }
        "stopped"
    }
}
