//! Effects: requests, reads of the store, and packing of bodies.

use std::{net::IpAddr, sync::Arc, time::Duration};

use orbweaver_messages::{PageKind, encoded_len};
use orbweaver_stage::{ByteBudget, Clock, CpuMeter, Reservation, Worker, panics};
use orbweaver_store::{RobotsRow, Store, StoreError};
use orbweaver_url::SiteName;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc::UnboundedSender},
};

use crate::{
    body::{PackedBody, pack},
    client::{Attempt, Body, Client, FetchError, Measured, Purpose, Request},
    purposes, substitute,
    text_hash::text_hash,
};

/// A job outside of the stage.
#[derive(Debug)]
pub enum Job {
    /// Request a URL.
    Ask {
        number: u64,
        request: Request,
        /// Bytes that the page's record has left for its body, its content type and its headers.
        room: usize,
    },
    /// Look up the address of a host, for the next request of a site.
    Locate { site: SiteName, host: Arc<str> },
    /// Read a robots.txt from the store.
    Load { key: Arc<str> },
}

/// Result of a job.
#[derive(Debug)]
pub enum Done {
    /// Result of [`Job::Ask`].
    Asked {
        number: u64,
        attempt: Box<Attempt>,
        /// Body, if it is a page; it is then not in `attempt`.
        body: Option<PackedBody>,
    },
    /// Result of [`Job::Locate`]; without an address if the client does not know it.
    Located { site: SiteName, host: Arc<str>, located: Result<Option<IpAddr>, FetchError> },
    /// Result of [`Job::Load`].
    Loaded { key: Arc<str>, row: Option<RobotsRow> },
}

/// Worker that runs each job in its own task, on the runtime in which [`Worker::start`] is called.
pub struct FetchWorker<C> {
    client: Arc<C>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    runtime: Handle,
    meter: Option<CpuMeter>,
    compress: bool,
    memory: ByteBudget,
    large: Arc<Semaphore>,
}

impl<C: Client> FetchWorker<C> {
    /// Creates a worker that sends requests through `client`. `memory` is for bodies, from their first byte until they
    /// are durable. Jobs run on the runtime of the caller.
    pub fn new(client: Arc<C>, store: Arc<dyn Store>, clock: Arc<dyn Clock>, memory: ByteBudget) -> Self {
        let large = Arc::new(Semaphore::new(LARGE_AT_ONCE));
        Self { client, store, clock, runtime: Handle::current(), meter: None, compress: true, memory, large }
    }

    /// Leaves bodies uncompressed: for a log without network or other machines, where a frame costs more than the
    /// bytes that it saves.
    #[must_use]
    pub fn without_compression(self) -> Self {
        Self { compress: false, ..self }
    }

    /// Adds the CPU time of the jobs to `meter`. Tasks of the client itself are not included:
    /// [`HttpClient`](crate::HttpClient) has one per connection, which reads, writes and decrypts.
    #[must_use]
    pub fn with_meter(self, meter: CpuMeter) -> Self {
        Self { meter: Some(meter), ..self }
    }

    fn spawn(&self, job: impl Future<Output = ()> + Send + 'static) {
        match &self.meter {
            Some(meter) => self.runtime.spawn(meter.wrap(job)),
            None => self.runtime.spawn(job),
        };
    }
}

