//! One process: a service's stage with the real runner, on this process's view of the log, the store and the web.

use std::{
    convert::Infallible,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::{BoxFuture, FutureExt};
use orbweaver_extractor::{ExtractorStage, body::BodyReader, job};
use orbweaver_fetcher::{FetchWorker, FetcherConfig, FetcherStage};
use orbweaver_frontier::{EventWriter, FrontierIndex, FrontierStage, FrontierView};
use orbweaver_log::Log;
use orbweaver_normalizer_dedup::NormalizerDedup;
use orbweaver_rate_limiter::RateLimiterStage;
use orbweaver_stage::{Clock, NoEffects, NoJobs, Perform, Runner, Stage, StageError, Worker};
use orbweaver_store::{
    CaptureRow, ContentRow, FetchEvent, LinksOut, MemoryStore, PageRow, RedirectRow, RobotsRow, SitePage, Store,
    StoreError, StoreWriter, Write,
};
use orbweaver_url::{CrawlName, Fingerprint};
use tokio::{sync::mpsc::UnboundedSender, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    broken::{Broken, BrokenStage},
    counts::Counts,
    gate::Gate,
    network::ProcessLog,
    random::Random,
    settings::{Service, Settings},
    time::{MachineClock, Time},
    web::{Served, Visitor},
};

/// Parts of a process.
pub(crate) struct Parts {
    pub(crate) service: Service,
    pub(crate) number: usize,
    pub(crate) log: ProcessLog,
    pub(crate) gate: Arc<Gate>,
    pub(crate) clock: MachineClock,
    pub(crate) time: Time,
    pub(crate) random: Random,
    pub(crate) index_dir: PathBuf,
    pub(crate) shutdown: CancellationToken,
    pub(crate) outside: Outside,
}

/// Environment that all processes share, apart from the log.
#[derive(Clone)]
pub(crate) struct Outside {
    pub(crate) served: Arc<Served>,
    pub(crate) store: SharedStore,
    pub(crate) settings: Arc<Settings>,
    pub(crate) counts: Counts,
    pub(crate) broken: Broken,
    /// The page whose record crashes the extractor that receives it.
    pub(crate) poison: Option<Arc<str>>,
    /// Maximum age of an index over a compacted log.
    pub(crate) index_within: Duration,
}

/// The store, and whether it is unavailable.
#[derive(Clone, Default)]
pub(crate) struct SharedStore {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) away: Arc<AtomicBool>,
}

/// Runs a process to its end.
pub(crate) async fn run(parts: Parts) -> Result<(), StageError> {
    let settings = parts.outside.settings.clone();
    let counts = parts.outside.counts.clone();
    match parts.service {
        Service::Dedup => {
            let config = settings.dedup(parts.index_dir.clone());
            let stage = NormalizerDedup::open(config, &parts.log).await?;
            serve(stage, NoJobs, NoEffects, parts).await
        }
        Service::Frontier => {
            let view = Arc::<FrontierView>::default();
            let stage = FrontierStage::new(settings.frontier(), counts.frontier, view.clone());
            let stage = if settings.frontier_on_disk {
                let index = FrontierIndex::open(&parts.index_dir);
                stage.with_index(index.map_err(|error| halted("frontier", &error))?)
            } else {
                stage
            };
            let events = write_events(parts.log.clone(), view, parts.clock.clone());
            tokio::select! {
                biased; // In this order, so that a schedule repeats itself.
                result = serve(stage, NoJobs, NoEffects, parts) => result,
                never = events => match never {},
            }
        }
        Service::Limiter => {
            let stage = RateLimiterStage::new(settings.limiter(), counts.limiter);
            serve(stage, NoJobs, NoEffects, parts).await
        }
        Service::Fetcher => {
            let Parts { outside, gate, clock, time, random, .. } = &parts;
            let by = (parts.number, gate.clone());
            let visitor = Visitor::new(outside.served.clone(), by, (*time, clock.clone()), random.split("client"));
            let visitor = visitor.without(&outside.broken);
            let store: Arc<dyn Store> = Arc::new(ProcessStore { shared: outside.store.clone(), gate: gate.clone() });
            let config = FetcherConfig { sitemaps: outside.served.web.sitemaps, ..settings.fetcher() };
            let stage = FetcherStage::new(config, counts.fetcher, Arc::default());
            let clock = Arc::new(clock.clone());
            let worker = FetchWorker::new(Arc::new(visitor), store.clone(), clock, stage.memory());
            serve(stage, worker, StoreWriter::new(store), parts).await
        }
        Service::Extractor => {
            let store = Arc::new(ProcessStore { shared: parts.outside.store.clone(), gate: parts.gate.clone() });
            let worker = Extracting { settings: settings.clone(), gate: parts.gate.clone() };
            let stage = ExtractorStage::new(settings.extractor(), counts.extractor);
            serve(stage, worker, StoreWriter::new(store), parts).await
        }
    }
}

