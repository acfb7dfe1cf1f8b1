//! The edge: jobs run on blocking threads, no more at a time than there are cores.

use std::sync::Arc;
use std::time::Instant;

use orbweaver_stage::Worker;
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
}

impl BlockingWorker {
    /// A worker on the blocking threads of `runtime`.
    #[must_use]
    pub fn new(config: ExtractorConfig, metrics: ExtractorMetrics, runtime: Handle) -> Self {
        let threads = Arc::new(Semaphore::new(config.threads.clamp(1, Semaphore::MAX_PERMITS)));
        Self { config: Arc::new(config), metrics, runtime, threads }
    }
}

impl Worker<ExtractJob, ExtractDone> for BlockingWorker {
    fn start(&self, job: ExtractJob, results: &UnboundedSender<ExtractDone>) {
        let (config, metrics) = (Arc::clone(&self.config), self.metrics.clone());
        let (threads, results) = (Arc::clone(&self.threads), results.clone());
        self.runtime.spawn(async move {
            // The semaphore is never closed; if it were, the job ran without a bound rather than not at all.
            let permit = threads.acquire_owned().await;
            let work = tokio::task::spawn_blocking(move || run(job, &config, &metrics));
            // Blocking work that was started is cancelled by the end of the runtime only; then nobody waits.
            if let Ok(done) = work.await {
                let _ = results.send(done);
            }
            drop(permit);
        });
    }
}

fn run(job: ExtractJob, config: &ExtractorConfig, metrics: &ExtractorMetrics) -> ExtractDone {
    let mut bodies = match BodyReader::new() {
        Ok(bodies) => bodies,
        Err(error) => {
            let reject = |(origin, _)| (origin, PageVerdict::Rejected(error.to_string()));
            return ExtractDone { pages: job.pages.into_iter().map(reject).collect() };
        }
    };
    let context = (job.partitions, job.now);
    let extract = |(origin, record)| {
        let start = Instant::now();
        let verdict = process(&record, context, &mut bodies, config);
        metrics.seconds.observe(start.elapsed().as_secs_f64());
        (origin, verdict)
    };
    ExtractDone { pages: job.pages.into_iter().map(extract).collect() }
}
