//! The edge: jobs run on blocking threads, no more at a time than there are cores.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use orbweaver_log::Delivered;
use orbweaver_stage::{ByteBudget, CpuMeter, Reservation, Worker};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedSender;

use crate::body::{BodyReader, expected_bytes};
use crate::job::{ExtractDone, ExtractJob, PageVerdict, process};
use crate::{ExtractorConfig, ExtractorMetrics};

/// Extracting a page takes up to this many times its decoded body: one of short links alone has about 400 bytes for each of them, in
/// links, targets, sets of what is known, and records.
const WORKING_FACTOR: usize = 16;
/// A link takes so many bytes besides its URL.
const LINK_BYTES: usize = 48;

/// Runs jobs on blocking threads.
#[derive(Debug)]
pub struct BlockingWorker {
    pages: Arc<Extraction>,
    runtime: Handle,
    threads: Arc<Semaphore>,
    meter: Option<CpuMeter>,
}

impl BlockingWorker {
    /// A worker on the blocking threads of `runtime`.
    #[must_use]
    pub fn new(config: ExtractorConfig, metrics: ExtractorMetrics, runtime: Handle) -> Self {
        let threads = Arc::new(Semaphore::new(config.threads.clamp(1, Semaphore::MAX_PERMITS)));
        let memory = ByteBudget::new(config.memory, metrics.memory.clone());
        Self { pages: Arc::new(Extraction { config, metrics, memory }), runtime, threads, meter: None }
    }

    /// Adds the CPU time of the jobs to `meter`.
    #[must_use]
    pub fn with_meter(self, meter: CpuMeter) -> Self {
        Self { meter: Some(meter), ..self }
    }
}

impl Worker<ExtractJob, ExtractDone> for BlockingWorker {
    fn start(&self, job: ExtractJob, results: &UnboundedSender<ExtractDone>) {
        let (pages, threads, results) = (Arc::clone(&self.pages), Arc::clone(&self.threads), results.clone());
        let meter = self.meter.clone();
        let job = async move {
            // The semaphore is never closed; if it were, the job ran without a bound rather than not at all.
            let permit = threads.acquire_owned().await;
            let mut left = Some((job, None));
            while let Some((job, memory)) = left.take() {
                let (on_thread, meter) = (Arc::clone(&pages), meter.clone());
                let work = move || match meter {
                    Some(meter) => meter.measure(|| on_thread.run(job, memory)),
                    None => on_thread.run(job, memory),
                };
                // Blocking work that was started is cancelled by the end of the runtime only; then nobody waits.
                let Ok((done, rest)) = tokio::task::spawn_blocking(work).await else { break };
                // First, since the memory that the rest waits for may be theirs.
                let _ = results.send(done);
                if let Some((rest, needed)) = rest {
                    left = Some((rest, Some(pages.memory.reserve(needed).await)));
                }
            }
            drop(permit);
        };
        match &self.meter {
            Some(meter) => self.runtime.spawn(meter.wrap(job)),
            None => self.runtime.spawn(job),
        };
    }
}

thread_local! {
    /// What decompression needs is made once a thread, not once a job: jobs are small while little waits.
    static BODIES: RefCell<Option<BodyReader>> = const { RefCell::new(None) };
}

/// What of a job is left, and the bytes that its next page waits for.
type Rest = Option<(ExtractJob, usize)>;

/// What all jobs share.
#[derive(Debug)]
struct Extraction {
    config: ExtractorConfig,
    metrics: ExtractorMetrics,
    memory: ByteBudget,
}

impl Extraction {
    /// Extracts pages as long as there is memory for them; `memory` is that of the first.
    fn run(&self, job: ExtractJob, memory: Option<Reservation>) -> (ExtractDone, Rest) {
        BODIES.with_borrow_mut(|kept| {
            let mut bodies = match kept.take().map_or_else(BodyReader::new, Ok) {
                Ok(bodies) => bodies,
                Err(error) => {
                    let reject = |(origin, _)| (origin, PageVerdict::Rejected(error.to_string()));
                    return (ExtractDone { pages: job.pages.into_iter().map(reject).collect() }, None);
                }
            };
            let done = self.extract(job, memory, &mut bodies);
            *kept = Some(bodies);
            done
        })
    }

    fn extract(
        &self,
        job: ExtractJob,
        mut memory: Option<Reservation>,
        bodies: &mut BodyReader,
    ) -> (ExtractDone, Rest) {
        let ExtractJob { pages, partitions, now } = job;
        let mut done = Vec::with_capacity(pages.len());
        let mut pages = pages.into_iter();
        while let Some((origin, record)) = pages.next() {
            let needed = self.needed(&record);
            let Some(memory) = memory.take().or_else(|| self.memory.try_reserve(needed)) else {
                let pages = std::iter::once((origin, record)).chain(pages).collect();
                return (ExtractDone { pages: done }, Some((ExtractJob { pages, partitions, now }, needed)));
            };
            let start = Instant::now();
            let verdict = process(&record, (partitions, now), bodies, &self.config);
            self.metrics.seconds.observe(start.elapsed().as_secs_f64());
            done.push((origin, holding(verdict, memory)));
        }
        (ExtractDone { pages: done }, None)
    }

    /// What extracting a page takes at most, in bytes.
    fn needed(&self, record: &Delivered) -> usize {
        let body = record.value.as_deref().unwrap_or_default();
        expected_bytes(body, self.config.options.max_body_bytes).saturating_mul(WORKING_FACTOR)
    }
}

/// The same, with the memory that is reserved for it: no more than it has now, and until its last record is let go.
fn holding(mut verdict: PageVerdict, mut memory: Reservation) -> PageVerdict {
    if let PageVerdict::Extracted(result) = &mut verdict {
        let records: usize = result.records.iter().filter_map(|record| record.value.as_ref()).map(Bytes::len).sum();
        let links: usize = result.links.links.iter().map(|(url, _)| url.len() + LINK_BYTES).sum();
        memory.set(records + links);
        if let Some(value) = result.records.last_mut().and_then(|record| record.value.as_mut()) {
            *value = memory.attach(std::mem::take(value));
        }
    }
    verdict
}