/// Writes events of crawls every second, as the process of the frontier does.
async fn write_events(log: ProcessLog, view: Arc<FrontierView>, clock: MachineClock) -> Infallible {
    let mut writer = EventWriter::default();
    loop {
        sleep(Duration::from_secs(1)).await;
        match view.crawls() {
            // Without the brokers, the step is repeated.
            Some(crawls) => drop(writer.step(&log, &crawls, clock.now()).await),
            None => writer.leave(),
        }
    }
}

fn halted(service: &'static str, error: &dyn std::fmt::Display) -> StageError {
    StageError::Halted { service, reason: error.to_string() }
}

async fn serve<S, W, P>(stage: S, worker: W, perform: P, parts: Parts) -> Result<(), StageError>
where
    S: Stage,
    W: Worker<S::Job, S::Done>,
    P: Perform<S::Effect>,
{
    let config = parts.outside.settings.runner(parts.service);
    let clock: Arc<dyn Clock> = Arc::new(parts.clock);
    let log: Arc<dyn Log> = Arc::new(parts.log);
    let Outside { broken, poison, index_within, .. } = &parts.outside;
    let stage = BrokenStage::new(stage, broken.clone(), poison.clone(), *index_within);
    let runner = Runner::new(stage, log, worker, perform, config);
    runner.with_clock(clock).with_metrics(&parts.outside.counts.stage).run(parts.shutdown).await
}

/// Worker that extracts in the same thread, after a short delay.
struct Extracting {
    settings: Arc<Settings>,
    gate: Arc<Gate>,
}

impl Worker<job::ExtractJob, job::ExtractDone> for Extracting {
    fn start(&self, job: job::ExtractJob, results: &UnboundedSender<job::ExtractDone>) {
        let (settings, gate, results) = (self.settings.clone(), self.gate.clone(), results.clone());
        tokio::spawn(async move {
            sleep(Duration::from_millis(2)).await;
            gate.runs().await;
            let config = settings.extractor();
            let mut bodies = BodyReader::default();
            let context = (job.partitions, job.now);
            let extract = |(origin, page)| (origin, job::process(&page, context, &mut bodies, &config));
            let _ = results.send(job.pages.into_iter().map(extract).collect());
        });
    }
}

/// The store, as one process reaches it.
struct ProcessStore {
    shared: SharedStore,
    gate: Arc<Gate>,
}

impl ProcessStore {
    async fn way(&self) -> Result<(), StoreError> {
        self.gate.runs().await;
        sleep(Duration::from_millis(1)).await;
        self.gate.runs().await;
        if self.shared.away.load(Ordering::Relaxed) {
            return Err(StoreError::Failed("the store is unavailable".to_owned()));
        }
        Ok(())
    }

    async fn write_all(&self, writes: Arc<[Write]>) -> Result<(), StoreError> {
        self.way().await?;
        self.shared.store.write_shared(writes).await?;
        // The write is durable; the acknowledgement may still be lost.
        self.way().await
    }
}

impl Store for ProcessStore {
    fn write_shared(&self, writes: Arc<[Write]>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write_all(writes).boxed()
    }

    fn page(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<PageRow>, StoreError>> {
        async move {
            self.way().await?;
            self.shared.store.page(fingerprint).await
        }
        .boxed()
    }

    fn history(&self, fingerprint: Fingerprint, limit: usize) -> BoxFuture<'_, Result<Vec<FetchEvent>, StoreError>> {
        async move {
            self.way().await?;
            self.shared.store.history(fingerprint, limit).await
        }
        .boxed()
    }

    fn links(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<LinksOut>, StoreError>> {
        async move {
            self.way().await?;
            self.shared.store.links(fingerprint).await
        }
        .boxed()
    }

    fn redirect(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<RedirectRow>, StoreError>> {
        async move {
            self.way().await?;
            self.shared.store.redirect(fingerprint).await
        }
        .boxed()
    }

    fn robots<'a>(&'a self, authority: &'a str) -> BoxFuture<'a, Result<Option<RobotsRow>, StoreError>> {
        async move {
            self.way().await?;
            self.shared.store.robots(authority).await
        }
        .boxed()
    }

    fn captures(&self, fingerprint: Fingerprint, limit: usize) -> BoxFuture<'_, Result<Vec<CaptureRow>, StoreError>> {
        async move {
            self.way().await?;
            self.shared.store.captures(fingerprint, limit).await
        }
        .boxed()
    }

    fn content<'a>(&'a self, content_hash: &'a str) -> BoxFuture<'a, Result<Option<ContentRow>, StoreError>> {
        async move {
            self.way().await?;
            self.shared.store.content(content_hash).await
        }
        .boxed()
    }

    fn site_pages<'a>(
        &'a self,
        crawl: &'a CrawlName,
        site: &'a str,
        after: Option<Fingerprint>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<SitePage>, StoreError>> {
        async move {
            self.way().await?;
            self.shared.store.site_pages(crawl, site, after, limit).await
        }
        .boxed()
    }
}
