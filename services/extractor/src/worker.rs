//! The edge: jobs run on blocking threads, no more at a time than there are cores.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use orbweaver_stage::{CpuMeter, Worker};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedSender;

use crate::body::BodyReader;
use crate::job::{ExtractDone, ExtractJob, PageVerdict, process};
use crate::{ExtractorConfig, ExtractorMetrics};

/// Runs jobs on blocking threads.
#[derive(Debug)]
pub struct BlockingWorker {
    config: Arc<ExtractorConfig>,
    metrics: ExtractorMetrics,
    runtime: Handle,
    threads: Arc<Semaphore>,
    meter: Option<CpuMeter>,
}

impl BlockingWorker {
    /// A worker on the blocking threads of `runtime`.
    #[must_use]
    pub fn new(config: ExtractorConfig, metrics: ExtractorMetrics, runtime: Handle) -> Self {
        let threads = Arc::new(Semaphore::new(config.threads.clamp(1, Semaphore::MAX_PERMITS)));
        Self { config: Arc::new(config), metrics, runtime, threads, meter: None }
    }

    /// Adds the CPU time of the jobs to `meter`.
    #[must_use]
    pub fn with_meter(self, meter: CpuMeter) -> Self {
        Self { meter: Some(meter), ..self }
    }
}

impl Worker<ExtractJob, ExtractDone> for BlockingWorker {
    fn start(&self, job: ExtractJob, results: &UnboundedSender<ExtractDone>) {
        let (config, metrics) = (Arc::clone(&self.config), self.metrics.clone());
        let (threads, results) = (Arc::clone(&self.threads), results.clone());
        let meter = self.meter.clone();
        let work = move || match meter {
            Some(meter) => meter.measure(|| run(job, &config, &metrics)),
            None => run(job, &config, &metrics),
        };
        let job = async move {
            // The semaphore is never closed; if it were, the job ran without a bound rather than not at all.
            let permit = threads.acquire_owned().await;
            let work = tokio::task::spawn_blocking(work);
            // Blocking work that was started is cancelled by the end of the runtime only; then nobody waits.
            if let Ok(done) = work.await {
                let _ = results.send(done);
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

fn run(job: ExtractJob, config: &ExtractorConfig, metrics: &ExtractorMetrics) -> ExtractDone {
    BODIES.with_borrow_mut(|kept| {
        let mut bodies = match kept.take().map_or_else(BodyReader::new, Ok) {
            Ok(bodies) => bodies,
            Err(error) => {
                let reject = |(origin, _)| (origin, PageVerdict::Rejected(error.to_string()));
                return ExtractDone { pages: job.pages.into_iter().map(reject).collect() };
            }
        };
        let done = extract_all(job, &mut bodies, config, metrics);
        *kept = Some(bodies);
        done
    })
}

fn extract_all(
    job: ExtractJob,
    bodies: &mut BodyReader,
    config: &ExtractorConfig,
    metrics: &ExtractorMetrics,
) -> ExtractDone {
    let context = (job.partitions, job.now);
    let extract = |(origin, record)| {
        let start = Instant::now();
        let verdict = process(&record, context, bodies, config);
        metrics.seconds.observe(start.elapsed().as_secs_f64());
        (origin, verdict)
    };
    ExtractDone { pages: job.pages.into_iter().map(extract).collect() }
}
