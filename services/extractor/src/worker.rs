//! Effects: jobs run on blocking threads, at most `threads` at a time.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use orbweaver_log::Record;
use orbweaver_stage::{ByteBudget, CpuMeter, Reservation, Worker};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedSender;

use crate::body::{BodyReader, expected_bytes};
use crate::job::{ExtractDone, ExtractJob, PageResult, PageVerdict, process};
use crate::pass::PagePass;
use crate::{ExtractorConfig, ExtractorMetrics};

/// Memory that is reserved for extracting a page, as a multiple of its decoded body: a page of short links alone takes
/// about 400 bytes for each of them, in links, targets, sets of known URLs, and records. Only a page whose links grow
/// when they are resolved against a long URL takes more; the length of that URL is known only when the page is read.
const WORKING_FACTOR: usize = 16;
/// Memory of a link in addition to its URL, in bytes.
const LINK_BYTES: usize = 48;

/// Worker that runs jobs on blocking threads.
#[derive(Debug)]
pub struct BlockingWorker {
    pages: Arc<Extraction>,
    runtime: Handle,
    threads: Arc<Semaphore>,
    meter: Option<CpuMeter>,
}

impl BlockingWorker {
    /// Creates a worker on the blocking threads of the caller's runtime.
    #[must_use]
    pub fn new(config: ExtractorConfig, metrics: ExtractorMetrics) -> Self {
        let threads = Arc::new(Semaphore::new(config.threads.clamp(1, Semaphore::MAX_PERMITS)));
        let memory = ByteBudget::new(config.memory, metrics.memory.clone());
        Self {
            pages: Arc::new(Extraction { config, metrics, memory }),
            runtime: Handle::current(),
            threads,
            meter: None,
        }
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
            // The semaphore is never closed; if it were, running the job without a limit would be better than not at
            // all.
            let permit = threads.acquire_owned().await;
            let mut left = Some((job, None));
            while let Some((job, memory)) = left.take() {
                let (on_thread, meter) = (Arc::clone(&pages), meter.clone());
                let work = move || match meter {
                    Some(meter) => meter.measure(|| on_thread.run(job, memory)),
                    None => on_thread.run(job, memory),
                };
                // Blocking work that has started is cancelled only by the end of the runtime; then the result is not
                // needed.
                let Ok((done, rest)) = tokio::task::spawn_blocking(work).await else { break };
                // The results first, since the remaining pages may wait for their memory.
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
    /// The decompression state is created once per thread, not once per job: jobs are small while few pages are
    /// queued.
    static BODIES: RefCell<BodyReader> = RefCell::default();
}

/// Remaining pages of a job, and the bytes for which the first of them waits.
type Rest = Option<(ExtractJob, usize)>;

/// State shared by all jobs.
#[derive(Debug)]
struct Extraction {
    config: ExtractorConfig,
    metrics: ExtractorMetrics,
    memory: ByteBudget,
}

impl Extraction {
    /// Extracts pages while there is memory for them; `memory` is the reservation of the first.
    fn run(&self, job: ExtractJob, mut memory: Option<Reservation>) -> (ExtractDone, Rest) {
        let ExtractJob { pages, partitions, now } = job;
        let mut done = Vec::with_capacity(pages.len());
        let mut pages = pages.into_iter();
        while let Some((origin, page)) = pages.next() {
            let needed = self.needed(&page);
            let Some(memory) = memory.take().or_else(|| self.memory.try_reserve(needed)) else {
                let pages = std::iter::once((origin, page)).chain(pages).collect();
                return (done, Some((ExtractJob { pages, partitions, now }, needed)));
            };
            let start = Instant::now();
            let extract = |bodies: &mut BodyReader| process(&page, (partitions, now), bodies, &self.config);
            let verdict = BODIES.with_borrow_mut(extract);
            self.metrics.seconds.observe(start.elapsed().as_secs_f64());
            done.push((origin, holding(verdict, memory)));
        }
        (done, None)
    }

    /// Returns the memory to reserve for extracting a page, in bytes.
    fn needed(&self, page: &PagePass) -> usize {
        let body = page.record.value.as_deref().unwrap_or_default();
        expected_bytes(body, self.config.max_body_bytes).saturating_mul(WORKING_FACTOR)
    }
}

/// Attaches the memory reservation to the result: set to its present size, and held until its last record is dropped. A
/// result beyond its reservation may exceed the budget; then no page is extracted until as much has been released.
fn holding(mut verdict: PageVerdict, mut memory: Reservation) -> PageVerdict {
    let (records, links, compared) = match &mut verdict {
        PageVerdict::Extracted(result) => {
            let PageResult { links, records, compared, .. } = &mut **result;
            let links = links.links.iter().map(|(url, _)| url.len() + LINK_BYTES).sum::<usize>();
            (records, links, compared.as_mut())
        }
        PageVerdict::Discovered(result) => (&mut result.records, 0, None),
        PageVerdict::PassedOver { records, .. } => (records, 0, None),
        PageVerdict::Rejected(_) => return verdict,
    };
    let bytes: usize = records.iter().filter_map(|record| record.value.as_ref()).map(Bytes::len).sum();
    memory.set(bytes + links);
    match compared {
        // The stage completes the document.
        Some(compared) => compared.memory = Some(memory),
        None => attach(records, memory),
    }
    verdict
}

/// Holds the reservation until the last of the records is dropped.
pub(crate) fn attach(records: &mut [Record], memory: Reservation) {
    if let Some(value) = records.last_mut().and_then(|record| record.value.as_mut()) {
        *value = memory.attach(std::mem::take(value));
    }
}