impl<C: Client> Worker<Job, Done> for FetchWorker<C> {
    fn start(&self, job: Job, results: &UnboundedSender<Done>) {
        let results = results.clone();
        match job {
            Job::Ask { number, request, room } => {
                let (client, clock, meter) = (self.client.clone(), self.clock.clone(), self.meter.clone());
                let (compress, memory, large) = (self.compress, self.memory.reservation(), self.large.clone());
                self.spawn(async move {
                    let requested_at_ms = clock.now();
                    let asked = panics::caught(ask(&*client, (request, room, memory), &large, compress, meter)).await;
                    // Without a result the site would remain in flight indefinitely.
                    let (attempt, body) = asked.unwrap_or_else(|_panic| {
                        tracing::error!("request panicked; its result is the failure `internal`");
                        let now = clock.now();
                        let (measured, result) = (Measured::default(), Err(FetchError::Internal));
                        (Attempt { requested_at_ms, answered_at_ms: now, ended_at_ms: now, measured, result }, None)
                    });
                    // The receiver is gone once the stage has ended.
                    let _ = results.send(Done::Asked { number, attempt: Box::new(attempt), body });
                });
            }
            Job::Locate { site, host } => {
                let client = self.client.clone();
                self.spawn(async move {
                    let located = panics::caught(client.locate(&host)).await.unwrap_or(Err(FetchError::Internal));
                    let _ = results.send(Done::Located { site, host, located });
                });
            }
            Job::Load { key } => {
                let store = self.store.clone();
                self.spawn(async move {
                    let row = panics::caught(load(&*store, &key)).await.unwrap_or_default();
                    let _ = results.send(Done::Loaded { key, row });
                });
            }
        }
    }
}

/// Size from which hashing and compressing take longer than a task may block its thread (about a millisecond), in
/// bytes.
const BLOCKING_BYTES: usize = 512 << 10;
/// Number of bodies of that size compressed at once: each needs its size again, on top of the budget.
const LARGE_AT_ONCE: usize = 2;

/// Sends a request, and packs a page so that it fits its record; the packed body keeps its memory reservation. Only
/// work on another thread is added to `meter` here.
pub(crate) async fn ask<C: Client>(
    client: &C,
    (request, room, mut memory): (Request, usize, Reservation),
    large: &Semaphore,
    compress: bool,
    meter: Option<CpuMeter>,
) -> (Attempt, Option<PackedBody>) {
    let (purpose, profile) = (request.purpose, Arc::clone(&request.profile));
    let is_revisited = request.known.is_some();
    let mut attempt = client.ask(request, &mut memory).await;
    let Ok(answer) = &mut attempt.result else { return (attempt, None) };
    if profile.detects_substitutes && purpose != Purpose::Robots {
        answer.substitute = answer.substitute.or_else(|| substitute::of(answer));
    } else {
        answer.substitute = None;
    }
    if !profile.purposes.is_empty() {
        purposes::conclude(answer, purpose, &profile);
    }
    if purpose == Purpose::Robots {
        return (attempt, None);
    }
    let Body::Read { bytes, truncated } = &mut answer.body else { return (attempt, None) };
    let (bytes, truncated) = (std::mem::take(bytes), *truncated);
    let length = bytes.len();
    let room = room.saturating_sub(encoded_len(&answer.content_type) + encoded_len(&answer.headers));
    let has_text_hash = is_revisited && answer.kind == PageKind::Html;
    let work = move || {
        let text_hash = has_text_hash.then(|| text_hash(&bytes));
        PackedBody { text_hash, ..pack(bytes, truncated, compress, room) }.holding(memory)
    };
    let packed = if length < BLOCKING_BYTES {
        Some(work())
    } else {
        let work = move || if let Some(meter) = meter { meter.measure(work) } else { work() };
        // The semaphore is never closed; if it were, exceeding the limit would be better than no result.
        let _permit = large.acquire().await;
        tokio::task::spawn_blocking(|| panics::catch(work)).await.ok().and_then(Result::ok)
    };
    if packed.is_none() {
        attempt.result = Err(FetchError::Internal);
    }
    (attempt, packed)
}

async fn load(store: &dyn Store, key: &str) -> Option<RobotsRow> {
    let mut failures = 0;
    loop {
        match store.robots(key).await {
            Ok(row) => return row,
            // The row will be fetched again and overwritten.
            Err(error @ StoreError::Damaged { .. }) => {
                tracing::warn!(robots_txt = key, %error, "stored robots.txt is damaged; requesting it again");
                return None;
            }
            Err(error) => {
                tracing::warn!(robots_txt = key, %error, failures, "cannot read robots.txt from the store; retrying");
                tokio::time::sleep(Duration::from_millis(100 << failures.min(7)).min(Duration::from_secs(10))).await;
                failures += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
