//! The effects: requests, and reading and writing the store.

use std::{sync::Arc, time::Duration};

use orbweaver_messages::encoded_len;
use orbweaver_stage::{
    ByteBudget, Clock, CpuMeter, Reservation, Worker,
    panics::{self, Caught},
};
use orbweaver_store::{RobotsRow, Store, StoreError};
use tokio::sync::{Semaphore, mpsc::UnboundedSender};

use crate::{
    body::{PackedBody, pack},
    client::{Attempt, Body, Client, Failure, Purpose, Request},
};

/// Work outside.
#[derive(Debug)]
pub enum Job {
    /// Ask for a URL.
    Ask {
        /// Names the request.
        number: u64,
        /// What to ask.
        request: Request,
        /// Bytes that the page's record has for its body, its content type and its headers.
        room: usize,
    },
    /// Read a robots.txt from the store.
    Load {
        /// Whose.
        authority: Arc<str>,
    },
}

/// The result of a job.
#[derive(Debug)]
pub enum Done {
    /// Of [`Job::Ask`].
    Asked {
        /// Names the request.
        number: u64,
        /// What came of it.
        attempt: Box<Attempt>,
        /// The body, when it is a page; it is not in `attempt` then.
        body: Option<PackedBody>,
    },
    /// Of [`Job::Load`].
    Loaded {
        /// Whose.
        authority: Arc<str>,
        /// What the store has.
        row: Option<RobotsRow>,
    },
}

/// Runs each job in a task of its own, in the runtime in which [`Worker::start`] is called.
pub struct FetchWorker<C> {
    client: Arc<C>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    meter: Option<CpuMeter>,
    compress: bool,
    memory: ByteBudget,
    large: Arc<Semaphore>,
}

impl<C: Client> FetchWorker<C> {
    /// A worker that asks through `client`. `memory` is for bodies: from their first byte until they are durable.
    pub fn new(client: Arc<C>, store: Arc<dyn Store>, clock: Arc<dyn Clock>, memory: ByteBudget) -> Self {
        let large = Arc::new(Semaphore::new(LARGE_AT_ONCE));
        Self { client, store, clock, meter: None, compress: true, memory, large }
    }

    /// Leaves bodies as they are: for a log that no network and no other machine has a part in, where a frame costs more
    /// than the bytes that it spares.
    #[must_use]
    pub fn without_compression(self) -> Self {
        Self { compress: false, ..self }
    }

    /// Adds the CPU time of the jobs to `meter`. What a client does in tasks of its own is not among it: that of
    /// [`HttpClient`](crate::HttpClient) has one for each connection, which reads, writes and decrypts.
    #[must_use]
    pub fn with_meter(self, meter: CpuMeter) -> Self {
        Self { meter: Some(meter), ..self }
    }

    fn spawn(&self, job: impl Future<Output = ()> + Send + 'static) {
        match &self.meter {
            Some(meter) => tokio::spawn(meter.wrap(job)),
            None => tokio::spawn(job),
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
                    let started = clock.now();
                    let asked = Caught::new(ask(&*client, (request, room, memory), &large, compress, meter)).await;
                    // Without a result the site would stay in flight for ever.
                    let (attempt, body) = asked.unwrap_or_else(|_panic| {
                        tracing::error!("a request panicked");
                        let now = clock.now();
                        let result = Err(Failure::Internal);
                        (Attempt { requested_at_ms: started, answered_at_ms: now, ended_at_ms: now, result }, None)
                    });
                    // Nobody listens any more when the stage has ended.
                    let _ = results.send(Done::Asked { number, attempt: Box::new(attempt), body });
                });
            }
            Job::Load { authority } => {
                let store = self.store.clone();
                self.spawn(async move {
                    let row = Caught::new(load(&*store, &authority)).await.unwrap_or_default();
                    let _ = results.send(Done::Loaded { authority, row });
                });
            }
        }
    }
}

/// From this size on hashing and compressing take longer than a task may hold its thread (about a millisecond).
const BLOCKING_BYTES: usize = 512 << 10;
/// Bodies of that size that are compressed at once: each needs its size again, on top of the budget.
const LARGE_AT_ONCE: usize = 2;

/// Asks, and packs what is a page so that its record has room for it; the memory that was reserved goes with it. Only what runs on
/// another thread is added to `meter` here.
pub(crate) async fn ask<C: Client>(
    client: &C,
    (request, room, mut memory): (Request, usize, Reservation),
    large: &Semaphore,
    compress: bool,
    meter: Option<CpuMeter>,
) -> (Attempt, Option<PackedBody>) {
    let purpose = request.purpose;
    let mut attempt = client.ask(request, &mut memory).await;
    let Ok(answer) = &mut attempt.result else { return (attempt, None) };
    if purpose != Purpose::Page {
        return (attempt, None);
    }
    let Body::Read { bytes, truncated } = &mut answer.body else { return (attempt, None) };
    let (bytes, truncated) = (std::mem::take(bytes), *truncated);
    let room = room.saturating_sub(encoded_len(&answer.content_type) + encoded_len(&answer.headers));
    let packed = if bytes.len() < BLOCKING_BYTES {
        Some(pack(bytes, truncated, compress, room).holding(memory))
    } else {
        let work = move || pack(bytes, truncated, compress, room).holding(memory);
        let work = move || if let Some(meter) = meter { meter.measure(work) } else { work() };
        // It is never closed; if it were, more at once would be better than none.
        let _permit = large.acquire().await;
        tokio::task::spawn_blocking(|| panics::catch(work)).await.ok().and_then(Result::ok)
    };
    if packed.is_none() {
        attempt.result = Err(Failure::Internal);
    }
    (attempt, packed)
}

/// How long to wait after the `failures`th failure of the store in a row.
fn pause(failures: u32) -> Duration {
    Duration::from_millis(100 << failures.min(7)).min(Duration::from_secs(10))
}

async fn load(store: &dyn Store, authority: &str) -> Option<RobotsRow> {
    let mut failures = 0;
    loop {
        match store.robots(authority).await {
            Ok(row) => return row,
            // It is fetched anew, and written over.
            Err(error @ StoreError::Damaged { .. }) => {
                tracing::warn!(%error, "a stored robots.txt cannot be read");
                return None;
            }
            Err(error) => {
                tracing::warn!(%error, failures, "reading a robots.txt is tried again");
                tokio::time::sleep(pause(failures)).await;
                failures += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
